"""Take a node out of service: forecast, read facts, cordon, evict, taint, shut down.

Each change is announced on the Node object before it is made. So the same command completes a
killed run, or ``node return`` undoes it, from any laptop. A run that
fails restores what it changed. Who may be evicted is told by :mod:`appliance.model.node.drain`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from appliance.errors import (
    ApplianceError,
    ClusterError,
    Interrupted,
    LeaseLost,
    NodeUnreachable,
    StepNotVerified,
)
from appliance.model.node.answering import AnsweringMachine, answering
from appliance.model.node.drain import Forecast, forecast
from appliance.model.state.facts.identity import MachineIdentity
from appliance.model.state.nodes.maintenance import TAINT, Maintenance, Phase, archived, timestamp
from appliance.workflows.node.baselines import read_passport
from appliance.workflows.node.maintenance.again import (
    OUT_PHASES,
    MaintainRequest,
    gone_on,
    is_marked,
    stands,
)
from appliance.workflows.node.maintenance.agreed import Shown, shown_maintenance
from appliance.workflows.node.maintenance.eviction import Eviction, to_be_moved
from appliance.workflows.node.maintenance.marks import Marks, left_to_others
from appliance.workflows.node.maintenance.power_off import PowerState, PowerWatch
from appliance.workflows.node.maintenance.refusals import refuse, require_writable
from appliance.workflows.session.confirmation import is_late, require_confirmed
from appliance.workflows.session.recording import Recorder

if TYPE_CHECKING:
    from appliance.model.node.drain import DrainView
    from appliance.model.site.settings import Node
    from appliance.model.state.observed import Look
    from appliance.workflows.session.ports import Archive, JournalPort
    from appliance.workflows.session.session import Session


@dataclass(frozen=True)
class MaintainResult:
    """How it ended.

    Attributes:
        forecast: what was foreseen.
        maintenance: what stands on the node; None for a dry run.
        already: all that was asked for was observed, so nothing was done.
        evict_seconds: how long the eviction took.
        off: what shows that the node is powered off; empty unless that was asked for.
    """

    forecast: Forecast
    maintenance: Maintenance | None
    already: bool = False
    evict_seconds: float | None = None
    off: str = ""


def node_maintain(
    request: MaintainRequest,
    session: Session,
    confirm: Callable[[Forecast, str, AnsweringMachine], bool],
) -> MaintainResult:
    """Take a node out of service, or restore it when that fails.

    Args:
        request: what was asked for.
        session: the session.
        confirm: is shown the forecast, how long it took last time, and the machine that answers.

    Raises:
        NodeUnreachable: the API, or the node, does not answer; nothing was changed.
        PreflightFailed: it would be an outage; nothing was changed.
        Refused: not confirmed, or another command is at work; nothing was changed.
        LeaseLost: another command took the site over, or marked the node; it is left as it is.
        StepNotVerified: a pod stays; our changes were undone.
        ClusterError: the API refused; what we changed was restored, or is named.
    """
    require_writable(request.reason)
    power = PowerWatch(
        request.site,
        request.node,
        session.power,
        session.bmcs,
        session.clock,
        session.observer,
        lambda: _accepted(session.archive, request.node.name),
    )
    view = session.drain.view(request.node.name)
    foreseen = forecast(request.node.name, view.pods, view.budgets, view.nodes)
    begun, now = view.maintenance, session.clock.now()
    if begun and stands(request, begun, view, now):
        off = power.look(begun.ordered) if request.shutdown else None
        if off is None or off.off:
            return MaintainResult(foreseen, begun, already=True, off=off.words if off else "")
    refuse(request, view, foreseen)
    if request.dry_run:
        return MaintainResult(foreseen, None)
    looked, look = session.clock.monotonic(), session.nodes.look([request.node])
    if not (request.lost or begun):
        _require_answer(request.node, look)
    machine = answering(request.node, look)
    shown, observed_at = shown_maintenance(foreseen, begun, machine), session.clock.monotonic()
    require_confirmed(confirm(foreseen, _last_time(session.journal), machine))
    fresh = None if is_late(session.clock, looked) else look
    with session.lock:
        before = _Before(view, foreseen, fresh)
        if is_late(session.clock, observed_at):
            before = _as_shown(request, session, shown)
        return _Run(request, session, power, before).carry_out()


def _as_shown(request: MaintainRequest, session: Session, shown: Shown) -> _Before:
    """What is observed under the lock, where it leads to the plan that was shown.

    Raises:
        NodeUnreachable, PreflightFailed, Refused: it does not; nothing was changed.
    """
    view = session.drain.view(request.node.name)
    foreseen = forecast(request.node.name, view.pods, view.budgets, view.nodes)
    refuse(request, view, foreseen)
    look = session.nodes.look([request.node])
    if not (request.lost or view.maintenance):
        _require_answer(request.node, look)
    machine = answering(request.node, look)
    shown.require(shown_maintenance(foreseen, view.maintenance, machine), request.run)
    return _Before(view, foreseen, look)


def _accepted(archive: Archive, name: str) -> MachineIdentity:
    """The machine that is known under the node's name, as its passport says."""
    passport = read_passport(archive, name)
    return passport.machine if passport else MachineIdentity()


