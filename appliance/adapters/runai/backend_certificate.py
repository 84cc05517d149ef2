"""Reads the certificate chain of Run:ai's backend, and compares it with the vault's key.

The key is compared in memory only. Signatures are followed link by link: an incomplete chain is
reported with its last certificate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from appliance.adapters.local.plain_files import read_plain
from appliance.errors import ApplianceError
from appliance.model.components.runai.backend_certificate import (
    KEY_NAME,
    BackendCertificate,
    KeyState,
    Link,
)
from appliance.model.site.vault_ref import CA_CERTIFICATE

if TYPE_CHECKING:
    from cryptography import x509

    from appliance.model.site.settings import Site

_LONGEST: Final = 10
_MOST_BYTES: Final = 1_000_000


def read_backend_certificate(
    site: Site, vault: Mapping[str, str] | None
) -> BackendCertificate | None:
    """The facts of the certificate in site.yml; None if site.yml names none.

    Args:
        site: the site of the backend.
        vault: the secrets from :func:`open_vault`.
    """
    runai = site.settings.runai
    if runai is None or runai.certificate is None:
        return None
    path = site.directory / Path(runai.certificate).expanduser()
    authority = _authority(site, vault)
    try:
        text = read_plain(path, most_bytes=_MOST_BYTES, follow=True)
    except OSError as error:
        return BackendCertificate(str(path), unreadable=error.strerror or str(error))
    key = None if vault is None else vault.get(KEY_NAME, "")
    return describe(str(path), text, authority, key)


def describe(
    path: str, chain: bytes, authority: bytes | None, key: str | None
) -> BackendCertificate:
    """The facts of a chain.

    Args:
        path: for messages.
        chain: PEM, the server's certificate first.
        authority: PEM of the CA that clients trust, or None if it is not available.
        key: PEM of the private key; empty if the vault has none, None if the vault is closed.
    """
    from cryptography import x509

    try:
        certificates = x509.load_pem_x509_certificates(chain)
    except ValueError:
        return BackendCertificate(path, unreadable="the file has no PEM certificate")
    trusted = x509.load_pem_x509_certificates(authority) if authority else []
    links = _links(certificates)
    return BackendCertificate(
        path=path,
        names=_names(certificates[0]),
        links=tuple(_link(certificate) for certificate in links),
        authority=_name(trusted[0].subject) if trusted else None,
        trusted=any(root == links[-1] or _signed(links[-1], root) for root in trusted),
        key=_key_state(certificates[0], key),
    )


def _links(certificates: Sequence[x509.Certificate]) -> list[x509.Certificate]:
    """The first certificate and its signers, as far as the file has them."""
    links = [certificates[0]]
    while len(links) < _LONGEST and links[-1].subject != links[-1].issuer:
        others = (other for other in certificates if other not in links)
        signer = next((other for other in others if _signed(links[-1], other)), None)
        if signer is None:
            break
        links.append(signer)
    return links


def _signed(certificate: x509.Certificate, signer: x509.Certificate) -> bool:
    from cryptography.exceptions import InvalidSignature

    try:
        certificate.verify_directly_issued_by(signer)
    except (InvalidSignature, ValueError, TypeError):
        return False
    return True


def _link(certificate: x509.Certificate) -> Link:
    from cryptography import x509

    try:
        basic = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
        is_authority = basic.value.ca
    except (x509.ExtensionNotFound, ValueError):
        is_authority = False
    return Link(
        _name(certificate.subject),
        _name(certificate.issuer),
        certificate.not_valid_before_utc.timestamp(),
        certificate.not_valid_after_utc.timestamp(),
        is_authority,
    )


def _names(certificate: x509.Certificate) -> tuple[str, ...]:
    from cryptography import x509

    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except (x509.ExtensionNotFound, ValueError):
        return ()
    return tuple(names.value.get_values_for_type(x509.DNSName))


def _name(name: x509.Name) -> str:
    return name.rfc4514_string() or "an empty name"


def _key_state(certificate: x509.Certificate, key: str | None) -> KeyState:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization

    if key is None:
        return "vault closed"
    if not key.strip():
        return "absent"
    try:
        private = serialization.load_pem_private_key(key.encode(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return "unreadable"
    same = private.public_key() == certificate.public_key()
    return "matches" if same else "other"


def open_vault(site: Site) -> Mapping[str, str] | None:
    """The vault's secrets; None if its password is not available."""
    from appliance.adapters.site.vault import AnsibleVault, password_file

    if not site.vault_file.is_file():
        return {}
    try:
        password = password_file(site)
        return AnsibleVault(password).read(site.vault_file) if password else None
    except ApplianceError:
        return None


def _authority(site: Site, vault: Mapping[str, str] | None) -> bytes | None:
    brought = site.settings.certificates.organisation_ca
    if brought is not None:
        try:
            return read_plain(Path(brought), most_bytes=_MOST_BYTES, follow=True)
        except OSError:
            return None
    own = (vault or {}).get(CA_CERTIFICATE.name)
    return own.encode() if own else None
