"""Is the certificate of Run:ai's backend valid: its chain, its names, its key, its dates?

Facts in, sentences out. What must not be here: parsing PEM (that is
:mod:`appliance.adapters.runai.backend_certificate`), or reading a clock.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, NamedTuple

from appliance.model.documents.pages import VAULT_EDIT
from appliance.model.state.certificates import DAY

KEY_NAME = "vault_runai_tls_key"
KeyState = Literal["matches", "other", "unreadable", "absent", "vault closed"]


@dataclass(frozen=True)
class Link:
    """One certificate of a chain; times are UTC epoch seconds."""

    subject: str
    issuer: str
    not_before: float
    not_after: float
    is_authority: bool = False


@dataclass(frozen=True)
class BackendCertificate:
    """The contents of a certificate file, and the state of the key in the vault.

    Attributes:
        unreadable: why the file could not be read as a certificate; then nothing else is known.
        names: the alternative names of the first certificate.
        links: the first certificate, then its issuers, as far as the file contains them.
        authority: subject of the CA that clients trust: the organisation's, or the site's.
        trusted: that CA signed the last link.
    """

    path: str
    unreadable: str = ""
    names: tuple[str, ...] = ()
    links: tuple[Link, ...] = ()
    authority: str | None = None
    trusted: bool = False
    key: KeyState = "matches"


class CertificateFault(NamedTuple):
    """What was found, what is expected, and the next command."""

    severity: Literal["error", "warning"]
    seen: str
    expected: str
    hint: str


def certificate_faults(
    certificate: BackendCertificate, name: str, now: float, minimum_days: int
) -> Iterator[CertificateFault]:
    """Yield everything for which clients would refuse the backend.

    Args:
        certificate: what the file shows.
        name: the backend's name.
        now: the clock, UTC epoch seconds.
        minimum_days: how many days it must still be valid for.
    """
    look = f"openssl x509 -noout -text -in {shlex.quote(certificate.path)}"
    if certificate.unreadable:
        yield CertificateFault(
            "error",
            f"{certificate.path}: {certificate.unreadable}",
            "a PEM file with the backend's certificate first, then its issuers",
            f"copy the right file there: {look}",
        )
        return
    yield from _names(certificate, name)
    yield from _chain(certificate)
    for link in certificate.links:
        yield from _times(link, now, minimum_days)
    yield from _key(certificate)


def covers(pattern: str, name: str) -> bool:
    """Whether a name in a certificate matches ``name``; a wildcard stands for one label."""
    pattern, name = pattern.lower(), name.lower()
    if pattern.startswith("*."):
        return name.partition(".")[2] == pattern[2:]
    return pattern == name


def _names(certificate: BackendCertificate, name: str) -> Iterator[CertificateFault]:
    if any(covers(pattern, name) for pattern in certificate.names):
        return
    found = ", ".join(certificate.names)
    yield CertificateFault(
        "error",
        f"a certificate for {found}" if found else "a certificate without alternative names",
        f"{name} among its alternative names: browsers and the API server use only those",
        f"ask for one with subjectAltName=DNS:{name}, or correct runai.domain in site.yml",
    )


def _chain(certificate: BackendCertificate) -> Iterator[CertificateFault]:
    first, last = certificate.links[0], certificate.links[-1]
    # By default "openssl req -x509" also makes a CA; its names tell the two apart.
    if first.is_authority and not certificate.names:
        yield CertificateFault(
            "error",
            f"a CA ({first.subject}) as the first certificate of {certificate.path}",
            "the backend's own certificate first, then its issuers",
            "put the certificates of the file into that order",
        )
    elif certificate.authority is None:
        yield CertificateFault(
            "warning",
            f"a certificate issued by {last.issuer}, and no CA to verify it with",
            "the CA that the organisation's machines trust",
            "name it in site.yml: certificates.organisation_ca, or open the vault",
        )
    elif not certificate.trusted:
        yield CertificateFault("error", *_untrusted(certificate, first, last))


def _untrusted(certificate: BackendCertificate, first: Link, last: Link) -> tuple[str, str, str]:
    expected = f"a chain that ends at {certificate.authority}, which the nodes trust"
    if first.subject == first.issuer:
        return (
            f"a self-signed certificate of {first.subject}: logins fail with 401",
            expected,
            "have it signed by that CA: appliance runai csr",
        )
    return (
        f"a chain that ends at {last.issuer}, which the nodes do not trust",
        expected,
        f"add the intermediate certificates to {certificate.path}, or name the CA that signed it "
        "in site.yml: certificates.organisation_ca",
    )


def _times(link: Link, now: float, minimum_days: int) -> Iterator[CertificateFault]:
    left = (link.not_after - now) / DAY
    if now < link.not_before:
        yield CertificateFault(
            "error",
            f"{link.subject}: not valid before {_day(link.not_before)}, and this clock says "
            f"{_day(now)}",
            "a certificate that is valid now, and a correct clock",
            "check the clock (date --utc), then ask for a certificate that is valid today",
        )
    elif left <= 0:
        yield CertificateFault(
            "error",
            f"{link.subject}: expired on {_day(link.not_after)}; this clock says {_day(now)}",
            "a certificate that is valid now, and a correct clock",
            "check the clock (date --utc), then ask for a new certificate",
        )
    elif left < minimum_days:
        yield CertificateFault(
            "error",
            f"{link.subject}: expires on {_day(link.not_after)}, in {_span(left)}",
            f"at least {minimum_days} days, as set by runai.certificate_minimum_days in site.yml",
            "ask for a new certificate before Run:ai is installed with this one",
        )


def _day(epoch: float) -> str:
    return datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _span(days: float) -> str:
    return f"{days:.0f} days" if days >= 2 else f"{days * 24:.0f} hours"


def _key(certificate: BackendCertificate) -> Iterator[CertificateFault]:
    said: dict[KeyState, tuple[Literal["error", "warning"], str]] = {
        "other": ("error", f"a key in the vault ({KEY_NAME}) that belongs to another certificate"),
        "unreadable": ("error", f"a value in the vault ({KEY_NAME}) that is not a private key"),
        "absent": ("error", f"no {KEY_NAME} in the vault"),
        "vault closed": ("warning", "a vault that is locked, so its key was not checked"),
    }
    if certificate.key in said:
        severity, seen = said[certificate.key]
        yield CertificateFault(
            severity,
            seen,
            f"the private key of {certificate.path}",
            f"add it, in the site's directory: {VAULT_EDIT}"
            if severity == "error"
            else "set ANSIBLE_VAULT_PASSWORD_FILE, then run the same command again",
        )
