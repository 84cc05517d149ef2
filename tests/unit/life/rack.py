"""A node with pods, whose API, power and clock are fakes with a memory."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from appliance.errors import NodeUnreachable
from appliance.model.node.answering import AnsweringMachine
from appliance.model.node.baseline import Passport
from appliance.model.node.bmc.fence import Fence
from appliance.model.node.drain import DrainView, Forecast
from appliance.model.site.settings import Node
from appliance.model.state.cluster.cluster import ClusterNode
from appliance.model.state.cluster.pods import Budget, PodOnNode
from appliance.model.state.facts.hardware import Difference
from appliance.model.state.nodes.maintenance import ANNOTATION, TAINT, Maintenance, stands_as_ours
from appliance.workflows.node.maintain import MaintainResult, node_maintain
from appliance.workflows.node.maintenance.again import MaintainRequest
from appliance.workflows.node.return_ import ReturnRequest, ReturnResult, node_return
from appliance.workflows.session.session import Session
from tests import samples
from tests.fakes import (
    FakeArchive,
    FakeBmcs,
    FakeClock,
    FakeJournal,
    FakeObserver,
    FakeRack,
    run,
)
from tests.sessions import fake_session

State = tuple[bool, tuple[str, ...], bool]
# Cordoned, taints, marked.
IN_SERVICE: State = (False, (), False)
OUT: State = (True, (TAINT,), True)
# None: by another hand than ours.
Ours = Collection[Maintenance | None] | None
WEB = ("ReplicaSet", "web-5d")


@dataclass
class FakeDrain:
    """One node's pods: an eviction that a budget allows ends a pod after its grace."""

    clock: FakeClock
    pods: list[PodOnNode] = field(default_factory=list)
    budgets: list[Budget] = field(default_factory=list)
    ready: bool = True
    unschedulable: bool = False
    taints: tuple[str, ...] = ()
    annotations: dict[str, str] = field(default_factory=dict)
    nodes: tuple[ClusterNode, ...] = (ClusterNode("w1", True), ClusterNode("w2", True))
    log: list[str] = field(default_factory=list)
    fail_at: dict[str, BaseException] = field(default_factory=dict)
    immortal: set[str] = field(default_factory=set)
    _ends: dict[str, float] = field(default_factory=dict)

    def _did(self, what: str) -> None:
        self.log.append(what)
        if what in self.fail_at:
            raise self.fail_at.pop(what)

    def views(self, asked: Sequence[str]) -> dict[str, DrainView]:
        return {node: self.view(node) for node in asked}

    def view(self, node: str) -> DrainView:
        now = self.clock.now()
        gone = {name for name, at in self._ends.items() if at <= now and name not in self.immortal}
        self.pods = [
            replace(pod, ending=pod.where in self._ends)
            for pod in self.pods
            if pod.where not in gone
        ]
        return DrainView(
            node,
            dict(self.annotations),
            self.unschedulable,
            self.taints,
            self.ready,
            tuple(self.pods),
            tuple(self.budgets),
            self.nodes,
        )

    def pods_on(self, node: str) -> tuple[PodOnNode, ...]:
        return self.view(node).pods

    def mark(self, node: str, maintenance: Maintenance, *, cordon: bool, ours: Ours = None) -> None:
        self._did(f"mark {maintenance.phase}")
        if ours is not None:
            stands_as_ours(node, self.annotations, ours)
        self.annotations[ANNOTATION] = maintenance.as_text()
        self.unschedulable = self.unschedulable or cordon

    def clear(self, node: str, *, uncordon: bool, ours: Ours = None) -> None:
        self._did("clear")
        if ours is not None and not stands_as_ours(node, self.annotations, ours):
            return
        self.annotations.pop(ANNOTATION, None)
        if uncordon:
            self.unschedulable = False

    def taint(self, node: str, *, on: bool, ours: Ours = None) -> None:
        self._did(f"taint {'on' if on else 'off'}")
        if ours is not None and not stands_as_ours(node, self.annotations, ours):
            return
        others = tuple(taint for taint in self.taints if taint != TAINT)
        self.taints = (*others, TAINT) if on else others

    def evict(self, pod: PodOnNode) -> str:
        self._did(f"evict {pod.where}")
        if any(pod.where in budget.pods and budget.allowed == 0 for budget in self.budgets):
            return "a PodDisruptionBudget does not allow it"
        self._ends[pod.where] = self.clock.now() + pod.grace_seconds
        return ""


