"""Generate a self-signed certificate that is valid for one year.

Source: SecureServingOptions.MaybeDefaultWithSelfSignedCerts in apiserver's server/options.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import sys
from typing import Final

__all__ = ["BETWEEN", "make_self_signed"]

#: Separates certificate and key in the command's output; no PEM text has it.
BETWEEN: Final = b"\0"
_VALID_DAYS: Final = 365


def make_self_signed(address: str) -> tuple[bytes, bytes]:
    """Return certificate and key in PEM, for `localhost`, 127.0.0.1 and `address`, unless that is all interfaces."""
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
    return (
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
    )


if __name__ == "__main__":
    sys.stdout.buffer.write(BETWEEN.join(make_self_signed(sys.argv[1])))
