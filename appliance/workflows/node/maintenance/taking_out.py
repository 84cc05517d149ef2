"""Nodes on their way out of service: their facts, marks, pods and power.

What must not be here: whether they may go (:mod:`appliance.workflows.node.maintain`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
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
from appliance.model.state.nodes.maintenance import TAINT, Maintenance, Phase, archived, timestamp
from appliance.workflows.node.maintenance.again import (
    OUT_PHASES,
    MaintainRequest,
    gone_on,
    is_marked,
)
from appliance.workflows.node.maintenance.eviction import Eviction, to_be_moved
from appliance.workflows.node.maintenance.fencing import cut_power
from appliance.workflows.node.maintenance.marks import Marks, left_to_others
from appliance.workflows.node.maintenance.power_off import PowerState, PowerWatch
from appliance.workflows.session.recording import Recorder

if TYPE_CHECKING:
    from appliance.model.node.bmc.fence import Fence
    from appliance.model.node.drain import DrainView, Forecast
    from appliance.model.site.settings import Node
    from appliance.model.state.observed import Look
    from appliance.workflows.session.session import Session


def require_answer(node: Node, look: Look) -> None:
    """Refuse to empty a node whose facts could not be read.

    Raises:
        NodeUnreachable: says why.
    """
    faults = [fault for fault in look.faults if fault.node == node.name]
    if faults:
        raise NodeUnreachable(
            faults[0].reason,
            hint=f"if it is lost: appliance node maintain {node.name} --lost",
        )


@dataclass(frozen=True)
class Before:
    """What was seen before the question; ``fresh`` serves as the facts where it is.

    Attributes:
        fence: what its BMC can do about a lost node; None where it is not asked.
    """

    view: DrainView
    foreseen: Forecast
    fresh: Look | None
    fence: Fence | None = None


class TakingOut:
    """One maintenance: what it found, and what it has marked.

    Attributes:
        name: of the node.
        mark: what stands on the node, or is about to.
        evict_seconds: how long the eviction took; None where there was none.
        off: what shows that the node is powered off; empty unless that was asked for, or its BMC
            did it.
        is_empty: it was marked before and answers no more, so there is nothing to move.
    """

    def __init__(
        self,
        request: MaintainRequest,
        session: Session,
        power: PowerWatch,
        before: Before,
    ) -> None:
        view = before.view
        self._request = request
        self._session = session
        self._power = power
        # The look before the question is as good as another one, if it was made just now.
        self._fresh = before.fresh
        self._recorder = Recorder(request.run, session)
        self.name = request.node.name
        self._before = view.maintenance
        self._fence = before.fence
        now = session.clock.now()
        self.mark = (
            gone_on(request, view.maintenance, view, now)
            if view.maintenance
            else self._new_mark(view)
        )
        self.is_empty = not (request.lost or view.ready) and is_marked(request, view)
        self._marks = Marks(session.drain, self._recorder.begin, self.name, view.maintenance)
        self.evict_seconds: float | None = None
        self.off = ""

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
            photograph=None if request.lost else archived(self.name, request.run.id),
            lost=request.lost,
        )

    def carry_out(self) -> None:
        """Take it out, or undo what was changed.

        Raises:
            NodeUnreachable: its facts cannot be read; nothing was changed.
            LeaseLost: another command took the site over; the node is left as it is.
            ApplianceError: of the step that failed; the details say how the node was left.
        """
        self._recorder.begin()
        self.save_facts()
        try:
            if not self.is_empty:
                self._empty()
        except LeaseLost as lease:
            # Another command may be at work on the very node: what we did is not ours to undo now.
            lease.details = (*lease.details, left_to_others(self.name))
            raise
        except (Exception, KeyboardInterrupt) as stopped:
            error = as_error(stopped)
            self.restore(error)
            if error is stopped:
                raise
            raise error from stopped
        self.finish()

    def finish(self) -> None:
        """Power an empty node off, if requested, and record that it is out of service."""
        try:
            if self._request.shutdown:
                self._step("shutdown", "requested with --shutdown", self._shut_down)
            self.record_out()
        except LeaseLost as lease:
            lease.details = (*lease.details, left_to_others(self.name))
            raise
        except (Exception, KeyboardInterrupt) as stopped:
            error = as_error(stopped)
            stays = f"{self.name} is empty and stays out of service"
            error.details = (*error.details, f"{stays}: appliance node return {self.name}")
            if error is stopped:
                raise
            raise error from stopped

    def record_out(self) -> None:
        """Write that it is out of service."""
        self.mark = self.mark.at("out of service")
        self._marks.write(self.mark)

    def _empty(self) -> None:
        self._step("cordon", "no new pod may start on the node", self.cordon)
        if self._fence is not None and self._fence.is_ordered:
            self._step("fence", self._fence.sentence().partition(": ")[2], self._cut_power)
        elif self._fence is not None and self._fence.is_off:
            self.off = self._fence.sentence().partition(": ")[2]
        if not self.mark.lost:
            self.evict_seconds = self._step(
                "evict", "pods are evicted through the API", self._evict
            )
        if self.mark.mode == "taint":
            self._step("taint", f"{TAINT} keeps all other pods away", self._taint)

    def _step(self, name: str, why: str, act: Callable[[], None]) -> float:
        with self._recorder.on_node(f"maintain: {name}", self.name, why) as evidence:
            act()
        return evidence.took_seconds

    def save_facts(self) -> None:
        """Save the node's current facts where any laptop can read them at its return.

        Raises:
            NodeUnreachable: it does not answer, or no majority of the control plane keeps them.
        """
        if self.mark.photograph == (self._before.photograph if self._before else None):
            return
        look = self._fresh or self._session.nodes.look([self._request.node])
        require_answer(self._request.node, look)
        facts = look.node_facts[self.name]
        document = {"document": facts.document, "received_at": facts.received_at}
        for missed in self._session.archive.put(
            archived(self.name, self._request.run.id), json.dumps(document)
        ):
            self._session.observer.note(
                f"the facts were not saved on every control-plane node: {missed}"
            )

    def _about_to(self, phase: Phase) -> Maintenance:
        """The annotation before the next thing; a node that was out says so all the while."""
        return self.mark if self.mark.phase in OUT_PHASES else self.mark.at(phase)

    def cordon(self) -> None:
        """Write the annotation, and the cordon with it."""
        self._marks.write(self.mark, cordon=True)

    def announce_eviction(self) -> None:
        """Write that its pods are evicted from now on."""
        self._marks.write(self._about_to("evict"))

    def _cut_power(self) -> None:
        assert self._fence is not None  # noqa: S101  (asked before)
        node = self._request.node
        self.off = cut_power(node, self._fence, "maintain: fence", self._session, self._stay_lost)

    def _stay_lost(self) -> None:
        """A node that came back keeps its power.

        Raises:
            StepNotVerified: it did.
        """
        if self._session.drain.view(self.name).ready:
            raise StepNotVerified(
                f"{self.name}: the node is Ready again, so its power was not cut",
                hint=f"drain it in the normal way: appliance node maintain {self.name}",
            )

    def _evict(self) -> None:
        self.announce_eviction()
        _eviction(self._session, self._recorder, self._request).evict(self.name)

    def _taint(self) -> None:
        left = () if self.mark.lost else to_be_moved(self._session.drain.view(self.name))
        if left:
            raise StepNotVerified(
                f"{self.name}: pod {left[0].where} started after the eviction",
                hint="the pod tolerates the cordon; delete it, then run the same command again",
                details=[f"pod {pod.where} also started after it" for pod in left[1:]],
            )
        self._marks.write(self._about_to("taint"))
        # A node has one taint of a key and an effect: somebody else's would be replaced by ours.
        if self.mark.tainted:
            self._marks.taint(on=True)

    def _shut_down(self) -> None:
        self._marks.write(self.mark.at("shutdown"))
        watch = self._power
        seen = watch.look(self.mark.ordered)
        if not seen.off:
            self.mark = replace(self.mark, ordered=self._order(seen))
            self._write_order()
        self.off = seen.words if seen.off else watch.wait(self.mark.ordered or "")

    def _order(self, seen: PowerState) -> str:
        """Send the shutdown; the time at which the node accepted it."""
        self._recorder.begin()  # the look before took some seconds
        try:
            self._session.power.shut_down(self._request.node)
        except NodeUnreachable as error:
            raise ClusterError(
                f"{self.name}: the shutdown failed ({error.message}); it may still be on",
                hint="check its console, its BMC or its power LED",
                details=[f"{self.name}: {seen.words}"],
            ) from error
        return timestamp(self._session.clock.now())

    def _write_order(self) -> None:
        """Record the shutdown for a later run: then no answer means that the node is off."""
        try:
            self._marks.write(self.mark.at("shutdown"))
        except LeaseLost:
            raise
        except ApplianceError as error:
            # It may itself be where the API was; the machine goes down all the same.
            self._session.observer.note(
                f"the shutdown is not recorded on the Node yet: {error.message}"
            )

    def restore(self, error: ApplianceError) -> None:
        """Undo exactly our own changes; name those that cannot be undone now.

        A node that was out before this run stays out: nothing has verified since that it is whole.
        """
        try:
            left: tuple[str, ...] = (self._undo(),)
        except LeaseLost as lost:
            left = lost.message, left_to_others(self.name)
        except (ApplianceError, KeyboardInterrupt) as again:
            words = again.message if isinstance(again, ApplianceError) else "interrupted again"
            left = (
                f"{self.name} could not be restored: {words}",
                f"undo it with: appliance node return {self.name}",
            )
        error.details = (*error.details, *left)

    def _undo(self) -> str:
        """Undo it; the resulting state in words."""
        before = self._before
        if before is not None and before.phase in OUT_PHASES:
            # What this run has set stays, and is ours to take away with the return.
            mark = replace(before, cordoned=self.mark.cordoned, tainted=self.mark.tainted)
            self._marks.write(mark)
            return f"{self.name} stays in maintenance, as it was before this run"
        if self.mark.tainted:
            self._marks.taint(on=False)
        self._marks.clear(uncordon=self.mark.cordoned)
        return f"restored: {self.name} takes pods again; evicted pods do not move back"


def take_out_together(
    outs: Sequence[TakingOut], requests: Sequence[MaintainRequest], session: Session
) -> None:
    """Take several nodes out of one run, or undo what was changed on all of them.

    Raises:
        NodeUnreachable: the facts of a node cannot be read; nothing was changed.
        LeaseLost: another command took the site over; the nodes are left as they are.
        ApplianceError: of the step that failed; the details say how each node was left.
    """
    recorder = Recorder(requests[0].run, session)
    recorder.begin()
    for one in outs:
        one.save_facts()
    try:
        if full := [one for one in outs if not one.is_empty]:
            _empty_together(full, recorder, requests[0], session)
        for one in outs:
            one.record_out()
    except LeaseLost as lease:
        lease.details = (*lease.details, *(left_to_others(one.name) for one in outs))
        raise
    except (Exception, KeyboardInterrupt) as stopped:
        error = as_error(stopped)
        for one in outs:
            one.restore(error)
        if error is stopped:
            raise
        raise error from stopped


def _empty_together(
    outs: Sequence[TakingOut], recorder: Recorder, request: MaintainRequest, session: Session
) -> None:
    names = [one.name for one in outs]
    whys = [f"{name}: no new pod may start on the node" for name in names]
    with recorder.run_step("maintain: cordon", names, whys):
        for one in outs:
            one.cordon()
    whys = [f"{name}: pods are evicted through the API" for name in names]
    with recorder.run_step("maintain: evict", names, whys):
        for one in outs:
            one.announce_eviction()
        _eviction(session, recorder, request).evict(*names)


def _eviction(session: Session, recorder: Recorder, request: MaintainRequest) -> Eviction:
    return Eviction(
        session.drain,
        session.clock,
        session.observer,
        "maintain: evict",
        request.run,
        recorder.begin,
        request.budget_seconds,
    )


def as_error(stopped: BaseException) -> ApplianceError:
    """What stopped a maintenance, as an error that never says "nothing was changed".

    Ctrl-C between two steps reads like one within a step.
    """
    again = "run the same command again: it starts over"
    if isinstance(stopped, NodeUnreachable):
        return ClusterError(stopped.message, hint=stopped.hint or again, details=stopped.details)
    if isinstance(stopped, ApplianceError):
        return stopped
    if isinstance(stopped, KeyboardInterrupt):
        return Interrupted("interrupted between two steps", hint=again)
    return ApplianceError(f"{stopped.__class__.__name__}: {stopped}", hint=again)