class FakePower:
    """A node that is off some seconds after it was asked; every other node answers.

    Attributes:
        blinks: seconds (since it was made) in which no connection to the node succeeds.
        away: this machine reaches no node at all.
    """

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.off_at: float | None = None
        self.stays_on = False
        self.orders = 0
        self.blinks = range(0)
        self.away = False
        self._began = clock.now()

    def shut_down(self, node: Node) -> None:
        if not self.answers(node):
            raise NodeUnreachable(f"{node.name}: no answer on port 22")
        self.orders += 1
        self.off_at = self.clock.now() + 5

    def answers(self, node: Node) -> bool:
        if self.away or node.name != "w1":
            return not self.away
        if int(self.clock.now() - self._began) in self.blinks:
            return False
        return self.stays_on or self.off_at is None or self.clock.now() < self.off_at


class Bench:
    """A worker of a converged site, to be maintained and returned."""

    def __init__(self, masters: int = 1, **settings: Any) -> None:
        self.desired = samples.desired(samples.site(masters, **settings))
        self.node = self.desired.site.node("w1")
        self.rack = FakeRack(self.desired)
        self.rack.documents = {
            node.name: samples.converged(node, self.desired) for node in self.desired.site.nodes
        }
        self.rack.cluster = samples.cluster(self.desired)
        self.clock = FakeClock()
        self.drain = FakeDrain(self.clock)
        self.power = FakePower(self.clock)
        self.bmcs = FakeBmcs()
        self.archive = FakeArchive([Passport("w1", {"machine": "SN-w1"})])
        self.journal = FakeJournal()
        self.observer = FakeObserver()
        self.asked: list[Any] = []
        self.machines: list[AnsweringMachine] = []
        self.fences: list[Fence | None] = []
        self.answer = True
        self.thinks = 0.0
        self.meanwhile: Callable[[], object] = int

    def maintain(self, **more: Any) -> MaintainResult:
        request = MaintainRequest(
            self.desired.site, self.node, run("node maintain"), **{"reason": "new riser", **more}
        )
        return node_maintain(request, self._session(), self._confirm())

    def _session(self) -> Session:
        return fake_session(
            self.rack,
            self.journal,
            drain=self.drain,
            power=self.power,
            bmcs=self.bmcs,
            archive=self.archive,
            clock=self.clock,
            observer=self.observer,
        )

    def _confirm(self) -> Callable[[Forecast, str, AnsweringMachine, Fence | None], bool]:
        def confirm(
            foreseen: Forecast, last_time: str, machine: AnsweringMachine, fence: Fence | None
        ) -> bool:
            self.asked.append((foreseen, last_time))
            self.machines.append(machine)
            self.fences.append(fence)
            self.clock.sleep(self.thinks)
            self.meanwhile()
            return self.answer

        return confirm

    def bring_back(self, *acknowledged: str, **more: Any) -> ReturnResult:
        request = ReturnRequest(
            self.desired, self.node, run("node return"), frozenset(acknowledged), **more
        )

        def confirm(
            mark: Maintenance, differences: Sequence[Difference], machine: AnsweringMachine
        ) -> bool:
            self.asked.append((mark, differences))
            self.machines.append(machine)
            self.clock.sleep(self.thinks)
            self.meanwhile()
            return self.answer

        return node_return(request, self._session(), confirm)

    @property
    def state(self) -> State:
        """Cordoned, taints, marked."""
        return self.drain.unschedulable, self.drain.taints, ANNOTATION in self.drain.annotations


def web(name: str = "web-1", **more: Any) -> PodOnNode:
    values: dict[str, Any] = {"owner": WEB, "siblings": 1, "grace_seconds": 10, **more}
    return PodOnNode("team", name, "w1", **values)
