"""Serving certificates: read from files, or generated and self-signed.

Source: SecureServingOptions.MaybeDefaultWithSelfSignedCerts in apiserver's server/options.
"""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler.framework.errors import ConfigError, os_error_text
from pyscheduler.serving.self_signing import BETWEEN, make_self_signed

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Pair", "ensure_folder", "names_in", "read_pair", "self_signed", "self_signed_by_child"]

_log = logging.getLogger(__name__)

#: Files in --cert-dir, with kube-scheduler's names, so that its folder can be used here.
_PAIR_NAME: Final = "kube-scheduler"
_SELF_SIGNED: Final = "the self-signed certificate"
_CHILD_SECONDS: Final = 60.0


@attrs.frozen
class Pair:
    """A certificate with its chain, and its key, both PEM; `source` names their flags in messages."""

    certificate: bytes
    key: bytes = attrs.field(repr=False)
    source: str = ""


def read_pair(cert_file: str, key_file: str, *, cert_flag: str, key_flag: str) -> Pair:
    """Read certificate and key; raise `ConfigError` with flag and file if one cannot be read."""
    source = cert_flag if cert_flag == key_flag else f"{cert_flag} and {key_flag}"
    return Pair(_read(cert_file, cert_flag), _read(key_file, key_flag), f"{source} ({cert_file}, {key_file})")


def _read(path: str, flag: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"{flag}: {path}: {os_error_text(error)}") from error


def ensure_folder(folder: str, address: str) -> tuple[str, str]:
    """Return the two files in `folder`; generate missing files. Raises `ConfigError` if that fails."""
    cert, key = Path(folder, f"{_PAIR_NAME}.crt"), Path(folder, f"{_PAIR_NAME}.key")
    if not (cert.exists() and key.exists()):
        pair = self_signed_by_child(address)
        try:
            cert.parent.mkdir(parents=True, exist_ok=True)
            cert.write_bytes(pair.certificate)
            key.touch(mode=0o600)
            key.write_bytes(pair.key)
        except OSError as error:
            raise ConfigError(f"--cert-dir: {error.filename or folder}: {os_error_text(error)}") from error
        _log.info("Generated self-signed certificate file=%s key=%s", cert, key)
    return str(cert), str(key)


def self_signed(address: str) -> Pair:
    """Return a new certificate for `localhost`, 127.0.0.1 and `address`, unless `address` means all interfaces."""
    return Pair(*make_self_signed(address), _SELF_SIGNED)


def self_signed_by_child(address: str) -> Pair:
    """Return a certificate as `self_signed` does, generated in a child process if one can be started."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", make_self_signed.__module__, address],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_CHILD_SECONDS,
            check=True,
        )
        certificate, key = done.stdout.split(BETWEEN)
    except (OSError, subprocess.SubprocessError, ValueError):
        return self_signed(address)  # a sandbox starts no process, or another program embeds the interpreter
    return Pair(certificate, key, _SELF_SIGNED)


def names_in(pair: Pair) -> Sequence[str]:
    """Return the DNS names of a certificate in lower case, or its common name if it has none."""
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    try:
        certificate = x509.load_pem_x509_certificate(pair.certificate)
    except ValueError as error:
        raise ConfigError(f"{pair.source}: the file contains no certificate in PEM") from error
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        names = found.get_values_for_type(x509.DNSName)
    except x509.ExtensionNotFound:
        names = [str(each.value) for each in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    return [name.lower() for name in names]
