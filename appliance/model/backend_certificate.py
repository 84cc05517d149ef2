"""Is the certificate of Run:ai's backend good: its chain, its names, its key, its time?

Facts in, sentences out. What must not be here: parsing PEM (that is
:mod:`appliance.adapters.backend_certificate`), or reading a clock.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, NamedTuple

from appliance.model.pages import VAULT_EDIT

DAY = 86_400.0
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
    """What a certificate file shows, and the key in the vault beside it.

    Attributes:
        unreadable: why the file is no certificate; then nothing else is known.
        names: the alternative names of the first certificate.
        links: the first certificate, then who signed it, as far as the file leads.
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
    """What is wrong with it, what would be right, and the next command."""

    severity: Literal["error", "warning"]
    seen: str
    expected: str
    hint: str


def certificate_faults(
    certificate: BackendCertificate, name: str, now: float, minimum_days: int
) -> Iterator[CertificateFault]:
    """Everything that would make clients turn away from the backend.

    Args:
        certificate: what the file shows.
        name: the backend's name.
        now: the clock, UTC epoch seconds.
        minimum_days: how long it has to be good for, at least.
    """
    look = f"openssl x509 -noout -text -in {shlex.quote(certificate.path)}"
    if certificate.unreadable:
        yield CertificateFault(
            "error",
            f"{certificate.path}: {certificate.unreadable}",
            "a PEM file with the backend's certificate first, then those that signed it",
            f"put the right file there: {look}",
        )
        return
    yield from _names(certificate, name)
    yield from _chain(certificate)
    for link in certificate.links:
        yield from _times(link, now, minimum_days)
    yield from _key(certificate)


def covers(pattern: str, name: str) -> bool:
    """Whether a name of a certificate means ``name``; a wildcard stands for one label."""
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
        f"{name} among its alternative names: browsers and the API server read nothing else",
        f"ask for one with subjectAltName=DNS:{name}, or correct runai.domain in site.yml",
    )


def _chain(certificate: BackendCertificate) -> Iterator[CertificateFault]:
    first, last = certificate.links[0], certificate.links[-1]
    # What "openssl req -x509" makes is a CA, too, by its defaults; its names tell it from one.
    if first.is_authority and not certificate.names:
        yield CertificateFault(
            "error",
            f"a CA ({first.subject}) as the first certificate of {certificate.path}",
            "the backend's own certificate first, then those that signed it",
            "put the certificates of the file into that order",
        )
    elif certificate.authority is None:
        yield CertificateFault(
            "warning",
            f"a certificate by {last.issuer}, and no CA at hand to check it with",
            "the CA that the organisation's machines trust",
            "name it in site.yml: certificates.organisation_ca, or open the vault",
        )
    elif not certificate.trusted:
        yield CertificateFault("error", *_untrusted(certificate, first, last))


def _untrusted(certificate: BackendCertificate, first: Link, last: Link) -> tuple[str, str, str]:
    expected = f"a chain that ends at {certificate.authority}, which the nodes trust"
    if first.subject == first.issuer:
        return (
            f"a certificate that {first.subject} signed itself: logins then end with 401",
            expected,
            "have it signed by that CA: appliance runai csr",
        )
    return (
        f"a chain that ends at {last.issuer}, whom nobody here trusts",
        expected,
        f"add the certificates in between to {certificate.path}, or name the CA that signed it "
        "in site.yml: certificates.organisation_ca",
    )


def _times(link: Link, now: float, minimum_days: int) -> Iterator[CertificateFault]:
    left = (link.not_after - now) / DAY
    if now < link.not_before:
        yield CertificateFault(
            "error",
            f"{link.subject}: not valid before {_day(link.not_before)}, and this clock says "
            f"{_day(now)}",
            "a certificate that is valid now, and a clock that is right",
            "date --utc; then ask for a certificate that is valid today",
        )
    elif left <= 0:
        yield CertificateFault(
            "error",
            f"{link.subject}: expired on {_day(link.not_after)}; this clock says {_day(now)}",
            "a certificate that is valid now, and a clock that is right",
            "ask for a new certificate; is the clock right? date --utc",
        )
    elif left < minimum_days:
        yield CertificateFault(
            "error",
            f"{link.subject}: expires on {_day(link.not_after)}, in {_span(left)}",
            f"at least {minimum_days} days, as runai.certificate_minimum_days in site.yml says",
            "ask for a new certificate before Run:ai is installed with this one",
        )


def _day(epoch: float) -> str:
    return datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _span(days: float) -> str:
    return f"{days:.0f} days" if days >= 2 else f"{days * 24:.0f} hours"


def _key(certificate: BackendCertificate) -> Iterator[CertificateFault]:
    said: dict[KeyState, tuple[Literal["error", "warning"], str]] = {
        "other": ("error", f"a key in the vault ({KEY_NAME}) that belongs to another certificate"),
        "unreadable": ("error", f"something in the vault ({KEY_NAME}) that is no private key"),
        "absent": ("error", f"no {KEY_NAME} in the vault"),
        "vault closed": ("warning", "a vault whose password is not at hand, so a key unseen"),
    }
    if certificate.key in said:
        severity, seen = said[certificate.key]
        yield CertificateFault(
            severity,
            seen,
            f"the private key of {certificate.path}",
            f"put it there: {VAULT_EDIT}"
            if severity == "error"
            else "set ANSIBLE_VAULT_PASSWORD_FILE and look again",
        )