def _require_answer(node: Node, look: Look) -> None:
    """Refuse to empty a node whose facts could not be read.

    Raises:
        NodeUnreachable: says why.
    """
    if look.faults:
        raise NodeUnreachable(
            look.faults[0].reason,
            hint=f"if it is lost: appliance node maintain {node.name} --lost",
        )


def _last_time(journal: JournalPort) -> str:
    """How long the eviction took last time on this site, in words."""
    took = journal.durations().get("maintain: evict")
    return f"the last eviction took {took:.0f} s" if took is not None else ""


@dataclass(frozen=True)
class _Before:
    """What was seen before the question; ``fresh`` serves as the facts where it is."""

    view: DrainView
    foreseen: Forecast
    fresh: Look | None


class _Run:
    """One maintenance: what it found, and what it has marked."""

    def __init__(
        self,
        request: MaintainRequest,
        session: Session,
        power: PowerWatch,
        before: _Before,
    ) -> None:
        view = before.view
        self._request = request
        self._session = session
        self._power = power
        self._foreseen = before.foreseen
        # The look before the question is as good as another one, if it was made just now.
        self._fresh = before.fresh
        self._recorder = Recorder(request.run, session)
        self._name = request.node.name
        self._before = view.maintenance
        now = session.clock.now()
        self._mark = (
            gone_on(request, view.maintenance, view, now)
            if view.maintenance
            else self._new_mark(view)
        )
        self._is_empty = not (request.lost or view.ready) and is_marked(request, view)
        self._marks = Marks(session.drain, self._recorder.begin, self._name, view.maintenance)
        self._evict_seconds: float | None = None
        self._off = ""

    def _new_mark(self, view: DrainView) -> Maintenance:
        request, now = self._request, self._session.clock.now()
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

    def carry_out(self) -> MaintainResult:
        self._recorder.begin()
        before = self._before.photograph if self._before else None
        if self._mark.photograph != before:
            self._read_facts()
        try:
            if not self._is_empty:
                self._empty()
        except LeaseLost as lease:
            # Another command may be at work on the very node: what we did is not ours to undo now.
            lease.details = (*lease.details, left_to_others(self._name))
            raise
        except (Exception, KeyboardInterrupt) as stopped:
            error = _as_error(stopped)
            self._restore(error)
            if error is stopped:
                raise
            raise error from stopped
        return self._finish()

    def _finish(self) -> MaintainResult:
        """Power an empty node off, if requested, and record that it is out of service."""
        try:
            if self._request.shutdown:
                self._step("shutdown", "requested with --shutdown", self._shut_down)
            self._mark = self._mark.at("out of service")
            self._marks.write(self._mark)
        except LeaseLost as lease:
            lease.details = (*lease.details, left_to_others(self._name))
            raise
        except (Exception, KeyboardInterrupt) as stopped:
            error = _as_error(stopped)
            stays = f"{self._name} is empty and stays out of service"
            error.details = (*error.details, f"{stays}: appliance node return {self._name}")
            if error is stopped:
                raise
            raise error from stopped
        return MaintainResult(
            self._foreseen, self._mark, evict_seconds=self._evict_seconds, off=self._off
        )

    def _empty(self) -> None:
        self._step("cordon", "no new pod may start on the node", self._cordon)
        if not self._mark.lost:
            self._evict_seconds = self._step(
                "evict", "pods are evicted through the API", self._evict
            )
        if self._mark.mode == "taint":
            self._step("taint", f"{TAINT} keeps all other pods away", self._taint)

    def _step(self, name: str, why: str, act: Callable[[], None]) -> float:
        with self._recorder.on_node(f"maintain: {name}", self._name, why) as evidence:
            act()
        return evidence.took_seconds

    def _read_facts(self) -> None:
        """Save the node's current facts where any laptop can read them at its return."""
        look = self._fresh or self._session.nodes.look([self._request.node])
        _require_answer(self._request.node, look)
        facts = look.node_facts[self._name]
        document = {"document": facts.document, "received_at": facts.received_at}
        for missed in self._session.archive.put(
            archived(self._name, self._request.run.id), json.dumps(document)
        ):
            self._session.observer.note(
                f"the facts were not saved on every control-plane node: {missed}"
            )

    def _about_to(self, phase: Phase) -> Maintenance:
        """The annotation before the next thing; a node that was out says so all the while."""
        return self._mark if self._mark.phase in OUT_PHASES else self._mark.at(phase)

    def _cordon(self) -> None:
        self._marks.write(self._mark, cordon=True)

    def _evict(self) -> None:
        self._marks.write(self._about_to("evict"))
        eviction = Eviction(
            self._session.drain,
            self._session.clock,
            self._session.observer,
            "maintain: evict",
            self._request.run,
            self._recorder.begin,
            self._request.budget_seconds,
        )
        eviction.evict(self._name)

    def _taint(self) -> None:
        left = () if self._mark.lost else to_be_moved(self._session.drain.view(self._name))
        if left:
            raise StepNotVerified(
                f"{self._name}: pod {left[0].where} started after the eviction",
                hint="the pod tolerates the cordon; delete it, then run the same command again",
                details=[f"pod {pod.where} also started after it" for pod in left[1:]],
            )
        self._marks.write(self._about_to("taint"))
        # A node has one taint of a key and an effect: somebody else's would be replaced by ours.
        if self._mark.tainted:
            self._marks.taint(on=True)

    def _shut_down(self) -> None:
        self._marks.write(self._mark.at("shutdown"))
        watch = self._power
        seen = watch.look(self._mark.ordered)
        if not seen.off:
            self._mark = replace(self._mark, ordered=self._order(seen))
            self._write_order()
        self._off = seen.words if seen.off else watch.wait(self._mark.ordered or "")

    def _order(self, seen: PowerState) -> str:
        """Send the shutdown; the time at which the node accepted it."""
        self._recorder.begin()  # the look before took some seconds
        try:
            self._session.power.shut_down(self._request.node)
        except NodeUnreachable as error:
            raise ClusterError(
                f"{self._name}: the shutdown failed ({error.message}); it may still be on",
                hint="check its console, its BMC or its power LED",
                details=[f"{self._name}: {seen.words}"],
            ) from error
        return timestamp(self._session.clock.now())

    def _write_order(self) -> None:
        """Record the shutdown for a later run: then no answer means that the node is off."""
        try:
            self._marks.write(self._mark.at("shutdown"))
        except LeaseLost:
            raise
        except ApplianceError as error:
            # It may itself be where the API was; the machine goes down all the same.
            self._session.observer.note(
                f"the shutdown is not recorded on the Node yet: {error.message}"
            )

    def _restore(self, error: ApplianceError) -> None:
        """Undo exactly our own changes; name those that cannot be undone now.

        A node that was out before this run stays out: nothing has verified since that it is whole.
        """
        try:
            left: tuple[str, ...] = (self._undo(),)
        except LeaseLost as lost:
            left = lost.message, left_to_others(self._name)
        except (ApplianceError, KeyboardInterrupt) as again:
            words = again.message if isinstance(again, ApplianceError) else "interrupted again"
            left = (
                f"{self._name} could not be restored: {words}",
                f"undo it with: appliance node return {self._name}",
            )
        error.details = (*error.details, *left)

    def _undo(self) -> str:
        """Undo it; the resulting state in words."""
        before = self._before
        if before is not None and before.phase in OUT_PHASES:
            # What this run has set stays, and is ours to take away with the return.
            mark = replace(before, cordoned=self._mark.cordoned, tainted=self._mark.tainted)
            self._marks.write(mark)
            return f"{self._name} stays in maintenance, as it was before this run"
        if self._mark.tainted:
            self._marks.taint(on=False)
        self._marks.clear(uncordon=self._mark.cordoned)
        return f"restored: {self._name} takes pods again; evicted pods do not move back"


def _as_error(stopped: BaseException) -> ApplianceError:
    """Ctrl-C between two steps reads like one within a step: never "nothing was changed"."""
    again = "run the same command again: it starts over"
    if isinstance(stopped, NodeUnreachable):
        return ClusterError(stopped.message, hint=stopped.hint or again, details=stopped.details)
    if isinstance(stopped, ApplianceError):
        return stopped
    if isinstance(stopped, KeyboardInterrupt):
        return Interrupted("interrupted between two steps", hint=again)
    return ApplianceError(f"{stopped.__class__.__name__}: {stopped}", hint=again)
