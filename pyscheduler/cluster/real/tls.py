"""Make the TLS settings of connections: trusted authorities and the client certificate."""

from __future__ import annotations

import asyncio.sslproto
import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyscheduler.framework.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["AUTHORITY_SETTING", "make_context", "read_files"]

#: The setting that names the authority of the API server's certificate.
AUTHORITY_SETTING: Final = "certificate-authority of the cluster in the kubeconfig"

#: Reasons of OpenSSL that a reader must look up.
_IN_WORDS: Final = {
    "NO_CERTIFICATE_OR_CRL_FOUND": "it has no certificate in the PEM format (-----BEGIN CERTIFICATE-----)",
    "KEY_VALUES_MISMATCH": "the key is not that of the certificate",
}

#: asyncio gives each TLS connection a buffer of 256 KiB; a record has 16 KiB, and there are 60 connections.
asyncio.sslproto.SSLProtocol.max_size = 32 << 10


def make_context(files: Any, source: str) -> ssl.SSLContext:
    """Return the context for connections to the API server; raise `ConfigError` for certificates that do not load.

    `files` is the official client's Configuration; `source` names the kubeconfig in messages. Without an authority of
    its own, the system's authorities are trusted.
    """
    # Not `create_default_context`: newer Pythons make it insist on an extension that many clusters' own authorities
    # lack, and that Go, which all other clients are written in, does not ask for.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if files.verify_ssl:
        # What somebody names as the authority is trusted as it is, an intermediate one or the server's own certificate
        # among them. OpenSSL would go on from there to a certificate that has signed itself; Go does not.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        _load_authority(context, files, source)
    else:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    _load_client_certificate(context, files, source)
    return context


def read_files(files: Any) -> Sequence[bytes]:
    """Return what a context is made of, so that a change can be seen: authority, client certificate, its key.

    Raises `OSError` for a file that cannot be read.
    """
    names = (files.ssl_ca_cert if files.verify_ssl else None, files.cert_file, files.key_file)
    return tuple(Path(name).read_bytes() if name else b"" for name in names)


def _load_client_certificate(context: ssl.SSLContext, files: Any, source: str) -> None:
    if not files.cert_file:
        return

    def refuse() -> str:
        # Without this OpenSSL would ask whoever sits at the terminal, and wait.
        raise ConfigError(f"{source}: the client's key is encrypted; only a key without a password can be used")

    try:
        context.load_cert_chain(files.cert_file, keyfile=files.key_file, password=refuse)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{source}: the client certificate and its key cannot be used: {_why(error)}") from error


def _load_authority(context: ssl.SSLContext, files: Any, source: str) -> None:
    try:
        if files.ssl_ca_cert or files.ca_cert_data:
            context.load_verify_locations(cafile=files.ssl_ca_cert, cadata=files.ca_cert_data)
        else:
            context.load_default_certs()
    except (OSError, TypeError, ValueError) as error:  # TypeError: the data is text beyond ASCII
        raise ConfigError(f"{source}: the certificate-authority cannot be used: {_why(error)}") from error


def _why(error: Exception) -> str:
    reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)
    return _IN_WORDS.get(str(reason)) or " ".join(str(reason).split()) or type(error).__name__
