"""The path of an upgrade, from data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from appliance.model.upgrade.plan import UpgradeOptions, plan_upgrade
from tests.unit.upgrade.situations import HOPS, NEW, situation, words

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
    ({"cp1": "1.23.5", "w1": {"all": "1.23.5", "kubelet": "1.10.1"}}, "--without w1"),
    ({"cp1": "1.23.5", "w1": {"all": "1.23.5", "runtime": "cri-o"}}, "--without w1"),
]


@pytest.mark.parametrize(("nodes", "way"), HINTS)
def test_a_version_that_is_no_way_on_has_a_way_around(nodes: dict[str, Any], way: str) -> None:
    (refusal,) = plan_upgrade(UpgradeOptions(NEW), situation({"nodes": nodes}), HOPS).refusals
    assert way in refusal.hint


def test_a_worker_that_says_anything_of_itself_can_be_left_out_or_removed() -> None:
    nodes = {"cp1": "1.23.5", "w1": {"all": "1.23.5", "kubelet": "1.10.1"}}
    options = UpgradeOptions(NEW, without=("w1",))
    found = plan_upgrade(options, situation({"nodes": nodes}), HOPS)
    assert {refusal.node for refusal in found.refusals} == {"w1"}
    assert "appliance node remove w1" in found.refusals[0].hint
