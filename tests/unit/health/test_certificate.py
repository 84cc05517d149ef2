"""The backend's certificate: real ones, made with openssl, each wrong in one way."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from appliance.adapters.runai.backend_certificate import describe
from appliance.model.components.runai.backend_certificate import certificate_faults, covers
from appliance.model.state.certificates import DAY
from tests.unit.health.certificates import Organisation

DOMAIN = "runai.rack.test"
NAMES = f"subjectAltName=DNS:{DOMAIN}"


@pytest.fixture(scope="module")
def organisation(tmp_path_factory: pytest.TempPathFactory) -> Organisation:
    """A CA, one in between, another CA, and certificates by each."""
    made = Organisation(tmp_path_factory.mktemp("certificates"))
    made.authority("org-ca")
    made.authority("other-ca")
    made.authority("issuing-ca", by="org-ca")
    made.certificate("good", "org-ca", NAMES)
    made.certificate("deep", "issuing-ca", NAMES)
    made.certificate("foreign", "other-ca", NAMES)
    made.certificate("own", "own", NAMES)
    made.certificate("quick", "quick", f"{NAMES}\nbasicConstraints=critical,CA:TRUE")
    made.certificate("star", "org-ca", "subjectAltName=DNS:*.rack.test")
    made.certificate("elsewhere", "org-ca", "subjectAltName=DNS:www.example.com")
    made.certificate("nameless", "org-ca", "basicConstraints=CA:FALSE")
    made.certificate("short", "org-ca", NAMES, days=1)
    return made


def _faults(
    organisation: Organisation,
    *chain: str,
    key: str | None = "good.key",
    days_later: float = 0,
    authority: bytes | None = b"org",
) -> list[str]:
    ca = organisation.text("org-ca.pem") if authority else None
    text = key
    if key is not None and key.endswith(".key"):
        text = organisation.text(key).decode()
    found = describe("/site/runai.pem", organisation.text(*chain), ca, text)
    now = time.time() + 60 + days_later * DAY
    return [
        f"{f.severity}: found {f.seen}, expected {f.expected}; {f.hint}"
        for f in certificate_faults(found, DOMAIN, now, 30)
    ]


def test_a_good_certificate_has_no_fault(organisation: Organisation) -> None:
    assert _faults(organisation, "good.pem") == []


def test_a_wildcard_covers_one_label(organisation: Organisation) -> None:
    assert _faults(organisation, "star.pem", key="star.key") == []
    assert covers("*.rack.test", "runai.rack.test")
    assert not covers("*.rack.test", "a.runai.rack.test")
    assert not covers("*.rack.test", "rack.test")
    assert covers("RUNAI.rack.test", "runai.rack.test")


def test_a_chain_over_one_in_between_is_followed(organisation: Organisation) -> None:
    assert _faults(organisation, "deep.pem", "issuing-ca.pem", key="deep.key") == []


def test_the_order_behind_the_first_does_not_matter(organisation: Organisation) -> None:
    chain = ("deep.pem", "other-ca.pem", "org-ca.pem", "issuing-ca.pem")
    assert _faults(organisation, *chain, key="deep.key") == []


WRONG = [
    pytest.param(("elsewhere.pem",), "elsewhere.key", 0,
                 ["error: found a certificate for www.example.com", "DNS:runai.rack.test"],
                 id="another name"),
    pytest.param(("nameless.pem",), "nameless.key", 0,
                 ["without alternative names"], id="no alternative name at all"),
    pytest.param(("deep.pem",), "deep.key", 0,
                 ["a chain that ends at CN=issuing-ca, which the nodes", "intermediate"],
                 id="the one in between is missing"),
    pytest.param(("foreign.pem",), "foreign.key", 0,
                 ["a chain that ends at CN=other-ca", "a chain that ends at CN=org-ca"],
                 id="an unknown CA"),
    pytest.param(("foreign.pem", "other-ca.pem"), "foreign.key", 0,
                 ["ends at CN=other-ca, which the nodes"], id="an unknown CA that comes along"),
    pytest.param(("own.pem",), "own.key", 0,
                 ["self-signed certificate of CN=own", "401", "appliance runai csr"],
                 id="signed by itself"),
    pytest.param(("good.pem",), "foreign.key", 0,
                 ["vault_runai_tls_key", "belongs to another certificate"], id="the wrong key"),
    pytest.param(("good.pem",), "", 0,
                 ["no vault_runai_tls_key in the vault"], id="no key"),
    pytest.param(("good.pem",), "not a key", 0,
                 ["is not a private key"], id="something else instead of a key"),
    pytest.param(("good.pem",), None, 0,
                 ["warning: found a vault that is locked"], id="a closed vault"),
    pytest.param(("short.pem",), "short.key", 0,
                 ["CN=short: expires on", "in 24 hours", "at least 30 days"],
                 id="expires tomorrow"),
    pytest.param(("good.pem",), "good.key", 380,
                 ["CN=good: expires on", "in 20 days"], id="expires within the minimum"),
    pytest.param(("good.pem",), "good.key", 401,
                 ["CN=good: expired on", "check the clock"], id="expired"),
    pytest.param(("good.pem",), "good.key", -2,
                 ["CN=good: not valid before", "this clock says"], id="a clock in the past"),
]  # fmt: skip


@pytest.mark.parametrize(("chain", "key", "later", "words"), WRONG)
def test_what_is_wrong_is_said_in_one_sentence(
    organisation: Organisation,
    chain: tuple[str, ...],
    key: str | None,
    later: float,
    words: list[str],
) -> None:
    faults = _faults(organisation, *chain, key=key, days_later=later)
    assert len(faults) == 1, faults
    assert [word for word in words if word not in faults[0]] == [], faults


def test_a_self_signed_certificate_is_reported_as_such_and_not_as_a_ca(
    organisation: Organisation,
) -> None:
    (fault,) = _faults(organisation, "quick.pem", key="quick.key")
    assert "self-signed certificate of CN=quick" in fault


def test_a_ca_in_the_first_place_is_named(organisation: Organisation) -> None:
    faults = _faults(organisation, "org-ca.pem", "good.pem", key="org-ca.key")
    assert any("a CA (CN=org-ca) as the first certificate" in fault for fault in faults)


def test_without_a_ca_at_hand_the_chain_is_not_judged(organisation: Organisation) -> None:
    (fault,) = _faults(organisation, "good.pem", authority=None)
    assert fault.startswith("warning: found a certificate issued by CN=org-ca, and no CA to verify")


def test_a_file_without_a_certificate_is_said_to_have_none(tmp_path: Path) -> None:
    found = describe(str(tmp_path / "runai.pem"), b"nothing of the kind", None, "")
    (fault,) = certificate_faults(found, DOMAIN, time.time(), 30)
    assert "the file has no PEM certificate" in fault.seen


def test_no_key_ever_gets_into_what_is_said(organisation: Organisation) -> None:
    secret = organisation.text("foreign.key").decode().splitlines()[1]
    key = organisation.text("foreign.key").decode()
    found = describe("/site/runai.pem", organisation.text("good.pem"), None, key)
    assert secret not in repr(found)
