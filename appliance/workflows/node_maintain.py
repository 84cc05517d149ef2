"""Take a node out of service: forecast, photograph, cordon, evict, taint, shut down.

What we are about to do is written on the Node object before it is done, so a run that was killed
anywhere is finished by the same command, or undone by ``node return``, from any laptop. A run that
fails restores what it changed. What must not be here: who may be evicted
(:mod:`appliance.model.drain`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from appliance.errors import (
    ApplianceError,
    NodeUnreachable,
    PreflightFailed,
    Refused,
    StepNotProven,
)
from appliance.model.drain import Forecast, forecast
from appliance.model.maintenance import TAINT, Maintenance, Mode, archived, timestamp
from appliance.workflows.recording import Recorder

if TYPE_CHECKING:
    from appliance.model.drain import PodOnNode
    from appliance.model.journal import Run
    from appliance.model.observation import DrainView
    from appliance.model.site import Node, Site
    from appliance.workflows.ports import (
        Archive,
        Clock,
        Drain,
        JournalPort,
        Nodes,
        Observer,
        Power,
    )

POLL_SECONDS = 1.0
# Beyond a pod's own grace: what the API and the kubelet need to act.
PATIENCE_SECONDS = 60.0
BUDGET_SECONDS = 60.0
SHUTDOWN_SECONDS = 300.0


@dataclass(frozen=True)
class MaintainRequest:
    """What was asked for.

    Attributes:
        window_seconds: after which the node is to be back, or None.
        shutdown: power the node off at the end.
        lost: the node does not answer: mark and taint it without its help.
        allow_outage: go on although a service will be away.
        budget_seconds: how long a PodDisruptionBudget may hold the eviction up.
    """

    site: Site
    node: Node
    run: Run
    reason: str = ""
    window_seconds: float | None = None
    mode: Mode = "taint"
    shutdown: bool = False
    lost: bool = False
    allow_outage: bool = False
    dry_run: bool = False
    budget_seconds: float = BUDGET_SECONDS


@dataclass(frozen=True)
class MaintainPorts:
    """Everything outside that maintenance needs."""

    drain: Drain
    nodes: Nodes
    power: Power
    archive: Archive
    journal: JournalPort
    clock: Clock
    observer: Observer
    confirm: Callable[[Forecast, str], bool]


@dataclass(frozen=True)
class Maintained:
    """How it ended.

    Attributes:
        forecast: what was foreseen.
        maintenance: what stands on the node; None for a dry run.
        already: it was in maintenance before.
        evict_seconds: how long the eviction took.
    """

    forecast: Forecast
    maintenance: Maintenance | None
    already: bool = False
    evict_seconds: float | None = None


def node_maintain(request: MaintainRequest, ports: MaintainPorts) -> Maintained:
    """Take a node out of service, or restore it when that fails.

    Raises:
        NodeUnreachable: the API, or the node, does not answer; nothing was changed.
        PreflightFailed: it would be an outage; nothing was changed.
        Refused: the operator did not confirm; nothing was changed.
        StepNotProven: a pod stays; what we changed was restored.
        ClusterError: the API refused; what we changed was restored, or is named.
    """
    view = ports.drain.view(request.node.name)
    foreseen = forecast(request.node.name, view.pods, view.budgets, view.nodes)
    begun = view.maintenance
    if begun and not begun.is_under_way and not (request.shutdown and view.ready):
        return Maintained(foreseen, begun, already=True)
    _refuse(request, view, foreseen)
    if request.dry_run:
        return Maintained(foreseen, None)
    if not ports.confirm(foreseen, _last_time(ports.journal)):
        raise Refused("not confirmed: nothing was changed", hint="answer yes, or pass --yes")
    return _Run(request, ports, view, foreseen).carry_out()


def _refuse(request: MaintainRequest, view: DrainView, foreseen: Forecast) -> None:
    name = request.node.name
    if request.lost and view.ready:
        raise PreflightFailed(
            f"{name}: found it Ready, expected a node that the cluster has lost",
            hint=f"empty it with its help: appliance node maintain {name}",
        )
    if not request.lost and not view.ready:
        raise PreflightFailed(
            f"{name}: found it NotReady, expected a node that can end its pods",
            hint=f"if it is gone: appliance node maintain {name} --lost",
        )
    if request.mode == "taint" and foreseen.unfit and not request.lost:
        first, *others = foreseen.unfit
        raise PreflightFailed(
            f"{name}: pod {first.where} does not tolerate {TAINT}, which would end it",
            hint="give its DaemonSet the toleration, or leave the taint out: --mode cordon",
            details=[f"pod {pod.where} neither" for pod in others],
        )
    outages = foreseen.by("refuses")
    if outages and not request.allow_outage and not request.lost:
        raise PreflightFailed(
            outages[0].sentence(),
            hint="to go on all the same: --allow-outage",
            details=[outage.sentence() for outage in outages[1:]],
        )


def _last_time(journal: JournalPort) -> str:
    """How long the eviction took last time on this site, in words."""
    took = journal.durations().get("maintain: evict")
    return f"last time the eviction took {took:.0f} s" if took is not None else ""


class _Run:
    """One maintenance: what it found, and what it has marked."""

    def __init__(
        self, request: MaintainRequest, ports: MaintainPorts, view: DrainView, foreseen: Forecast
    ) -> None:
        self._request = request
        self._ports = ports
        self._foreseen = foreseen
        self._recorder = Recorder(request.run, ports.journal, ports.clock)
        self._name = request.node.name
        self._mark = view.maintenance or self._new_mark(view)
        self._taken_up = view.maintenance is not None
        self._evict_seconds: float | None = None

    def _new_mark(self, view: DrainView) -> Maintenance:
        request, now = self._request, self._ports.clock.now()
        window = request.window_seconds
        return Maintenance(
            run=request.run.id,
            by=request.run.operator,
            host=request.run.host,
            since=timestamp(now),
            until=timestamp(now + window) if window is not None else None,
            reason=request.reason,
            mode=request.mode,
            phase="cordon",
            cordoned=not view.unschedulable,
            tainted=not view.tainted and request.mode == "taint",
            photograph=None if request.lost else archived(self._name, request.run.id),
            lost=request.lost,
        )

    def carry_out(self) -> Maintained:
        if not self._request.lost and not self._taken_up:
            self._photograph()
        try:
            self._step("cordon", "no pod is to come", self._cordon)
            if not self._mark.lost:
                self._evict_seconds = self._step(
                    "evict", "pods move by the eviction API", self._evict
                )
            if self._mark.mode == "taint":
                self._step("taint", f"{TAINT} keeps everything else away", self._taint)
        except ApplianceError as error:
            self._restore(error)
            raise
        if self._request.shutdown and not self._mark.lost:
            self._step("shutdown", "asked for", self._shut_down)
        self._mark = self._mark.at("out of service")
        self._ports.drain.mark(self._name, self._mark, cordon=False)
        return Maintained(self._foreseen, self._mark, evict_seconds=self._evict_seconds)

    def _step(self, name: str, why: str, act: Callable[[], None]) -> float:
        step = f"maintain: {name}"
        self._ports.observer.step_started(step, (self._name,))
        evidence = None
        try:
            with self._recorder.step(step, (self._name,), (f"{self._name}: {why}",)) as evidence:
                act()
        finally:
            took = evidence.took_seconds if evidence else 0.0
            self._ports.observer.step_ended(step, took, evidence.error if evidence else None)
        return took

    def _photograph(self) -> None:
        """Keep what the node is like now, where the laptop that returns it will find it."""
        look = self._ports.nodes.look([self._request.node])
        if look.faults:
            fault = look.faults[0]
            raise NodeUnreachable(
                fault.reason,
                hint=f"if it is lost: appliance node maintain {self._name} --lost",
            )
        photograph = look.photographs[self._name]
        document = {"document": photograph.document, "received_at": photograph.received_at}
        for missed in self._ports.archive.put(
            archived(self._name, self._request.run.id), json.dumps(document)
        ):
            self._ports.observer.note(f"the photograph was not kept everywhere: {missed}")

    def _cordon(self) -> None:
        self._ports.drain.mark(self._name, self._mark, cordon=True)

    def _evict(self) -> None:
        """Ask for each pod until it is gone; patience is the pods' own grace and a minute more."""
        drain, clock = self._ports.drain, self._ports.clock
        drain.mark(self._name, self._mark.at("evict"), cordon=False)
        began = clock.now()
        held_since: dict[str, float] = {}
        while pods := _to_be_moved(drain.view(self._name)):
            grace = max(pod.grace_seconds for pod in pods)
            for pod in pods:
                if pod.ending:
                    held_since.pop(pod.where, None)
                elif why := drain.evict(pod):
                    since = held_since.setdefault(pod.where, clock.now())
                    if clock.now() - since >= self._request.budget_seconds:
                        raise self._held_up(pod, why)
            if not held_since and clock.now() - began >= grace + PATIENCE_SECONDS:
                raise StepNotProven(
                    f"{self._name}: pod {pods[0].where} does not end, {grace} s after it was asked",
                    hint=f"kubectl -n {pods[0].namespace} describe pod {pods[0].name}",
                    details=[f"pod {pod.where} neither" for pod in pods[1:]],
                )
            self._ports.observer.verifying("maintain: evict", _waiting_for(pods, held_since))
            clock.sleep(POLL_SECONDS)

    def _held_up(self, pod: PodOnNode, why: str) -> StepNotProven:
        view = self._ports.drain.view(self._name)
        budgets = [b for b in view.budgets if pod.where in b.pods and b.allowed == 0]
        named = budgets[0].where if budgets else "its PodDisruptionBudget"
        says = f" ({budgets[0].says})" if budgets and budgets[0].says else ""
        owner = " ".join(pod.owner) if pod.owner else "no controller"
        return StepNotProven(
            f"{self._name}: pod {pod.where} of {owner} may not go: {named}{says} allows no "
            f"disruption for {self._request.budget_seconds:.0f} s",
            hint="ask its owner for one more replica or another budget; then the same command",
            details=[] if budgets else [why],
        )

    def _taint(self) -> None:
        left = _to_be_moved(self._ports.drain.view(self._name)) if not self._mark.lost else []
        if left:
            raise StepNotProven(
                f"{self._name}: pod {left[0].where} came after the eviction",
                hint="it tolerates a cordoned node; stop it, then run the same command again",
                details=[f"pod {pod.where} too" for pod in left[1:]],
            )
        self._ports.drain.mark(self._name, self._mark.at("taint"), cordon=False)
        self._ports.drain.taint(self._name, on=True)

    def _shut_down(self) -> None:
        drain, clock = self._ports.drain, self._ports.clock
        drain.mark(self._name, self._mark.at("shutdown"), cordon=False)
        self._ports.power.shut_down(self._request.node)
        deadline = clock.now() + SHUTDOWN_SECONDS
        while self._ports.power.answers(self._request.node):
            if clock.now() >= deadline:
                raise StepNotProven(
                    f"{self._name}: still answers {SHUTDOWN_SECONDS:.0f} s after the order to "
                    "power off",
                    hint="see its console; the node is empty, power it off by its BMC or button",
                )
            self._ports.observer.verifying("maintain: shutdown", "the node to power off")
            clock.sleep(POLL_SECONDS)

    def _restore(self, error: ApplianceError) -> None:
        """Undo exactly what we did; what cannot be undone now is named."""
        try:
            if self._mark.tainted:
                self._ports.drain.taint(self._name, on=False)
            self._ports.drain.clear(self._name, uncordon=self._mark.cordoned)
        except (ApplianceError, KeyboardInterrupt) as left:
            words = left.message if isinstance(left, ApplianceError) else "interrupted again"
            error.details = (
                *error.details,
                f"{self._name} could not be restored: {words}",
                f"undo it with: appliance node return {self._name}",
            )
            return
        error.details = (*error.details, f"restored: {self._name} is as it was before")


def _to_be_moved(view: DrainView) -> list[PodOnNode]:
    return list(forecast(view.node, view.pods, view.budgets, view.nodes).evicted)


def _waiting_for(pods: Sequence[PodOnNode], held: dict[str, float]) -> str:
    first = next((pod.where for pod in pods if pod.where in held), pods[0].where)
    why = "a PodDisruptionBudget" if first in held else "it to end"
    more = f" and {len(pods) - 1} more" if pods[1:] else ""
    return f"{first}{more}: waiting for {why}"
