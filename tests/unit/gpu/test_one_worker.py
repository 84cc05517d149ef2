"""Step gpu of one worker: the leader labels it, whatever became of the others."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from appliance.model.plan.planner import Scope
from appliance.model.state.cluster.cluster import Cluster
from tests import samples
from tests.fakes import FakeRack
from tests.unit.install.test_install import Bench


@pytest.fixture
def bench() -> Bench:
    """An installed site; nouveau would come back on each worker."""
    desired = samples.desired(samples.site(gpu={}))
    bench = Bench(rack=FakeRack(desired))
    for node in desired.site.nodes:
        bench.rack.documents[node.name] = samples.converged(node, desired)
        bench.rack.documents[node.name]["modules"]["blacklisted"] = []
    bench.rack.cluster = samples.cluster(desired)
    return bench


def labelled(bench: Bench) -> list[str]:
    told: list[dict[str, Any]] = bench.rack.plays[-1].inventory["all"]["vars"][
        "gpu_operator_node_labels"
    ]
    return [one["name"] for one in told]


@pytest.mark.parametrize("name", ["w1", "w2"])
def test_the_play_of_a_worker_alone_runs_on_the_leader_which_labels_the_worker(
    bench: Bench, name: str
) -> None:
    done = bench.install(scope=Scope(nodes=frozenset({name})))
    assert done.steps == ("preflight", "gpu")
    assert bench.rack.plays[-1].limit == (name, "cp1")
    assert labelled(bench) == ["w1", "w2"]


def test_a_worker_that_is_no_member_is_not_labelled_and_keeps_no_other_from_its_gpus(
    bench: Bench,
) -> None:
    cluster = bench.rack.cluster
    assert isinstance(cluster, Cluster)
    members = {name: node for name, node in cluster.nodes.items() if name != "w1"}
    bench.rack.cluster = dataclasses.replace(cluster, nodes=members)
    bench.install(scope=Scope(nodes=frozenset({"w2"})))
    assert labelled(bench) == ["w2"]
