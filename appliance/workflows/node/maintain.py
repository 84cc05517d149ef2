"""Take a node out of service: forecast, read facts, cordon, evict, taint, shut down.

Each change is announced on the Node object before it is made. So the same command completes a
killed run, or ``node return`` undoes it, from any laptop. A run that
fails restores what it changed. Who may be evicted is told by :mod:`appliance.model.node.drain`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from appliance.model.node.answering import AnsweringMachine, answering
from appliance.model.node.bmc.fence import Fence
from appliance.model.node.drain import DrainView, Forecast, forecast
from appliance.model.state.facts.identity import MachineIdentity
from appliance.model.state.nodes.maintenance import Maintenance
from appliance.workflows.cluster.backups.freshness import ask_where_data_is
from appliance.workflows.node.baselines import read_passport
from appliance.workflows.node.maintenance.again import MaintainRequest, stands
from appliance.workflows.node.maintenance.agreed import Shown, shown_maintenance
from appliance.workflows.node.maintenance.fencing import look_at_fence, require_possible
from appliance.workflows.node.maintenance.power_off import PowerWatch
from appliance.workflows.node.maintenance.refusals import refuse, require_writable
from appliance.workflows.node.maintenance.taking_out import (
    Before,
    TakingOut,
    require_answer,
    take_out_together,
)
from appliance.workflows.session.confirmation import is_late, require_confirmed

if TYPE_CHECKING:
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
        off: what shows that the node is powered off; empty unless that was asked for, or its BMC
            did it.
        fence: what its BMC can do about a lost node; None where it is not asked.
    """

    forecast: Forecast
    maintenance: Maintenance | None
    already: bool = False
    evict_seconds: float | None = None
    off: str = ""
    fence: Fence | None = None


def node_maintain(
    request: MaintainRequest,
    session: Session,
    confirm: Callable[[Forecast, str, AnsweringMachine, Fence | None], bool],
) -> MaintainResult:
    """Take a node out of service, or restore it when that fails.

    Args:
        request: what was asked for.
        session: the session.
        confirm: is shown the forecast, how long it took last time, the machine that answers, and
            what its BMC does about a lost node.

    Raises:
        NodeUnreachable: the API, or the node, does not answer; nothing was changed.
        PreflightFailed: it would be an outage, the backup that is needed is not fresh, or the BMC
            of a lost node is of another machine; nothing was changed.
        Refused: not confirmed, or another command is at work; nothing was changed.
        LeaseLost: another command took the site over, or marked the node; it is left as it is.
        StepNotVerified: a pod stays, or the power of a lost node could not be cut; our changes
            were undone.
        ClusterError: the API refused; what we changed was restored, or is named.
    """
    require_writable(request.reason)
    power = _power_watch(request, session)
    view = session.drain.view(request.node.name)
    foreseen = forecast(request.node.name, view.pods, view.budgets, view.nodes)
    begun, now = view.maintenance, session.clock.now()
    if begun and stands(request, begun, view, now):
        off = power.look(begun.ordered) if request.shutdown else None
        if off is None or off.off:
            return MaintainResult(foreseen, begun, already=True, off=off.words if off else "")
    _ask_for_backup(request, session, begun)
    refuse(request, view, foreseen)
    if request.dry_run and not request.lost:
        return MaintainResult(foreseen, None)
    looked, look = session.clock.monotonic(), session.nodes.look([request.node])
    if not (request.lost or begun):
        require_answer(request.node, look)
    machine = answering(request.node, look)
    fence = _fence(request, view, machine, session)
    if request.dry_run:
        return MaintainResult(foreseen, None, fence=fence)
    shown = shown_maintenance(foreseen, begun, machine, fence)
    observed_at = session.clock.monotonic()
    require_confirmed(confirm(foreseen, _last_time(session.journal), machine, fence))
    fresh = None if is_late(session.clock, looked) else look
    with session.lock:
        before = Before(view, foreseen, fresh, fence)
        if is_late(session.clock, observed_at):
            before = _as_shown(request, session, shown)
        out = TakingOut(request, session, power, before)
        out.carry_out()
    return MaintainResult(before.foreseen, out.mark, evict_seconds=out.evict_seconds, off=out.off)


