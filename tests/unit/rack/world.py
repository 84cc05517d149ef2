"""Nodes with power and a kubelet: the API is there while a majority of control planes is on."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from appliance.errors import NodeUnreachable
from appliance.model.node.drain import DrainView
from appliance.model.node.etcd_quorum import EtcdMember
from appliance.model.plan.rack.order import enough
from appliance.model.site.settings import Node
from appliance.model.state.cluster.cluster import Cluster, ClusterState, Unreachable
from appliance.model.state.cluster.pods import Budget, PodOnNode
from appliance.model.state.facts.facts import NodeFacts
from appliance.model.state.nodes.maintenance import (
    ANNOTATION,
    Maintenance,
    stands_as_ours,
)
from appliance.model.state.observed import Fault, Look, PodView
from appliance.model.upgrade.evidence import SnapshotProof
from tests import samples
from tests.fakes import FakeClock, FakeRack


class Killed(BaseException):
    """SIGKILL: nothing that follows in this process has an effect."""


class World(FakeRack):
    """Nodes with power.

    Attributes:
        on: the nodes that are on.
        going: node -> when a shutdown that it accepted is done.
        deaf: nodes that accept a shutdown and stay on.
        broken: nodes that no order switches on.
        effects: everything that was changed, in order.
        kill_at: the number of the effect at which the process ends.
        after: the kill comes after that effect, not before it.
    """

    def __init__(self, desired: Any, clock: FakeClock) -> None:
        super().__init__(desired)
        self.clock = clock
        self.documents = {n.name: samples.converged(n, desired) for n in desired.site.nodes}
        self.cluster = samples.cluster(desired)
        self.on = {node.name for node in desired.site.nodes}
        self.going: dict[str, float] = {}
        self.deaf: set[str] = set()
        self.broken: set[str] = set()
        # Addresses at which somebody else answers while the node is off.
        self.taken: set[str] = set()
        self.effects: list[str] = []
        self.kill_at = -1
        self.after = False
        self.dead = False
        self.pods: dict[str, list[PodOnNode]] = {node.name: [] for node in desired.site.nodes}
        self.budgets: list[Budget] = []
        self.looks_from_pods = 0
        self.faults_of_pods: tuple[str, ...] = ()

    @contextmanager
    def effect(self, what: str) -> Any:
        """One change of the world, at which the process may be killed."""
        if self.dead:
            raise Killed
        if len(self.effects) == self.kill_at and not self.after:
            self.dead = True
            raise Killed
        yield
        self.effects.append(what)
        if len(self.effects) - 1 == self.kill_at:
            self.dead = True
            raise Killed

    @property
    def api(self) -> Cluster:
        assert isinstance(self.cluster, Cluster)
        return self.cluster

    @property
    def has_api(self) -> bool:
        self.settle()
        return enough(self.desired.site, self.on)

    def settle(self) -> None:
        for name, at in list(self.going.items()):
            if self.clock.now() >= at and name not in self.deaf:
                self.on.discard(name)
                self.going.pop(name, None)

    def cut(self) -> None:
        """The power of all nodes fails at once."""
        self.on.clear()

    def require_api(self) -> None:
        if not self.has_api:
            raise NodeUnreachable("no API server answers")

    def look(self, nodes: Sequence[Node]) -> Look:
        self.settle()
        found = super().look(nodes)
        off = [node.name for node in nodes if node.name not in self.on]
        facts = {name: one for name, one in found.node_facts.items() if name not in off}
        faults = tuple(Fault(name, f"{name}: port 22 did not answer", "ping") for name in off)
        return Look(facts, (*found.faults, *faults))

    def read(self, node_facts: Mapping[str, NodeFacts]) -> ClusterState:
        if not self.has_api:
            return Unreachable("no API server answers")
        found = super().read(node_facts)
        assert isinstance(found, Cluster)
        nodes = {
            name: replace(node, ready=node.ready and name in self.on)
            for name, node in found.nodes.items()
        }
        return replace(found, nodes=nodes)

    def annotate(self, names: Sequence[str], key: str, value: str | None) -> None:
        self.require_api()
        with self.effect(f"annotate {'off' if value is None else 'on'}"):
            super().annotate(names, key, value)

    def look_from_pods(self, nodes: Sequence[str], image: str, names: Sequence[str]) -> PodView:
        assert "busybox" in image
        assert set(nodes) <= self.on
        self.looks_from_pods += 1
        seen = dict.fromkeys(names, ())
        return PodView(tuple(nodes), self.faults_of_pods, dict.fromkeys(nodes, seen))

    # Pods and marks.

    def views(self, asked: Sequence[str]) -> dict[str, DrainView]:
        return {name: self.view(name) for name in asked}

    def view(self, node: str) -> DrainView:
        self.require_api()
        found = self.api.nodes[node]
        return DrainView(
            node,
            found.annotations,
            found.unschedulable,
            found.taints,
            found.ready and node in self.on,
            tuple(self.pods[node]),
            tuple(self.budgets),
            tuple(self.api.nodes.values()),
        )

    def pods_on(self, node: str) -> tuple[PodOnNode, ...]:
        return tuple(self.pods[node])

    def change(self, node: str, **changes: Any) -> None:
        changed = replace(self.api.nodes[node], **changes)
        self.cluster = replace(self.api, nodes={**self.api.nodes, node: changed})

    def mark(
        self,
        node: str,
        maintenance: Maintenance,
        *,
        cordon: bool,
        ours: Collection[Maintenance | None],
    ) -> None:
        self.require_api()
        found = self.api.nodes[node]
        stands_as_ours(node, found.annotations, ours)
        with self.effect(f"mark {node} {maintenance.phase}"):
            self.change(
                node,
                annotations={**found.annotations, ANNOTATION: maintenance.as_text()},
                unschedulable=found.unschedulable or cordon,
            )

    def clear(self, node: str, *, uncordon: bool, ours: Collection[Maintenance | None]) -> None:
        self.require_api()
        found = self.api.nodes[node]
        if stands_as_ours(node, found.annotations, ours):
            kept = {key: v for key, v in found.annotations.items() if key != ANNOTATION}
            with self.effect(f"clear {node}"):
                unschedulable = found.unschedulable and not uncordon
                self.change(node, annotations=kept, unschedulable=unschedulable)

    def taint(self, node: str, *, on: bool, ours: Collection[Maintenance | None]) -> None:
        raise AssertionError(f"no taint is set: {node} {on} {ours}")

    def evict(self, pod: PodOnNode) -> str:
        self.require_api()
        if any(pod.where in budget.pods and budget.allowed == 0 for budget in self.budgets):
            return "a PodDisruptionBudget does not allow it"
        assert pod.node is not None
        assert all(node.unschedulable for node in self.api.nodes.values()), "it would move"
        with self.effect(f"evict {pod.name}"):
            self.pods[pod.node] = [one for one in self.pods[pod.node] if one.where != pod.where]
        return ""

    # Power.

    def shut_down(self, node: Node) -> None:
        if not self.answers(node):
            raise NodeUnreachable(f"{node.name}: no answer on port 22")
        with self.effect(f"off {node.name}"):
            self.going[node.name] = self.clock.now() + 5

    def answers(self, node: Node) -> bool:
        self.settle()
        return node.name in self.on or node.name in self.taken

    # etcd and its snapshot.

    def members(self, asked: Node) -> Sequence[EtcdMember]:
        if not self.answers(asked):
            raise NodeUnreachable(f"{asked.name}: etcd does not answer")
        return [
            EtcdMember(f"{n:x}", node.name, f"https://{node.ip}:2380", healthy=self.answers(node))
            for n, node in enumerate(self.desired.site.control_plane, 1)
        ]

    def prove(self, node: Node, reason: str, keep: Sequence[str] = ()) -> SnapshotProof:
        assert reason.isalpha()
        assert not keep
        self.require_api()
        with self.effect(f"snapshot {node.name}"):
            return SnapshotProof(node.name, "/snapshots/1.db", "ab" * 32, 1, 7, 3, "cd" * 32)
