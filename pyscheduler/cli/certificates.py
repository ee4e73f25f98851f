"""Certificates to serve: read from files, or made where there are none.

What is made is a certificate that signs itself, good for a year and for this machine's own name only: enough for probes
and for who does not look, as kube-scheduler does it. The library that makes it is imported when it is needed.

Source: SecureServingOptions.MaybeDefaultWithSelfSignedCerts in apiserver's server/options.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler.framework.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Pair", "ensure_folder", "names_in", "read_pair", "self_signed"]

_log = logging.getLogger(__name__)

#: Files in --cert-dir; kube-scheduler's own names, so that a folder made for it serves here, too.
_PAIR_NAME: Final = "kube-scheduler"
_VALID_DAYS: Final = 365


@attrs.frozen
class Pair:
    """A certificate (with its chain) and its key, both PEM; `source` names their flags in messages."""

    certificate: bytes
    key: bytes = attrs.field(repr=False)
    source: str = ""


def read_pair(cert_file: str, key_file: str, *, cert_flag: str, key_flag: str) -> Pair:
    """Return the pair in two files; raise `ConfigError` naming flag and file where one cannot be read."""
    source = cert_flag if cert_flag == key_flag else f"{cert_flag} and {key_flag}"
    return Pair(_read(cert_file, cert_flag), _read(key_file, key_flag), f"{source} ({cert_file}, {key_file})")


def _read(path: str, flag: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"{flag}: {path}: {(error.strerror or str(error)).lower()}") from error


def ensure_folder(folder: str, address: str) -> tuple[str, str]:
    """Return the files of the pair in `folder`; make what is not there. Raises `ConfigError` where that fails."""
    cert, key = Path(folder, f"{_PAIR_NAME}.crt"), Path(folder, f"{_PAIR_NAME}.key")
    if not (cert.exists() and key.exists()):
        pair = self_signed(address)
        try:
            cert.parent.mkdir(parents=True, exist_ok=True)
            cert.write_bytes(pair.certificate)
            key.touch(mode=0o600)
            key.write_bytes(pair.key)
        except OSError as error:
            raise ConfigError(
                f"--cert-dir: {error.filename or folder}: {(error.strerror or str(error)).lower()}"
            ) from error
        _log.info("Generated self-signed certificate file=%s key=%s", cert, key)
    return str(cert), str(key)


def self_signed(address: str) -> Pair:
    """Return a new certificate for `localhost`, 127.0.0.1 and `address`, unless that is all interfaces."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    addresses = {ipaddress.ip_address("127.0.0.1"), ipaddress.ip_address(address)}
    names: list[x509.GeneralName] = [x509.DNSName("localhost")]
    names += [x509.IPAddress(each) for each in sorted(addresses, key=str) if not each.is_unspecified]
    now = dt.datetime.now(dt.UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"localhost@{int(now.timestamp())}")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        # An hour back: the clocks of those who ask may be behind.
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(days=_VALID_DAYS))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    return Pair(
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
        "the self-signed certificate",
    )


def names_in(pair: Pair) -> Sequence[str]:
    """Return the names a certificate is for, lower case; of none, its common name."""
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    try:
        certificate = x509.load_pem_x509_certificate(pair.certificate)
    except ValueError as error:
        raise ConfigError(f"{pair.source}: no certificate in PEM is in it") from error
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        names = found.get_values_for_type(x509.DNSName)
    except x509.ExtensionNotFound:
        names = [str(each.value) for each in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    return [name.lower() for name in names]