def _ask_for_backup(request: MaintainRequest, session: Session, begun: Maintenance | None) -> None:
    """Refuse to begin without a fresh backup; a node that is partly out of service is not left so.

    Only a run that got past this question saved the node's facts: one with ``--lost``, or a
    removal, saved none.

    Raises:
        PreflightFailed: the site asks for backups, and has no fresh one; nothing was changed.
    """
    if not request.needs_backup:
        return
    goes_on = begun is not None and begun.photograph is not None
    ask_where_data_is(
        request.site,
        session,
        [request.node.name],
        only_said=goes_on or request.dry_run or request.without_backup,
    )


def nodes_maintain(requests: Sequence[MaintainRequest], session: Session) -> None:
    """Take a batch of nodes out of service, all at the same time, by their cordon alone.

    The facts of all are read before the first pod is evicted. Where one node cannot be emptied,
    what this run changed is undone on all of them; one that was out before stays out.

    Args:
        requests: one for each node, of one run, with mode ``cordon`` and without ``shutdown``.
        session: the session.

    Raises:
        NodeUnreachable: the API, or a node, does not answer; nothing was changed.
        PreflightFailed: it would be an outage; nothing was changed.
        LeaseLost: another command took the site over, or marked a node; they are left as they are.
        StepNotVerified: a pod stays; our changes were undone.
        ClusterError: the API refused; what we changed was restored, or is named.
    """
    views = session.drain.views([request.node.name for request in requests])
    now = session.clock.now()
    before: dict[str, Before] = {}
    todo = []
    for request in requests:
        view = views[request.node.name]
        if view.maintenance and stands(request, view.maintenance, view, now):
            continue
        foreseen = forecast(view.node, view.pods, view.budgets, view.nodes)
        refuse(request, view, foreseen)
        before[view.node] = Before(view, foreseen, None)
        todo.append(request)
    if not todo:
        return
    look = session.nodes.look([request.node for request in todo])
    for request in todo:
        if before[request.node.name].view.maintenance is None:
            require_answer(request.node, look)
    with session.lock:
        take_out_together(
            [
                TakingOut(
                    request,
                    session,
                    _power_watch(request, session),
                    replace(before[request.node.name], fresh=look),
                )
                for request in todo
            ],
            todo,
            session,
        )


def _power_watch(request: MaintainRequest, session: Session) -> PowerWatch:
    return PowerWatch(
        request.site,
        request.node,
        session.power,
        session.bmcs,
        session.clock,
        session.observer,
        lambda: _accepted(session.archive, request.node.name),
    )


def _as_shown(request: MaintainRequest, session: Session, shown: Shown) -> Before:
    """What is observed under the lock, where it leads to the plan that was shown.

    Raises:
        NodeUnreachable, PreflightFailed, Refused: it does not; nothing was changed.
    """
    view = session.drain.view(request.node.name)
    foreseen = forecast(request.node.name, view.pods, view.budgets, view.nodes)
    refuse(request, view, foreseen)
    look = session.nodes.look([request.node])
    if not (request.lost or view.maintenance):
        require_answer(request.node, look)
    machine = answering(request.node, look)
    fence = _fence(request, view, machine, session)
    shown.require(shown_maintenance(foreseen, view.maintenance, machine, fence), request.run)
    return Before(view, foreseen, look, fence)


def _fence(
    request: MaintainRequest, view: DrainView, machine: AnsweringMachine, session: Session
) -> Fence | None:
    """What the BMC of a lost node does about it; None where the operator says that it is off.

    Raises:
        PreflightFailed: the BMC at its address is of no use; nothing was changed.
    """
    if not request.lost or request.sworn:
        return None
    member = next((one for one in view.nodes if one.name == request.node.name), None)
    fence = look_at_fence(request.node, member, machine, session)
    require_possible(fence)
    return fence


def _accepted(archive: Archive, name: str) -> MachineIdentity:
    """The machine that is known under the node's name, as its passport says."""
    passport = read_passport(archive, name)
    return passport.machine if passport else MachineIdentity()


def _last_time(journal: JournalPort) -> str:
    """How long the eviction took last time on this site, in words."""
    took = journal.durations().get("maintain: evict")
    return f"the last eviction took {took:.0f} s" if took is not None else ""
