"""Creates the site's certificate authority."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from appliance.model.site.authority import Authority

VALID_DAYS: Final = 3650
# The CA must be valid on nodes whose clock is behind the control host's.
_BACKDATED: Final = timedelta(days=1)


class SiteAuthorities:
    """Creates authorities.

    Args:
        now: the start of their validity; None for the current time.
    """

    def __init__(self, now: datetime | None = None) -> None:
        self._now = now

    def make(self, name: str) -> Authority:
        """Create a self-signed CA that may sign server certificates, but no further CA."""
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509.oid import NameOID

        now = self._now or datetime.now(UTC)
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{name} site CA"[:64])])
        usage = x509.KeyUsage(
            key_cert_sign=True,
            crl_sign=True,
            digital_signature=False,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            encipher_only=False,
            decipher_only=False,
        )
        identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        certificate = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _BACKDATED)
            .not_valid_after(now + timedelta(days=VALID_DAYS))
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(identifier, critical=False)
            .sign(key, hashes.SHA256())
        )
        return Authority(
            certificate.public_bytes(serialization.Encoding.PEM).decode(),
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            ).decode(),
        )
