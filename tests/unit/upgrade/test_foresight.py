"""What evictions do when their turn comes: a node that an earlier run took out is back by then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from appliance.model.node.drain import DrainView
from appliance.model.state.cluster.cluster import ClusterNode
from appliance.model.state.nodes.maintenance import ANNOTATION, TAINT
from appliance.model.state.upgrade import REASON
from appliance.workflows.cluster.foresight import foresee
from appliance.workflows.session.session import Session
from tests.unit.upgrade.rack import web
from tests.unit.upgrade.situations import NEW, maintenance

MASTER = ClusterNode("cp1", ready=True, taints=("node-role.kubernetes.io/master=:NoSchedule",))
# As Kubernetes writes them: the controller of nodes adds the taint of a cordon.
CORDON = "node.kubernetes.io/unschedulable=:NoSchedule"
SILENT = "node.kubernetes.io/unreachable=:NoExecute"
PLACE = "no other node can take its pods"


class Drain:
    """The nodes as the API has them."""

    def __init__(self, out: ClusterNode) -> None:
        self.nodes = (MASTER, out, ClusterNode("w2", ready=True))

    def views(self, asked: Sequence[str]) -> dict[str, DrainView]:
        pods = {"w2": (web("w2"),)}
        return {one: DrainView(one, pods=pods.get(one, ()), nodes=self.nodes) for one in asked}


def taken_out(**more: Any) -> ClusterNode:
    mark = replace(maintenance(REASON + NEW), **more)
    return ClusterNode(
        "w1",
        ready=False,
        unschedulable=True,
        taints=(CORDON, SILENT),
        annotations={ANNOTATION: mark.as_text()},
    )


def concerns(out: ClusterNode, batches: list[list[str]]) -> list[str]:
    drain: Any = Drain(out)
    found = foresee(batches, Session(drain=drain), ["w1"])
    return [one.text for one in found["w2"].concerns]


def test_a_node_that_comes_back_before_takes_pods() -> None:
    assert PLACE not in concerns(taken_out(cordoned=True), [["w1"], ["w2"]])


def test_one_with_our_taint_does_as_well() -> None:
    out = taken_out(cordoned=True, tainted=True)
    out = replace(out, taints=(*out.taints, TAINT))
    assert PLACE not in concerns(out, [["w1"], ["w2"]])


@pytest.mark.parametrize("batches", [[["w2"], ["w1"]], [["w1", "w2"]]], ids=["later", "with it"])
def test_one_that_is_out_then_takes_none(batches: list[list[str]]) -> None:
    assert PLACE in concerns(taken_out(cordoned=True), batches)


def test_the_cordon_of_another_person_stays() -> None:
    assert PLACE in concerns(taken_out(cordoned=False), [["w1"], ["w2"]])


def test_a_taint_of_its_owner_stays() -> None:
    out = taken_out(cordoned=True)
    out = replace(out, taints=(*out.taints, "team=a:NoSchedule"))
    assert PLACE in concerns(out, [["w1"], ["w2"]])
