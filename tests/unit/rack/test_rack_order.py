"""The order of a rack's power, as data."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Interface
from pathlib import Path

import pytest

from appliance.model.node.etcd_quorum import EtcdMember
from appliance.model.plan.rack.mark import RackMark, is_ours, parse_mark, reason_of
from appliance.model.plan.rack.order import (
    NodeOff,
    down_stages,
    drain_order,
    enough,
    has_quorum,
    holding_up,
    return_order,
    unhealthy,
    up_stages,
)
from appliance.model.site.settings import Node, Site
from appliance.model.state.nodes.maintenance import Maintenance
from tests import samples


def rack(**groups: str) -> Site:
    nodes = tuple(
        Node(name, IPv4Interface(f"198.18.7.{n}/24"), frozenset(of.split()))
        for n, (name, of) in enumerate(groups.items(), 11)
    )
    return Site("rack", Path("/nowhere/rack"), samples.settings(), nodes)


CASES = {
    "one control plane that serves": (
        rack(cp1="control_plane services", w1="gpu_workers", w2="cpu_workers"),
        ["worker: w1, w2", "control plane: cp1"],
    ),
    "the first control plane goes last": (
        rack(cp1="control_plane", cp2="control_plane", cp3="control_plane", s1="services"),
        ["control plane: cp3, cp2, cp1", "services: s1"],
    ),
    "the one that serves goes last of all": (
        rack(cp1="control_plane", cp2="control_plane services", cp3="control_plane"),
        ["control plane: cp3, cp1, cp2"],
    ),
    "system nodes after workers": (
        rack(y1="system_nodes", w1="gpu_workers", s1="services", cp1="control_plane"),
        ["worker: w1", "system: y1", "control plane: cp1", "services: s1"],
    ),
    "a shared system node is one": (
        rack(y1="system_nodes gpu_workers", w1="gpu_workers", cp1="control_plane services"),
        ["worker: w1", "system: y1", "control plane: cp1"],
    ),
    "a control plane with every role is a control plane": (
        rack(cp1="control_plane system_nodes services", w1="cpu_workers"),
        ["worker: w1", "control plane: cp1"],
    ),
    "a worker that serves goes last": (
        rack(w1="cpu_workers services", w2="cpu_workers", cp1="control_plane"),
        ["worker: w2", "control plane: cp1", "services: w1"],
    ),
    "a jumpbox goes before the services host": (
        rack(s1="services", j1="jumpboxes", cp1="control_plane", w1="cpu_workers"),
        ["worker: w1", "control plane: cp1", "services: j1, s1"],
    ),
}


@pytest.mark.parametrize(("site", "expected"), CASES.values(), ids=CASES)
def test_down_ends_with_what_others_need(site: Site, expected: list[str]) -> None:
    stages = down_stages(site)
    assert [stage.sentence() for stage in stages] == expected
    assert [stage.one_by_one for stage in stages] == [s.tier == "control plane" for s in stages]
    down = [name for stage in stages for name in stage.nodes]
    assert sorted(down) == sorted(node.name for node in site.nodes)
    assert [name for stage in up_stages(site) for name in stage.nodes] == down[::-1]


def test_a_worker_that_serves_is_drained_and_returned_with_the_workers() -> None:
    site, _ = CASES["a worker that serves goes last"]
    assert drain_order(site) == ("w2", "cp1", "w1")
    assert return_order(site) == ("cp1", "w2", "w1")
    assert "s1" not in drain_order(CASES["system nodes after workers"][0])
    assert return_order(CASES["system nodes after workers"][0]) == ("cp1", "y1", "w1")


@pytest.mark.parametrize(
    ("healthy", "learner", "quorum", "sick"),
    [
        ("111", "000", True, ()),
        ("110", "000", True, ("m2",)),
        ("100", "000", False, ("m1", "m2")),
        ("1", "0", True, ()),
        ("101", "001", False, ("m1",)),
        ("", "", False, ()),
    ],
)
def test_etcd_has_a_quorum_or_its_sick_members_are_named(
    healthy: str, learner: str, quorum: bool, sick: tuple[str, ...]
) -> None:
    members = [
        EtcdMember(f"{n}", f"m{n}", f"https://198.18.7.{n}:2380", one == "1", other == "1")
        for n, (one, other) in enumerate(zip(healthy, learner, strict=True))
    ]
    assert has_quorum(members) is quorum
    assert unhealthy(members) == sick


@pytest.mark.parametrize(
    ("came", "expected"),
    [((), False), (("cp1",), False), (("cp1", "cp3"), True), (("cp1", "w1", "w2"), False)],
)
def test_enough_control_planes(came: tuple[str, ...], expected: bool) -> None:
    assert enough(samples.site(3), came) is expected


def test_only_a_node_that_answers_holds_the_next_stage_up() -> None:
    seen = [
        NodeOff("w1", True, False, "its BMC reports power off"),
        NodeOff("w2", False, False, "nothing answered"),
        NodeOff("w3", False, True, "w3 answers"),
    ]
    assert [one.node for one in holding_up(seen)] == ["w3"]


MARK = RackMark("r", "ada", "laptop", "2026-01-01T00:00:00+00:00", "power off", "shipping")


def test_a_mark_reads_back_and_its_annotation_has_nothing_of_each_node() -> None:
    mark = MARK.about_to_ask("w1", MARK.since).accepted("w1", MARK.since)
    assert parse_mark(mark.as_text()) == mark
    assert parse_mark(mark.annotation()) == MARK
    assert mark.sentence() == (
        "the rack is being taken down (power off): by ada on laptop since "
        "2026-01-01T00:00:00+00:00: shipping"
    )
    assert "the rack is down: by ada" in replace(MARK, phase="down").sentence()


@pytest.mark.parametrize(
    "text", [None, "", "{}", "[]", "nothing", '{"run": 1}', MARK.as_text().replace("ada", "a\\n")]
)
def test_what_is_no_mark_is_none(text: str | None) -> None:
    assert parse_mark(text) is None


def test_an_order_counts_from_when_it_was_sent() -> None:
    asked = MARK.about_to_ask("w1", MARK.since)
    assert MARK.order_of("w1") is None
    assert "its answer is not recorded" in (asked.order_of("w1") or "")
    assert asked.accepted("w1", MARK.since).order_of("w1") == MARK.since
    assert asked.refused("w1").order_of("w1") is None
    again = asked.accepted("w1", MARK.since).about_to_ask("w1", MARK.since)
    assert "its answer is not recorded" in (again.order_of("w1") or "")


@pytest.mark.parametrize(
    ("reason", "ours"),
    [
        (reason_of(""), True),
        (reason_of("shipping"), True),
        ("rack downstairs is moved", False),
        ("", False),
        ("new riser", False),
    ],
)
def test_whose_maintenance_it_is(reason: str, ours: bool) -> None:
    mark = Maintenance("r", "ada", "l", MARK.since, "cordon", "cordon", True, False, reason)
    assert is_ours(mark) is ours
    assert not is_ours(None)
