"""TLS of the HTTPS port: the certificate for each host name, and the client CAs.

Certificates and CAs can change without a restart.

Differs from kube-scheduler: an untrusted client certificate ends the handshake; kube-scheduler answers with 401.

Source: apiserver's server/options/serving.go and server/dynamiccertificates; component-base's cli/flag/ciphersuites.
"""

from __future__ import annotations

import contextlib
import os
import ssl
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler.framework.errors import ConfigError
from pyscheduler.serving.certificates import Pair, ensure_folder, names_in, read_pair, self_signed_by_child

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyscheduler.flags.run_flags import SecureServingFlags

__all__ = ["ServingTLS"]

_VERSIONS: Final = {
    "": ssl.TLSVersion.TLSv1_2,
    # Go would allow these versions; OpenSSL does not support them at its default security level.
    "VersionTLS10": ssl.TLSVersion.TLSv1_2,
    "VersionTLS11": ssl.TLSVersion.TLSv1_2,
    "VersionTLS12": ssl.TLSVersion.TLSv1_2,
    "VersionTLS13": ssl.TLSVersion.TLSv1_3,
}
#: Go's names of cipher suites, and OpenSSL's. The suites of TLS 1.3 cannot be chosen, as in Go.
_CIPHERS: Final[Mapping[str, str]] = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256": "ECDHE-ECDSA-AES128-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA": "ECDHE-ECDSA-RC4-SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA": "ECDHE-RSA-DES-CBC3-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256": "ECDHE-RSA-AES128-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA": "ECDHE-RSA-RC4-SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA": "DES-CBC3-SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA": "AES128-SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256": "AES128-SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA": "AES256-SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "TLS_RSA_WITH_RC4_128_SHA": "RC4-SHA",
}
_CIPHERS_13: Final = frozenset({"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"})
#: Go's CurveID, and OpenSSL's name.
_CURVES: Final = {"23": "prime256v1", "24": "secp384r1", "25": "secp521r1", "29": "X25519"}


@attrs.frozen
class _Choice:
    """The default context, and the contexts by host name."""

    default: ssl.SSLContext
    named: Mapping[str, ssl.SSLContext]

    def for_name(self, name: str | None) -> ssl.SSLContext:
        """Return the context for a host name: an exact match, a wildcard for its first labels, or the default."""
        if not name:
            return self.default
        labels = name.lower().rstrip(".").split(".")
        for count in range(len(labels)):
            found = self.named.get(".".join([*["*"] * count, *labels[count:]]))
            if found is not None:
                return found
        return self.default


