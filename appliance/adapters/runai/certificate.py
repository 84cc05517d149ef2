"""The backend's key, its certificate request, and a certificate by the site's CA."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from appliance.errors import Refused

if TYPE_CHECKING:
    from appliance.model.site.authority import Authority

VALID_DAYS: Final = 730
# The certificate must be valid on nodes whose clock is behind the control host's.
_BACKDATED: Final = timedelta(hours=1)


def new_key() -> str:
    """A private key (PEM). RSA, because old clients support nothing else."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=3072)
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()


def request_for(domain: str, key: str) -> str:
    """A request (PEM) with the backend's name as subject and alternative name."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.x509.oid import NameOID

    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, domain[:64])])
    request = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(subject)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(domain)]), critical=False)
        .sign(_private(key), hashes.SHA256())
    )
    return request.public_bytes(serialization.Encoding.PEM).decode()


def _private(key: str) -> Any:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization

    try:
        return serialization.load_pem_private_key(key.encode(), None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        # Not chained: the cause may quote the key.
        raise Refused(
            "the existing key is not a PEM private key without a password",
            hint="move it away; the next run creates one",
        ) from (error if isinstance(error, TypeError) else None)


def sign(request: str, authority: Authority, now: datetime | None = None) -> str:
    """A server certificate for the request, followed by the CA's certificate (PEM).

    Raises:
        Refused: the CA has expired, or the request is not signed by its own key.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.x509.oid import ExtendedKeyUsageOID

    csr = x509.load_pem_x509_csr(request.encode())
    issuer = x509.load_pem_x509_certificate(authority.certificate.encode())
    begin = (now or datetime.now(UTC)) - _BACKDATED
    end = min(begin + timedelta(days=VALID_DAYS), issuer.not_valid_after_utc)
    if not csr.is_signature_valid or end <= begin:
        raise Refused(
            "the request is not signed by its own key"
            if end > begin
            else f"the site's CA expired on {issuer.not_valid_after_utc:%Y-%m-%d}",
            hint="create another request: appliance runai csr",
        )
    names = csr.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(_public(issuer))
    certificate = (
        x509.CertificateBuilder()
        .subject_name(csr.subject)
        .issuer_name(issuer.subject)
        .public_key(csr.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(end)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(names.value, critical=False)
        .add_extension(identifier, critical=False)
        .sign(_private(authority.key), hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM).decode()
    return pem + authority.certificate.rstrip("\n") + "\n"


def _public(certificate: Any) -> Any:
    return certificate.public_key()
