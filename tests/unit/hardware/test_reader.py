"""All nodes are read at the same time; what one of them does holds up no other's result."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from ipaddress import IPv4Address
from typing import Any

from appliance.adapters.hardware.machines import MOST_AT_ONCE, Machines
from appliance.adapters.ssh.call import Answer
from appliance.errors import NodeUnreachable
from appliance.model.checks.hardware.found import Machine
from appliance.model.site.settings import Node
from tests import samples
from tests.unit.hardware.made_up import document, machine

SITE = samples.site(workers=3)


class Nodes:
    """Answers when as many ask as are expected: one after the other would never end."""

    def __init__(self, expected: int) -> None:
        self.barrier = threading.Barrier(expected, timeout=20)

    def run_as_root(self, node: Node, _script: str, **_: Any) -> Answer:
        self.barrier.wait()
        if node.name == "w2":
            raise NodeUnreachable("w2: no answer on port 22")
        code = 3 if node.name == "w3" else 0
        return Answer(code, "" if code else json.dumps(document()), "python3: not found")


class Bmcs:
    def inspect(self, node: Node) -> Machine | str:
        return machine() if node.name == "w1" else f"no BMC of {node.name} answers"


def reader(expected: int) -> Machines:
    return Machines(SITE, Nodes(expected), Bmcs())  # type: ignore[arg-type]


def test_nodes_are_read_at_the_same_time_and_faults_stay_with_their_node() -> None:
    found = reader(4).read(SITE.nodes, "probe")
    assert list(found) == ["cp1", "w1", "w2", "w3"]
    assert found["w2"].reasons == ("no answer on port 22",)
    assert found["w3"].reasons == ("the probe exited with 3: python3: not found",)
    assert isinstance(found["w1"].probe, Machine)
    assert found["w1"].bmc is None


def test_of_both_a_node_without_a_bmc_is_read_by_its_probe_alone() -> None:
    nodes = tuple(
        replace(node, bmc_address=IPv4Address("198.18.9.1")) if node.name in ("w1", "w2") else node
        for node in SITE.nodes
    )
    found = reader(4).read(nodes, "both")
    assert isinstance(found["w1"].bmc, Machine)
    assert found["w2"].reasons == ("no answer on port 22", "no BMC of w2 answers")
    assert found["cp1"].bmc is None


def test_as_many_nodes_as_are_asked_at_once_hold_up_no_bmc() -> None:
    """The probes end when every BMC was asked."""
    site = samples.site(workers=MOST_AT_ONCE - 1)
    nodes = tuple(replace(node, bmc_address=IPv4Address("198.18.9.1")) for node in site.nodes)
    asked = threading.Barrier(len(nodes) + 1, timeout=20)

    class WaitingNodes(Nodes):
        def run_as_root(self, node: Node, _script: str, **_: Any) -> Answer:
            if node.name == "cp1":
                asked.wait()
            return super().run_as_root(node, _script)

    class CountedBmcs(Bmcs):
        def inspect(self, node: Node) -> Machine | str:
            asked.wait()
            return super().inspect(node)

    machines = Machines(site, WaitingNodes(len(nodes)), CountedBmcs())  # type: ignore[arg-type]
    found = machines.read(nodes, "both")
    assert len(found) == MOST_AT_ONCE
    assert isinstance(found["w1"].bmc, Machine)


def test_by_bmc_no_node_is_asked() -> None:
    found = reader(99).read(SITE.nodes, "bmc")
    assert [one.probe for one in found.values()] == [None] * 4
    assert found["cp1"].reasons == ("no BMC of cp1 answers",)
    assert reader(99).read((), "both") == {}


def test_the_clock_is_compared_with_this_machines() -> None:
    late = machine({"taken_at": 1000.0}).received(1007.5)
    assert late.settings.clock_offset_seconds == -7.5
    assert machine({"taken_at": None}).received(1007.5) == machine({"taken_at": None})