class ServingTLS:
    """The server's TLS contexts. Raises `ConfigError` for flags and files that cannot be used."""

    def __init__(self, flags: SecureServingFlags, *, client_authorities: Sequence[bytes] = ()) -> None:
        self._flags = flags
        self._authorities = tuple(client_authorities)
        if flags.cert_dir and not flags.tls_cert_file:
            self._files: tuple[str, str] | None = ensure_folder(flags.cert_dir, flags.bind_address)
        else:
            self._files = (flags.tls_cert_file, flags.tls_private_key_file) if flags.tls_cert_file else None
        self._made = self_signed_by_child(flags.bind_address) if self._files is None else None
        self._pairs = self._read()
        self._choice = self._build()
        #: The server's context; each handshake continues with a context of the current choice.
        self.context = self._context(self._pairs[0][0])
        self.context.sni_callback = self._pick

    def reload(self, *, client_authorities: Sequence[bytes]) -> bool:
        """Read the files again; return True if something has changed.

        Raises `ConfigError` if something cannot be used; then the previous contexts stay.
        """
        pairs, authorities = self._read(), tuple(client_authorities)
        if pairs == self._pairs and authorities == self._authorities:
            return False
        before = self._pairs, self._authorities
        self._pairs, self._authorities = pairs, authorities
        try:
            self._choice = self._build()
        except ConfigError:
            self._pairs, self._authorities = before
            raise
        # TLS decides whether to request a client certificate before the handshake picks its context.
        self.context.verify_mode = self._choice.default.verify_mode
        return True

    def _pick(self, connection: ssl.SSLObject | ssl.SSLSocket, name: str | None, _context: ssl.SSLContext) -> None:
        connection.context = self._choice.for_name(name)

    def _read(self) -> list[tuple[Pair, Sequence[str]]]:
        """Return all pairs with the names that were configured for them; the first pair is the default."""
        if self._files is not None:
            flags = ("--tls-cert-file", "--tls-private-key-file")
            flags = flags if self._flags.tls_cert_file else ("--cert-dir", "--cert-dir")
            default = read_pair(*self._files, cert_flag=flags[0], key_flag=flags[1])
        else:
            assert self._made is not None
            default = self._made
        flag = "--tls-sni-cert-key"
        return [
            (default, ()),
            *(
                (read_pair(each.cert_file, each.key_file, cert_flag=flag, key_flag=flag), each.names)
                for each in self._flags.tls_sni_cert_key
            ),
        ]

    def _build(self) -> _Choice:
        explicit: dict[str, ssl.SSLContext] = {}
        extracted: dict[str, ssl.SSLContext] = {}
        for pair, names in self._pairs[1:]:
            context = self._context(pair)
            for name in names:
                explicit.setdefault(name.lower(), context)
            for name in () if names else names_in(pair):
                extracted.setdefault(name, context)
        return _Choice(self._context(self._pairs[0][0]), {**extracted, **explicit})

    def _context(self, pair: Pair) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.set_alpn_protocols(["http/1.1"])
        if self._flags.tls_min_version not in _VERSIONS:
            raise ConfigError(f'--tls-min-version: unknown tls version "{self._flags.tls_min_version}"')
        context.minimum_version = _VERSIONS[self._flags.tls_min_version]
        self._set_ciphers(context)
        self._set_curve(context)
        _load(context, pair)
        if self._authorities:
            self._believe(context)
        return context

    def _set_ciphers(self, context: ssl.SSLContext) -> None:
        wanted = []
        for name in self._flags.tls_cipher_suites:
            if name in _CIPHERS_13:
                continue
            try:
                context.set_ciphers(_CIPHERS.get(name, name))
                wanted.append(_CIPHERS[name])
            except (ssl.SSLError, KeyError) as error:
                message = f"--tls-cipher-suites: Cipher suite {name} not supported or doesn't exist"
                raise ConfigError(message) from error
        if wanted:
            context.set_ciphers(":".join(wanted))

    def _set_curve(self, context: ssl.SSLContext) -> None:
        wanted = self._flags.tls_curve_preferences
        if not wanted:
            return
        if len(wanted) > 1 or wanted[0] not in _CURVES:
            known = ", ".join(_CURVES)
            raise ConfigError(
                f"--tls-curve-preferences: {','.join(wanted)}: name one of {known}, or remove the flag to allow all"
            )
        try:
            context.set_ecdh_curve(_CURVES[wanted[0]])
        except (ValueError, ssl.SSLError) as error:
            raise ConfigError(f"--tls-curve-preferences: this OpenSSL does not support {wanted[0]}") from error

    def _believe(self, context: ssl.SSLContext) -> None:
        """Request a client certificate, which is optional."""
        for authority in self._authorities:
            try:
                context.load_verify_locations(cadata=authority.decode("ascii"))
            except (ssl.SSLError, ValueError) as error:
                raise ConfigError("--client-ca-file: the file contains no certificate in PEM") from error
        context.verify_mode = ssl.CERT_OPTIONAL


def _load(context: ssl.SSLContext, pair: Pair) -> None:
    """Load certificate and key into a context; OpenSSL reads them only from files."""

    def refuse() -> str:
        raise ConfigError(f"{pair.source}: the key is encrypted; provide a key without a password")

    with _as_files(pair.certificate, pair.key) as (certificate, key):
        try:
            context.load_cert_chain(certificate, keyfile=key, password=refuse)
        except (ssl.SSLError, ValueError, OSError) as error:
            if getattr(error, "reason", None) == "KEY_VALUES_MISMATCH":
                raise ConfigError(f"{pair.source}: the key does not belong to the certificate") from error
            raise ConfigError(f"{pair.source}: the files are not a certificate and its key in PEM") from error


@contextlib.contextmanager
def _as_files(*contents: bytes) -> Iterator[list[str]]:
    """Yield paths to files with these contents, in memory if possible, because the disk may be read-only."""
    with contextlib.ExitStack() as stack:
        paths = []
        for content in contents:
            if hasattr(os, "memfd_create"):
                descriptor = os.memfd_create("tls", os.MFD_CLOEXEC)
                stack.callback(os.close, descriptor)
                os.write(descriptor, content)
                paths.append(f"/proc/self/fd/{descriptor}")
            else:
                folder = stack.enter_context(tempfile.TemporaryDirectory())
                path = Path(folder, "pem")
                path.touch(mode=0o600)
                path.write_bytes(content)
                paths.append(str(path))
        yield paths
