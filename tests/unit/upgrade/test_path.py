"""The path of an upgrade, from data; and from every point at which a run may be killed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from appliance.model.state.upgrade import REASON, UpgradeMark
from appliance.model.upgrade.observed import PARTS, NodeVersions, skew
from appliance.model.upgrade.plan import Situation, UpgradeOptions, UpgradeStep, plan_upgrade
from tests.unit.upgrade.situations import HOPS, NEW, maintenance, node, situation, words

CASES = yaml.safe_load((Path(__file__).parents[2] / "data/upgrade/path.yml").read_text())


@pytest.mark.parametrize("case", CASES, ids=[case["case"] for case in CASES])
def test_the_path_is_what_the_case_says(case: dict[str, Any]) -> None:
    options = UpgradeOptions(
        case.get("to", NEW),
        tuple(case.get("without", ())),
        case.get("pause_after", ""),
        case.get("at_once", 1),
    )
    plan = plan_upgrade(options, situation(case), HOPS)
    refused = [f"{one.node} {one.seen}" for one in plan.refusals]
    expected = case.get("refused", [])
    assert len(refused) == len(expected), refused
    for seen, (name, _, said) in zip(
        refused, (one.partition(" ") for one in expected), strict=True
    ):
        assert seen.startswith(f"{name} "), seen
        assert said in seen
    if "steps" in case:
        assert [words(step) for step in plan.steps] == case["steps"]
    if "path" in case:
        assert [hop.release for hop in plan.hops] == case["path"]
    assert [words(step) for step in plan.rest] == case.get("rest", [])


def test_every_case_has_a_name_of_its_own() -> None:
    names = [case["case"] for case in CASES]
    assert len(names) == len(set(names)) > 50


HINTS = [
    ({"cp1": "1.23.5", "w1": {"kubelet": "unknown"}}, "--without w1"),
    ({"cp1": "1.23.5", "w1": {"all": "1.23.5", "kubelet": "1.24.17"}}, "--without w1"),
    ({"cp1": {"all": "1.23.5", "scheduler": ""}, "w1": "1.23.5"}, "/etc/kubernetes/tmp"),
]


@pytest.mark.parametrize(("nodes", "way"), HINTS)
def test_a_version_that_is_no_way_on_has_a_way_around(nodes: dict[str, Any], way: str) -> None:
    (refusal,) = plan_upgrade(UpgradeOptions(NEW), situation({"nodes": nodes}), HOPS).refusals
    assert way in refusal.hint


Rack = dict[str, NodeVersions]
TAG = "v1.23.17"


def moments(rack: Rack, step: UpgradeStep) -> Iterator[Rack]:
    """The racks while a step runs, one for each moment of a kill; the last is the whole step."""
    now = dict(rack)
    if step.kind == "control_plane":
        (name,) = step.nodes
        for part in PARTS:
            now[name] = replace(now[name], parts={**now[name].parts, part: TAG})
            yield dict(now)
        for other in now if step.action == "apply" else ():
            now[other] = replace(now[other], kube_proxy=TAG)
            yield dict(now)
    elif step.kind == "nodes":
        for name in step.nodes:
            now[name] = replace(now[name], maintenance=maintenance(REASON + NEW))
            yield dict(now)
        for name in step.nodes:
            now[name] = replace(now[name], kubelet=TAG)
            yield dict(now)
        for name in step.nodes:
            now[name] = replace(now[name], maintenance=None)
            yield dict(now)
    else:
        yield now


def carried_out(rack: Rack, plan_of: Any) -> Iterator[Rack]:
    """Every rack on the way of a plan that is made once."""
    now = rack
    for step in plan_of(now).steps:
        for moment in moments(now, step):
            yield moment
            now = moment


def settled(rack: Rack) -> Rack:
    """The same a while later: the DaemonSet's controller ends what kubeadm began."""
    begun = any(one.kube_proxy == TAG for one in rack.values())
    return {name: replace(one, kube_proxy=TAG) for name, one in rack.items()} if begun else rack


def planned(at_once: int) -> Any:
    def plan(rack: Rack) -> Any:
        options = UpgradeOptions(NEW, max_unavailable=at_once)
        mark = UpgradeMark(NEW, "2026-01-01T00:00:00+00:00", "ada on laptop")
        found = plan_upgrade(options, Situation(dict(rack), mark=mark, mirrored=NEW), HOPS)
        assert found.refusals == ()
        return found

    return plan


RACKS = [(1, 0, 1), (1, 1, 1), (1, 2, 2), (1, 3, 2), (3, 0, 1), (3, 1, 1), (3, 2, 2), (3, 4, 3)]


@pytest.mark.parametrize(("masters", "workers", "at_once"), RACKS)
def test_a_run_that_is_killed_anywhere_is_ended_by_the_next(
    masters: int, workers: int, at_once: int
) -> None:
    names = [f"cp{n + 1}" for n in range(masters)] + [f"w{n + 1}" for n in range(workers)]
    begin = {name: node(name, "1.23.5") for name in names}
    plan = planned(at_once)
    killed = list(carried_out(begin, plan))
    assert len(killed) > masters * 3
    for rack in killed:
        assert skew(rack) == ()
        half_way = [
            name
            for name, one in rack.items()
            if 0 < sum(text == TAG for text in one.parts.values()) < len(one.parts)
        ]
        assert len(half_way) <= 1
        out = [name for name, one in rack.items() if one.maintenance]
        assert len(out) <= at_once
        *_, end = [rack, *carried_out(settled(rack), plan)]
        end = settled(end)
        assert {text for one in end.values() for _, text in one.texts()} == {TAG}
        assert [name for name, one in end.items() if one.maintenance] == []
        assert plan(end).steps == ()
