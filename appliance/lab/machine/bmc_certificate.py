"""A self-signed certificate of a server at one address, as BMCs bring one."""

from __future__ import annotations

import hashlib
import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path
from typing import Final

from appliance.adapters.local.state_files import replace_file

VALID_DAYS: Final = 3650
_BACKDATED: Final = timedelta(days=1)


def self_signed(address: IPv4Address) -> tuple[str, str]:
    """A new certificate and its key, as PEM."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    now = datetime.now(UTC)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"STANDIN BMC {address}")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(now + timedelta(days=VALID_DAYS))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(address)]), critical=False)
        # It is its own authority, where the vault has it as one.
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    return (
        certificate.public_bytes(serialization.Encoding.PEM).decode(),
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ).decode(),
    )


def write_certificate(folder: Path, name: str, address: IPv4Address) -> str:
    """Write NAME.key and NAME.crt unless they are there; return the certificate.

    Raises:
        OSError: they could not be read or written.
    """
    path = folder / f"{name}.crt"
    if not path.exists():
        certificate, key = self_signed(address)
        # The certificate last: where it is, its key is, too.
        replace_file(folder / f"{name}.key", key)
        replace_file(path, certificate)
    return path.read_text("utf-8")


def fingerprint(certificate: str) -> str:
    """The SHA-256 of a PEM certificate, as ``bmc_fingerprint`` has it."""
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(certificate)).hexdigest()
