"""How many workers may be out together, from data; and what the command makes of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from appliance.cli.commands.cluster.upgrade_view.plan import show_upgrade, upgrade_as_json
from appliance.errors import Refused
from appliance.model.node.drain import DrainView
from appliance.model.state.cluster.cluster import ClusterNode
from appliance.model.state.cluster.pods import PodOnNode, Toleration
from appliance.model.state.cluster.resources import Resources
from appliance.model.upgrade.evidence import Silence
from appliance.model.upgrade.moves.room import Room
from tests.unit.upgrade.rack import Bench, FakeEvidence

CASES = yaml.safe_load((Path(__file__).parents[2] / "data/upgrade/room.yml").read_text())
GPUS = "nvidia.com/gpu"


def node(name: str, differs: dict[str, Any]) -> ClusterNode:
    cpus, gpus = differs.get("cpus", 8), differs.get("gpus", 8)
    offers = (
        None if cpus == "unread" else Resources(cpus * 1000, 64 * 10**9, differs.get("pods", 110))
    )
    return ClusterNode(
        name,
        ready=differs.get("ready", True),
        unschedulable=differs.get("unschedulable", False),
        taints=tuple(differs.get("taints", ())),
        labels=differs.get("labels", {}),
        devices={GPUS: gpus},
        allocatable=offers,
    )


def pod(told: Any, where: str) -> PodOnNode:
    differs: dict[str, Any] = {"pod": told} if isinstance(told, str) else told
    name, gpus, cpus, memory = differs["pod"].split()
    requests = (
        None if cpus == "unread" else Resources(int(float(cpus) * 1000), int(memory) * 10**9, 1)
    )
    kind, tolerated = differs.get("kind", "ReplicaSet"), differs.get("tolerates")
    return PodOnNode(
        "team",
        name,
        where,
        owner=(kind, name) if kind else None,
        gpus=int(gpus),
        requests=requests,
        phase=differs.get("phase", "Running"),
        labels=differs.get("labels", {}),
        pinned=differs.get("pinned", ""),
        node_selector=differs.get("selector", {}),
        tolerations=(Toleration(tolerated, "Exists"),) if tolerated else (),
    )


def room_of(case: dict[str, Any]) -> Room:
    pods = case.get("pods", {})
    nodes = tuple(node(name, differs) for name, differs in case["nodes"].items())
    views = {
        name: DrainView(name, pods=tuple(pod(one, name) for one in pods.get(name, ())))
        for name, differs in case["nodes"].items()
        if not differs.get("unlisted")
    }
    deserved = case.get("deserved", {})
    return Room(nodes, views, Silence(deserved) if isinstance(deserved, str) else deserved)


@pytest.mark.parametrize("case", CASES, ids=[case["case"] for case in CASES])
def test_a_batch_has_the_size_that_the_case_says(case: dict[str, Any]) -> None:
    fits, why = room_of(case).bounded(case["batch"])
    assert fits == case["fits"], why
    assert case.get("because", "") in why
    assert bool(why) == (fits < len(case["batch"])) == ("because" in case)


def busy(where: str, gpus: int) -> PodOnNode:
    return pod(f"train-{where} {gpus} 1 1", where)


def with_gpus(bench: Bench) -> Bench:
    nodes = {
        name: replace(found, devices={} if found.control_plane else {GPUS: 8})
        for name, found in bench.rack.api.nodes.items()
    }
    bench.rack.cluster = replace(bench.rack.api, nodes=nodes)
    return bench


def batches(found: Any) -> list[tuple[str, ...]]:
    return [step.nodes for step in found.plan.steps if step.nodes[:1] and step.nodes[0][0] == "w"]


def test_the_plan_says_why_a_batch_is_smaller(capsys: pytest.CaptureFixture[str]) -> None:
    bench = with_gpus(Bench(workers=4))
    bench.drain.pods = {name: [busy(name, 4)] for name in ("w1", "w2", "w3", "w4")} | {"cp1": []}
    found = bench.upgrade(dry_run=True, max_unavailable=3)
    assert batches(found) == [("w1", "w2"), ("w3", "w4")]
    show_upgrade(found, err=False)
    why = (
        "batch of 2 instead of 3: with 3 out, their pods ask for 12 GPUs, but only 4 GPUs are free"
    )
    assert why in capsys.readouterr().out
    assert [one["bound"][:24] for one in upgrade_as_json(found)["steps"] if one["bound"]] == [
        "batch of 2 instead of 3:"
    ]
    assert found.forecasts["w1"].waiting == ()


def test_a_service_that_may_be_away_leaves_the_size_to_the_operator() -> None:
    bench = with_gpus(Bench(workers=4))
    bench.drain.pods = {name: [busy(name, 8)] for name in ("w1", "w2", "w3", "w4")} | {"cp1": []}
    assert batches(bench.upgrade(dry_run=True, max_unavailable=4)) == [
        *(("w1",), ("w2",), ("w3",), ("w4",))
    ]
    found = bench.upgrade(dry_run=True, max_unavailable=4, allow_outage=True)
    assert batches(found) == [("w1", "w2", "w3", "w4")]


def test_projects_that_are_not_known_make_it_one_at_a_time() -> None:
    bench = Bench(workers=2)
    bench.evidence = FakeEvidence(bench.rack)
    bench.evidence.deserved = Silence("the API answered 403 Forbidden")
    assert batches(bench.upgrade(dry_run=True, max_unavailable=2)) == [("w1",), ("w2",)]


@pytest.mark.parametrize("late", [False, True])
def test_what_grew_while_the_operator_thought_refuses_before_the_first_change(late: bool) -> None:
    bench = with_gpus(Bench(workers=3))

    def confirm(_found: Any) -> bool:
        bench.drain.pods["w1"] = [busy("w1", 8)]
        bench.drain.pods["w2"] = [busy("w2", 8)]
        bench.clock.sleep(3600 if late else 1)
        return True

    if not late:
        assert bench.upgrade(max_unavailable=2, confirm=confirm).ended
        return
    with pytest.raises(Refused, match="w1, w2: with 2 out, their pods ask for 16 GPUs"):
        bench.upgrade(max_unavailable=2, confirm=confirm)
    assert (bench.rack.plays, bench.cordoned, bench.chosen) == ([], [], [])
