"""What ends and counts: each source, each doubt, and what is no alarm."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from appliance.model.components.runai.backend_certificate import BackendCertificate, Link
from appliance.model.site.settings import Site
from appliance.model.state.facts.facts import NodeFacts
from appliance.model.state.observed import Fault, Look
from appliance.model.upkeep.horizon.calendar import calendar
from appliance.model.upkeep.horizon.endings import Ending, Seen, due, horizon
from tests import samples
from tests.unit.certificates import rack as racks

NOW = 1_800_000_000.0


def at(days: float) -> str:
    return (datetime.fromtimestamp(NOW, UTC) + timedelta(days=days)).isoformat()


def document(**days: float) -> dict[str, Any]:
    """Facts of cp1 by the same clock; ``days``: what ends when."""
    site = samples.site()
    found = samples.converged(site.node("cp1"), samples.desired(site))
    found["clock"]["epoch"] = NOW
    racks.ends(found, **days)
    found["certificates"] = [
        {"path": "/etc/appliance/tls/artifacts.crt", "not_after": at(100)},
        {"path": "/etc/appliance/tls/registry.crt", "not_after": at(200)},
    ]
    found["trust"]["site_ca_not_after"] = at(3000)
    return found


def listed(
    site: Site | None = None, faults: tuple[Fault, ...] = (), facts: Any = None, **seen: Any
) -> tuple[Ending, ...]:
    site = site or samples.site()
    look = Look({} if facts is False else {"cp1": NodeFacts(facts or document())}, faults)
    return horizon(site, samples.desired(site).release, Seen(look, **seen))


def named(endings: tuple[Ending, ...], what: str) -> Ending:
    (found,) = (one for one in endings if what in one.what)
    return found


def test_the_earliest_is_first_and_what_is_unknown_last() -> None:
    found = listed(facts=document(server=5, admin=300))
    ahead = [one for one in found if (one.left(NOW) or 0) >= 0]
    assert (ahead[0].where, ahead[0].what) == ("cp1", racks.SERVER)
    known = [one.ends for one in found if one.ends is not None]
    assert known == sorted(known)
    assert all(one.ends is None for one in found[len(known) :])
    assert {one.kind for one in found} == {"certificate", "authority", "support"}


@pytest.mark.parametrize(
    ("what", "days", "next_"),
    [
        (racks.SERVER, 364.5, "appliance cluster certificates renew"),
        ("mirror: ", 100, "appliance install"),
        ("registry: ", 200, "appliance install"),
        ("CA of the site", 3000, "appliance docs index"),
    ],
)
def test_each_source_says_when_and_what_is_next(what: str, days: float, next_: str) -> None:
    one = named(listed(), what)
    assert one.left(NOW) == pytest.approx(days, abs=0.01)
    assert one.next == next_


def test_a_kubelet_counts_only_once_it_did_not_renew_its_own() -> None:
    path = racks.KUBELET
    assert not named(listed(facts=document(kubelet=20)), path).counts
    assert named(listed(facts=document(kubelet=3)), path).counts


def test_the_certificate_that_the_site_brings_is_listed_link_by_link() -> None:
    links = (
        Link("CN=runai", "CN=CA", NOW, NOW + 86_400 * 10),
        Link("CN=CA", "CN=CA", NOW, NOW + 86_400 * 900, is_authority=True),
    )
    found = listed(backend=BackendCertificate("runai.crt", links=links))
    assert named(found, "backend: CN=runai").kind == "certificate"
    assert named(found, "backend: CN=CA").kind == "authority"
    broken = listed(backend=BackendCertificate("runai.crt", unreadable="permission denied"))
    assert named(broken, "Run:ai's backend").unknown == "runai.crt: permission denied"


def test_join_tokens_are_listed_and_are_no_alarm() -> None:
    found = listed(tokens=[at(0.5)])
    assert named(found, "join token").left(NOW) == pytest.approx(0.5, abs=0.01)
    assert due(found, NOW, 30) == ()
    assert named(listed(tokens_unread="cp1: kubeadm: no"), "join tokens").unknown


def test_a_node_that_does_not_answer_is_unknown_and_not_absent() -> None:
    found = listed(faults=(Fault("w1", "w1: no SSH on port 22", "ping it"),), facts=False)
    one = named(found, "all certificates")
    assert (one.where, one.ends, one.unknown) == ("w1", None, "w1: no SSH on port 22")
    assert named(found, "CA of the site").unknown == "no node that answers has it"


@pytest.mark.parametrize(
    ("section", "what"),
    [
        ("kubernetes", "certificates of Kubernetes"),
        ("certificates", "certificates of mirror and registry"),
        ("trust", "CA of the site"),
        ("runai", "Run:ai's backend, as served"),
    ],
)
def test_what_a_node_could_not_read_is_unknown_and_not_absent(section: str, what: str) -> None:
    facts = document()
    facts[section] = None
    facts["unreadable"] = [{"section": section, "reason": "openssl timed out"}]
    one = next(one for one in listed(facts=facts) if one.where == "cp1" and one.what == what)
    assert (one.ends, one.unknown) == (None, "openssl timed out")


def test_a_control_plane_node_that_tells_of_no_certificate_is_unknown() -> None:
    facts = document()
    facts["kubernetes"]["pki"] = []
    facts["kubernetes"]["kubeconfigs"] = []
    facts["kubernetes"]["kubelet_active"] = True
    assert named(listed(facts=facts), "certificates of Kubernetes").unknown == "it tells of none"


def test_a_clock_of_a_node_that_is_late_hides_no_kubelet() -> None:
    facts = document(kubelet=3)
    facts["clock"]["epoch"] = NOW - 400 * 86_400
    assert named(listed(facts=facts, epoch=NOW), racks.KUBELET).counts


@pytest.mark.parametrize(
    "text",
    [
        *("9999-12-31T23:59:59Z", "9999-12-31T23:59:59-12:00"),
        *("0001-01-01T00:00:00Z", "0001-01-01T00:00:00+14:00"),
    ],
)
def test_days_at_the_ends_of_time_are_listed_and_are_in_the_calendar(text: str) -> None:
    """99991231235959Z is what RFC 5280 writes for a certificate that never ends."""
    facts = document()
    facts["trust"]["site_ca_not_after"] = text
    found = listed(facts=facts)
    one = named(found, "CA of the site")
    assert one.ends is not None
    assert one.ends.year in {1, 9999}
    assert one.is_due(NOW, 30) is text.startswith("0001")
    assert "SUMMARY:rack: CA of the site ends (site)" in calendar("rack", found, NOW)


def test_a_day_is_the_one_in_utc() -> None:
    facts = document()
    facts["trust"]["site_ca_not_after"] = "2027-06-01T01:00:00+10:00"
    ends = named(listed(facts=facts), "CA of the site").ends
    assert ends is not None
    assert f"{ends:%Y-%m-%d}" == "2027-05-31"


def test_what_no_program_tells_is_said_to_be_unknown() -> None:
    site = samples.site(runai={"access": {"enabled": True}}, gpu={})
    found = listed(site)
    assert named(found, "OIDC issuer").ends is None
    assert {one.what for one in found if one.kind == "licence"} == {
        "Run:ai",
        "NVIDIA AI Enterprise, where you have it",
    }


def test_support_is_as_the_release_says_and_unknown_without_a_word() -> None:
    release = samples.desired(samples.site()).release
    told = release.model_copy(update={"support_ends": {"kubernetes": date(2028, 2, 28)}})
    found = horizon(samples.site(), told, Seen(Look({})))
    assert named(found, "support of kubernetes").ends == datetime(
        2028, 2, 28, 23, 59, 59, tzinfo=UTC
    )
    assert named(found, "support of etcd").unknown == "the release does not say"


@pytest.mark.parametrize(
    ("kind", "days", "counts", "is_due"),
    [
        ("certificate", 29.9, True, True),
        ("certificate", 30.1, True, False),
        ("certificate", -5, True, True),
        ("certificate", 1, False, False),
        ("support", 29, True, True),
        # It ended for good: every day would be an alarm.
        ("support", -900, True, False),
        ("authority", 3, True, True),
    ],
)
def test_what_needs_somebody_is_due(kind: Any, days: float, counts: bool, is_due: bool) -> None:
    ends = datetime.fromisoformat(at(days))
    assert Ending(kind, "x", "y", ends, counts=counts).is_due(NOW, 30) is is_due


def test_what_is_unknown_is_never_due() -> None:
    assert due([Ending("licence", "site", "x", None, "nobody tells")], NOW, 3650) == ()


SHOWN = {"cp1": at(200)}


@pytest.mark.parametrize(
    ("days", "what", "doubted"),
    [
        ({"server": 364.5}, racks.SERVER, ""),
        ({"server": 365.9}, racks.SERVER, ""),
        ({"server": 367}, racks.SERVER, "a certificate of kubeadm lasts 365 days"),
        ({"kubelet": 900}, racks.KUBELET, "a certificate of kubeadm lasts 365 days"),
        ({"ca": 3650}, racks.CA, ""),
        ({"ca": 9000}, racks.CA, "an authority of kubeadm lasts 3650 days"),
        ({"server": 300}, racks.SERVER, ""),
    ],
)
def test_a_date_beyond_what_kubeadm_gives_is_only_what_the_node_says(
    days: dict[str, float], what: str, doubted: str
) -> None:
    found = listed(facts=document(**days), epoch=NOW)
    assert named(found, what).doubt == doubted


def test_a_certificate_outlives_no_authority_that_other_nodes_tell() -> None:
    site = samples.site(3)
    other = document(ca=100)
    look = Look({"cp1": NodeFacts(document(server=300)), "cp2": NodeFacts(other)}, ())
    found = horizon(site, samples.desired(site).release, Seen(look, epoch=NOW))
    (forged,) = (one for one in found if (one.where, one.what) == ("cp1", racks.SERVER))
    assert "the cluster's authority ends on" in forged.doubt


def test_the_certificate_that_the_api_server_shows_is_listed_and_the_other_date_doubted() -> None:
    found = listed(facts=document(server=300), epoch=NOW, served=SHOWN)
    assert "shows a certificate that ends on" in named(found, racks.SERVER).doubt
    served = named(found, "API server, as served")
    assert (round(served.left(NOW) or 0), served.counts, served.doubt) == (200, True, "")
    same = listed(facts=document(server=200), epoch=NOW, served=SHOWN)
    assert named(same, racks.SERVER).doubt == ""


@pytest.mark.parametrize(("days", "doubted"), [(200, ""), (5000, "the site's CA ends on")])
def test_a_node_cannot_hide_the_end_of_a_servers_certificate(days: float, doubted: str) -> None:
    forged, other = document(), document()
    forged["certificates"][1]["not_after"] = at(days)
    look = Look({"cp1": NodeFacts(forged), "w1": NodeFacts({**other, "certificates": []})}, ())
    found = horizon(samples.site(), samples.desired().release, Seen(look, epoch=NOW))
    one = named(tuple(one for one in found if one.where == "cp1"), "registry: ")
    assert one.doubt.startswith(doubted)
    assert bool(one.doubt) == bool(doubted)
