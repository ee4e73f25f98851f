"""Certificates for tests, made on the spot: an authority, and what it signs."""

from __future__ import annotations

import datetime as dt
import ipaddress
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_UID = x509.ObjectIdentifier("1.3.6.1.4.1.57683.2")


class Authority:
    """Signs certificates; `pem` is its own."""

    def __init__(self, name: str = "test authority") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.pem = self._sign(self._name, self._key, ca=True).public_bytes(serialization.Encoding.PEM)

    def pair(
        self,
        folder: Path,
        common_name: str,
        *,
        organizations: Sequence[str] = (),
        uids: Sequence[str] = (),
        names: Sequence[str] = (),
        client: bool = False,
        password: bytes | None = None,
        valid_days: float = 1,
    ) -> tuple[str, str]:
        """Write a certificate and its key into `folder`; return both paths. `valid_days` below zero: it has expired."""
        key = ec.generate_private_key(ec.SECP256R1())
        attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, each) for each in organizations]
        attributes += [x509.NameAttribute(_UID, each) for each in uids]
        if common_name:
            attributes.append(x509.NameAttribute(NameOID.COMMON_NAME, common_name))
        certificate = self._sign(x509.Name(attributes), key, names=names, client=client, valid_days=valid_days)
        stem = common_name.replace(":", "-").replace("*", "any") or "nobody"
        cert_file, key_file = folder / f"{stem}.crt", folder / f"{stem}.key"
        cert_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        encryption = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
        key_file.write_bytes(
            key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
        )
        return str(cert_file), str(key_file)

    def _sign(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        *,
        names: Sequence[str] = (),
        client: bool = False,
        ca: bool = False,
        valid_days: float = 1,
    ) -> x509.Certificate:
        now = dt.datetime.now(dt.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(days=9))
            .not_valid_after(now + dt.timedelta(days=valid_days))
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        )
        if not ca:
            usage = ExtendedKeyUsageOID.CLIENT_AUTH if client else ExtendedKeyUsageOID.SERVER_AUTH
            builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        if names:
            alternatives: list[x509.GeneralName] = [
                x509.IPAddress(ipaddress.ip_address(each)) if each[0].isdigit() else x509.DNSName(each)
                for each in names
            ]
            builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        return builder.sign(self._key, hashes.SHA256())
