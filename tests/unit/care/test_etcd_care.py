"""etcd is defragmented one member at a time, the leader last, and its alarm is healed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from appliance.adapters.care.etcd import space_of
from appliance.errors import ClusterError, StepNotVerified
from appliance.model.site.settings import Node
from appliance.model.upkeep.care.etcd import (
    NOSPACE,
    MemberSpace,
    alarmed,
    etcd_items,
    forbidden,
    next_due,
)
from appliance.workflows.cluster.cleaning.etcd import clean_etcd, look_at_etcd
from tests import samples
from tests.fakes import FakeClock, FakeObserver, FakeRack
from tests.sessions import fake_session
from tests.unit.care.acts import Acts, Killed

MB = 1 << 20
SITE = samples.site(masters=3)
NAMES = [node.name for node in SITE.control_plane]


def member(node: str = "cp1", **changes: Any) -> MemberSpace:
    number = NAMES.index(node) + 1
    plain = MemberSpace(node, f"{number:x}", "1", True, 900, 100 * MB, 90 * MB, 2048 * MB)
    return replace(plain, members=3, **changes)


class FakeEtcdSpace:
    """Three members; a defragmented one is not healthy at the next look."""

    def __init__(self, acts: Acts, *members: MemberSpace) -> None:
        self.acts = acts
        self.members = {one.node: one for one in members}
        self.compacts_to = 20 * MB
        self.never_frees = ""
        self.recovering: set[str] = set()
        self.seen_sick = 0

    def spaces(self, asked: Sequence[Node]) -> tuple[tuple[MemberSpace, ...], tuple[str, ...]]:
        assert [node.name for node in asked] == NAMES
        found = tuple(
            replace(one, healthy=one.healthy and one.node not in self.recovering)
            for one in self.members.values()
        )
        self.seen_sick += len(self.recovering)
        self.recovering.clear()
        return found, ()

    def save(self, node: Node) -> str:
        return f"/snapshots/{node.name}.db"

    def compact(self, node: Node, revision: int) -> None:
        self.acts.before()
        assert self.members[node.name].leads
        assert revision == 900
        for name, one in self.members.items():
            if name == self.never_frees:
                continue
            self.members[name] = replace(one, used_bytes=min(one.used_bytes, self.compacts_to))
        self.acts.made("compact")

    def defragment(self, node: Node) -> None:
        self.acts.before()
        assert not self.recovering, "a member is silent already"
        one = self.members[node.name]
        self.members[node.name] = replace(one, size_bytes=one.used_bytes)
        self.recovering.add(node.name)
        self.acts.made(f"defragment {node.name}")

    def disarm(self, node: Node, member: str) -> None:
        self.acts.before()
        assert self.members[node.name].leads
        (name,) = [one.node for one in self.members.values() if one.member == member]
        self.members[name] = replace(self.members[name], alarms=())
        self.acts.made(f"disarm {name}")


def session() -> Any:
    return fake_session(FakeRack(samples.desired(SITE)), clock=FakeClock(), observer=FakeObserver())


def wasteful(node: str, **changes: Any) -> MemberSpace:
    return member(node, size_bytes=200 * MB, used_bytes=40 * MB, **changes)


def full(node: str) -> MemberSpace:
    space = {"size_bytes": 2048 * MB, "used_bytes": 2047 * MB}
    return member(node, **space, alarms=(NOSPACE,) if node != "cp2" else ())


def test_followers_come_first_and_the_leader_last_with_health_between() -> None:
    port = FakeEtcdSpace(Acts(), *map(wasteful, NAMES))
    assert clean_etcd(SITE, port, session()) == 480 * MB
    assert port.acts.done == ["defragment cp2", "defragment cp3", "defragment cp1"]
    assert port.seen_sick == 3


def test_the_alarm_is_healed() -> None:
    port = FakeEtcdSpace(Acts(), *map(full, NAMES))
    clean_etcd(SITE, port, session())
    order = ["compact", "defragment cp2", "defragment cp3", "defragment cp1"]
    assert port.acts.done == [*order, "disarm cp1", "disarm cp3"]
    assert not alarmed(port.spaces(SITE.control_plane)[0])


@pytest.mark.parametrize("make", [wasteful, full])
def test_after_a_kill_at_any_act_the_same_command_ends_it(make: Any) -> None:
    whole = FakeEtcdSpace(Acts(), *map(make, NAMES))
    clean_etcd(SITE, whole, session())
    for number in range(len(whole.acts.done)):
        for after in (False, True):
            acts = Acts()
            acts.kill_at, acts.after = number, after
            port = FakeEtcdSpace(acts, *map(make, NAMES))
            with pytest.raises(Killed):
                clean_etcd(SITE, port, session())
            acts.again()
            # A member that was defragmented is well again by then.
            port.recovering.clear()
            if any(item.goes for item in look_at_etcd(SITE, port)):
                clean_etcd(SITE, port, session())
            assert not any(item.goes for item in look_at_etcd(SITE, port))
            assert not alarmed(port.spaces(SITE.control_plane)[0])
            assert set(acts.done) == set(whole.acts.done)


def test_an_alarm_whose_space_is_really_used_stays_and_is_told() -> None:
    port = FakeEtcdSpace(Acts(), *map(full, NAMES))
    port.compacts_to = 2040 * MB
    with pytest.raises(StepNotVerified, match="that it may have, with no free page"):
        clean_etcd(SITE, port, session())
    assert not [act for act in port.acts.done if act.startswith("disarm")]


def test_a_member_that_is_not_well_stops_it_before_the_first_change() -> None:
    port = FakeEtcdSpace(Acts(), *map(wasteful, NAMES))
    port.members["cp3"] = replace(port.members["cp3"], healthy=False)
    with pytest.raises(ClusterError, match="cp3: its member of etcd is not healthy"):
        clean_etcd(SITE, port, session())
    assert port.acts.done == []
    assert [item.goes for item in look_at_etcd(SITE, port)] == [False] * 3


FORBIDDEN = {
    "learner": (replace(member("cp2"), learner=True), "joining still"),
    "corrupt": (replace(member("cp2"), alarms=("CORRUPT",)), "the alarm CORRUPT"),
    "no leader": (replace(member("cp2"), leader=""), "no common leader"),
    "two leaders": (replace(member("cp2"), leader="2"), "no common leader"),
    "one member twice": (replace(member("cp2"), member="1"), "the same member of etcd"),
    "a stranger": (replace(member("cp2"), members=4), "etcd lists 3, 4 members"),
}


@pytest.mark.parametrize(("odd", "why"), FORBIDDEN.values(), ids=FORBIDDEN)
def test_what_forbids_it(odd: MemberSpace, why: str) -> None:
    assert why in forbidden((member("cp1"), odd, member("cp3")), 3)
    assert not forbidden(tuple(map(member, NAMES)), 3)
    elsewhere = tuple(replace(member(name), leader="9") for name in NAMES)
    assert "the leader of etcd is on no control-plane node" in forbidden(elsewhere, 3)
    assert forbidden((member("cp1"), member("cp3")), 3, ("cp2: no answer",)) == "cp2: no answer"
    assert "etcd lists 3 members" in forbidden((member("cp1"), member("cp3")), 3)


def test_little_waste_is_left() -> None:
    assert next_due([member("cp1")], urgent=False) is None
    assert next_due([member("cp1", size_bytes=300 * MB, used_bytes=270 * MB)], urgent=False) is None
    assert next_due([member("cp1")], urgent=True) is not None
    (item,) = etcd_items([member("cp1")], "")
    assert (item.goes, item.size_bytes) == (False, 10 * MB)
    assert item.why == "100 MiB of 2.0 GiB: too few are free to be worth a defragmentation"


ANSWER = """{"status": {"header": {"member_id": "%s", "revision": "7"}, "dbSize": "4096",
 "dbSizeInUse": "1024", "leader": "%s"}, "alarms": {"alarms": [{"memberID": "5",
 "alarm": "%s"}]}, "members": 3, "healthy": true, "quota": 2147483648, "free": null}"""


def test_an_answer_is_read() -> None:
    found = space_of("cp1", ANSWER % ("5", "18446744073709551615", NOSPACE))
    assert (found.member, found.leader, found.alarms) == ("5", "f" * 16, (NOSPACE,))
    assert (found.size_bytes, found.used_bytes, found.quota_bytes) == (4096, 1024, 2048 * MB)
    assert space_of("cp1", ANSWER % ("6", "5", NOSPACE)).alarms == ()


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", ANSWER % ("x", "5", NOSPACE), ANSWER % ("5", "5", "\\u001b[31m")],
)
def test_a_strange_answer_is_an_error(text: str) -> None:
    with pytest.raises((ValueError, LookupError, TypeError)):
        space_of("cp1", text)


def test_one_member_that_is_full_still_keeps_every_alarm() -> None:
    port = FakeEtcdSpace(Acts(), *map(full, NAMES))
    # It raised no alarm of its own, and would as soon as writes are taken again.
    port.members["cp2"] = replace(port.members["cp2"], used_bytes=2048 * MB)
    port.never_frees = "cp2"
    with pytest.raises(StepNotVerified, match="cp2: etcd's database has"):
        clean_etcd(SITE, port, session())
    assert not [act for act in port.acts.done if act.startswith("disarm")]
