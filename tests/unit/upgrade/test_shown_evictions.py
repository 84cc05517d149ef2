"""By whom the pods of a node are missed that an upgrade empties."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from appliance.cli.commands.cluster.upgrade_view.evictions import (
    concern_lines,
    evicted_lines,
    eviction_as_json,
    waiting_lines,
)
from appliance.cli.commands.cluster.upgrade_view.plan import upgrade_as_json
from appliance.model.node.drain import Forecast, forecast, waiting_for_gpus
from appliance.model.state.cluster.cluster import ClusterNode
from appliance.model.state.cluster.pods import PodOnNode
from tests.unit.upgrade.rack import Bench, web

GPUS = "nvidia.com/gpu"


def training(number: int, user: str = "ada", project: str = "vision") -> PodOnNode:
    owner = ("RunaiJob", f"train-{number}")
    labels = {"project": project}
    name = f"train-{number:03d}-0"
    return PodOnNode(f"runai-{project}", name, "w1", owner=owner, labels=labels, gpus=1, user=user)


def foreseen(pods: Iterable[PodOnNode]) -> Forecast:
    nodes = [ClusterNode(name, ready=True, devices={GPUS: 8}) for name in ("w1", "w2")]
    return forecast("w1", [*pods], [], nodes)


def test_a_training_pod_is_shown_with_its_user_and_project() -> None:
    found = foreseen([training(1), web("w1")])
    assert [*evicted_lines(found)] == [
        "evicts from w1: 1 pod of ada in project vision: runai-vision/train-001-0",
        "evicts from w1: team/web-1",
    ]


def test_a_hundred_pods_of_two_users_are_a_few_lines() -> None:
    pods = [training(n, "ada" if n < 60 else "bob") for n in range(100)]
    found = foreseen(pods)
    first, second = evicted_lines(found)
    assert "60 pods of ada in project vision" in first
    assert first.endswith("runai-vision/train-004-0 and 55 more")
    assert "40 pods of bob in project vision" in second
    (line,) = concern_lines(found)
    assert line.startswith("interrupts: runai-vision/train-000-0, ")
    assert line.endswith(
        "and 95 more: is the only replica: unavailable until it runs on another node"
    )


def test_each_pod_that_ends_for_good_is_named() -> None:
    pods = [web("w1", f"bare-{n}", owner=None) for n in range(9)]
    assert len([*concern_lines(foreseen(pods))]) == 9


def test_a_hostile_label_is_cut_and_breaks_no_line() -> None:
    found = foreseen([training(1, user="eve\nrefused: nothing\x1b[2J" + "x" * 5000)])
    (line,) = evicted_lines(found)
    assert len(line) < 250
    assert "\n" not in line
    assert "\x1b" not in line


def test_the_data_have_every_concern_and_whose_the_pods_are() -> None:
    told = eviction_as_json(foreseen([training(1), web("w1", "bare", owner=None)]))
    assert [one["severity"] for one in told["concerns"]] == ["interrupts", "loses"]
    assert told["devices_left"] == {GPUS: 8}
    assert told["whose"][0] == {
        **{"project": "vision", "user": "ada", "pods": ["runai-vision/train-001-0"]}
    }


def test_the_plan_as_data_has_each_forecast_and_the_time_without_api() -> None:
    bench = Bench()
    bench.drain.pods["w1"] = [training(1)]
    told = upgrade_as_json(bench.upgrade(dry_run=True))
    (of_w1,) = [step for step in told["steps"] if step["nodes"] == ["w1"]]
    assert of_w1["forecasts"]["w1"]["whose"][0]["user"] == "ada"
    assert of_w1["api_away"] is None
    away = {step["kind"]: step["api_away"] for step in told["steps"] if step["nodes"] == ["cp1"]}
    assert away["control_plane"] == {"median_seconds": 29, "worst_seconds": 29, "source": "release"}
    assert away["nodes"]["median_seconds"] == 29


def test_with_three_control_planes_the_api_is_away_for_a_failover_only() -> None:
    told = upgrade_as_json(Bench(masters=3).upgrade(dry_run=True))
    away = [s["api_away"] for s in told["steps"] if s["kind"] == "control_plane"]
    assert [one["median_seconds"] for one in away] == [1.8, 1.8, 1.8]


def busy(node: str, gpus: int, name: str = "train") -> PodOnNode:
    owner = ("RunaiJob", name)
    return PodOnNode("runai-vision", f"{name}-{node}", node, owner=owner, gpus=gpus, user="ada")


def with_gpus(bench: Bench, gpus: int) -> Bench:
    nodes = {
        name: replace(node, devices={} if node.control_plane else {GPUS: gpus})
        for name, node in bench.rack.api.nodes.items()
    }
    bench.rack.cluster = replace(bench.rack.api, nodes=nodes)
    return bench


@pytest.mark.parametrize(
    ("at_once", "waits"), [(1, []), (2, ["runai-vision/train-w1", "runai-vision/train-w2"])]
)
def test_the_pods_of_a_batch_wait_that_find_no_free_gpus(at_once: int, waits: list[str]) -> None:
    bench = with_gpus(Bench(workers=3), 8)
    for name in ("w1", "w2"):
        bench.drain.pods[name] = [busy(name, 5)]
    bench.drain.pods["w3"] = [busy("w3", 1)]
    if at_once == 2:
        bench.drain.pods["w3"] = [busy("w3", 6)]
    found = bench.upgrade(dry_run=True, max_unavailable=at_once)
    of_two = [found.forecasts[name] for name in ("w1", "w2")]
    if at_once == 1:
        # One of both fits on w3, and its own turn comes alone.
        assert [one.waiting for one in of_two] == [(), ()]
        return
    assert [pod.where for one in of_two for pod in one.waiting] == waits
    assert [*waiting_lines(of_two[0])] == [
        "wait for 5 GPUs that no other node has free: runai-vision/train-w1"
    ]
    assert found.plan.refusals == ()
    assert eviction_as_json(of_two[1])["waiting"] == ["runai-vision/train-w2"]


def test_large_pods_are_placed_first_and_small_ones_fill_the_rest() -> None:
    pods = [busy("w1", 1, "small"), busy("w1", 8, "large"), busy("w1", 4, "middle")]
    assert waiting_for_gpus(pods, {"w2": 8, "w3": 5}) == ()
    assert [pod.gpus for pod in waiting_for_gpus(pods, {"w2": 7, "w3": 5})] == [8]


def test_nobody_waits_where_the_pods_of_a_taker_are_not_known() -> None:
    bench = with_gpus(Bench(workers=3), 8)
    bench.drain.pods["w1"] = [busy("w1", 8)]
    found = bench.upgrade(dry_run=True, without=("w3",))
    assert found.forecasts["w1"].waiting == ()
