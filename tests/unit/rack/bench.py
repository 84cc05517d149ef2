"""A rack whose nodes have power: the API is there while a majority of control planes is on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Address
from typing import Any

from appliance.errors import NodeUnreachable
from appliance.model.node.baseline import Passport
from appliance.model.node.bmc.report import BmcReport
from appliance.model.node.drain import DrainView
from appliance.model.node.etcd_quorum import EtcdMember
from appliance.model.rack.mark import ANNOTATION as RACK
from appliance.model.rack.mark import RackMark, parse_mark
from appliance.model.rack.order import enough
from appliance.model.site.settings import Node, Site
from appliance.model.state.cluster.cluster import Cluster, ClusterState, Unreachable
from appliance.model.state.cluster.pods import Budget, PodOnNode
from appliance.model.state.facts.facts import NodeFacts
from appliance.model.state.journal import Record
from appliance.model.state.nodes.maintenance import (
    ANNOTATION,
    Maintenance,
    maintenance_of,
    stands_as_ours,
)
from appliance.model.state.observed import Fault, Look
from appliance.model.upgrade.evidence import SnapshotProof
from appliance.workflows.rack.down import DownResult, rack_down
from appliance.workflows.rack.down_plan import DownRequest
from appliance.workflows.rack.up import UpRequest, UpResult, rack_up
from tests import samples
from tests.fake_bmcs import FakeDriver
from tests.fakes import FakeArchive, FakeClock, FakeJournal, FakeObserver, FakeRack, run
from tests.sessions import fake_session


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
        self.effects: list[str] = []
        self.kill_at = -1
        self.after = False
        self.dead = False
        self.pods: dict[str, list[PodOnNode]] = {node.name: [] for node in desired.site.nodes}
        self.budgets: list[Budget] = []

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
        return node.name in self.on

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


class Etcd:
    """etcd of a world; ``sick`` members say so."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.sick: set[str] = set()

    def members(self, asked: Node) -> Sequence[EtcdMember]:
        found = self.world.members(asked)
        return [replace(one, healthy=one.healthy and one.name not in self.sick) for one in found]


class Driver(FakeDriver):
    """BMCs of a world: what they report is what is so."""

    def __init__(self, world: World) -> None:
        super().__init__([node.name for node in world.desired.site.nodes])
        self.world = world

    def open(self, node: Node) -> Any:
        self.world.settle()
        power = "On" if node.name in self.world.on else "Off"
        self.machines[node.name] = replace(self.machines[node.name], power=power)
        return self._opened(node)

    @contextmanager
    def _opened(self, node: Node) -> Any:
        before = len(self.orders)
        with super().open(node) as bmc:
            yield bmc
        if (node.name, "on") in self.orders[before:] and node.name not in self.world.broken:
            with self.world.effect(f"on {node.name}"):
                self.world.on.add(node.name)


class Bmcs:
    """The same BMCs, for who only asks."""

    def __init__(self, world: World) -> None:
        self.world = world

    def report(self, node: Node) -> BmcReport | None:
        if node.bmc_address is None:
            return None
        self.world.settle()
        return BmcReport(f"SN-{node.name}", powered_off=node.name not in self.world.on)


@dataclass
class LocalRecord:
    """The record on this machine: text, as a file would keep it."""

    world: World
    text: str | None = None

    def read(self) -> RackMark | None:
        return parse_mark(self.text)

    def write(self, mark: RackMark) -> None:
        with self.world.effect(f"record {mark.phase}"):
            self.text = mark.as_text()

    def drop(self) -> None:
        with self.world.effect("drop"):
            self.text = None


@dataclass
class Journal(FakeJournal):
    """A killed process appends nothing; a lock whose nodes are off cannot be taken."""

    world: World = field(kw_only=True)

    def __post_init__(self) -> None:
        FakeJournal.__init__(self)
        self.held = False

    def append(self, record: Record) -> None:
        if not self.world.dead:
            super().append(record)

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        self.held = bool(self.entered)

    def require(self) -> tuple[str, ...]:
        self.world.require_api()
        return super().require()


def with_bmcs(site: Site, names: Collection[str]) -> Site:
    """The site, with BMCs for these nodes."""
    nodes = tuple(
        replace(node, bmc_address=IPv4Address(int(node.address.ip) + 100))
        if node.name in names
        else node
        for node in site.nodes
    )
    return replace(site, nodes=nodes)


class Bench:
    """A rack, and the commands that take it down and up."""

    def __init__(
        self, masters: int = 3, workers: int = 2, bmcs: Collection[str] | None = None
    ) -> None:
        site = samples.site(masters, workers)
        names = [node.name for node in site.nodes]
        self.site = with_bmcs(site, names if bmcs is None else bmcs)
        self.desired = samples.desired(self.site)
        self.clock = FakeClock()
        self.world = World(self.desired, self.clock)
        self.driver = Driver(self.world)
        self.etcd = Etcd(self.world)
        self.record = LocalRecord(self.world)
        self.archive = FakeArchive([Passport(name, {"machine": f"SN-{name}"}) for name in names])
        for name in names:
            passport = Passport(name, {"machine": f"SN-{name}"})
            self.archive.documents[passport.document] = passport.text()
        self.journal = Journal(world=self.world)
        self.observer = FakeObserver()
        self.asked: list[Sequence[str]] = []
        self.answer = True
        self.meanwhile: Callable[[], object] = int

    def session(self) -> Any:
        return fake_session(
            self.world,
            self.journal,
            drain=self.world,
            power=self.world,
            etcd=self.etcd,
            bmcs=Bmcs(self.world),
            driver=self.driver,
            archive=self.archive,
            clock=self.clock,
            observer=self.observer,
            upgrade_evidence=self.world,
            rack_record=self.record,
        )

    def confirm(self, lines: Sequence[str]) -> bool:
        self.asked.append(lines)
        self.meanwhile()
        return self.answer

    def down(self, **more: Any) -> DownResult:
        request = DownRequest(self.site, run("rack down"), **{"reason": "shipping", **more})
        return rack_down(request, self.session(), self.confirm)

    def up(self, **more: Any) -> UpResult:
        request = UpRequest(
            self.site, lambda: self.desired, run("rack up"), **{"wait_seconds": 60.0, **more}
        )
        return rack_up(request, self.session(), self.confirm)

    def revive(self) -> None:
        """Another process: nothing of the killed one is left but what it wrote."""
        self.world.dead, self.world.kill_at = False, -1
        self.journal = Journal(world=self.world)

    @property
    def cordoned(self) -> list[str]:
        return [name for name, node in self.world.api.nodes.items() if node.unschedulable]

    @property
    def marks(self) -> dict[str, Maintenance]:
        found = {n: maintenance_of(v.annotations) for n, v in self.world.api.nodes.items()}
        return {name: mark for name, mark in found.items() if mark}

    @property
    def announced(self) -> list[str]:
        return [n for n, node in self.world.api.nodes.items() if RACK in node.annotations]

    @property
    def offs(self) -> list[str]:
        return [one[4:] for one in self.world.effects if one.startswith("off ")]

    @property
    def ons(self) -> list[str]:
        return [one[3:] for one in self.world.effects if one.startswith("on ")]
