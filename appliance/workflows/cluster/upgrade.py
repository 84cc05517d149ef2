"""Upgrade Kubernetes to another release: control planes one by one, then workers in batches.

The mark on the control-plane nodes names the upgrade to every other command; the same command goes
on from any laptop. What must not be here: the path (:mod:`appliance.model.upgrade`), or carrying
out its steps (:mod:`appliance.workflows.cluster.upgrading.run`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from appliance.errors import NodeUnreachable, Refused
from appliance.model.plan.steps import UPGRADE
from appliance.model.state.upgrade import UpgradeMark, can_be_read_back, mark_of
from appliance.model.upgrade.gates import stopping
from appliance.model.upgrade.moves.steps import OUT
from appliance.model.upgrade.plan import CHECK, plan_upgrade
from appliance.model.upgrade.proof import control_plane_names
from appliance.model.upgrade.window import Clock
from appliance.workflows.cluster.backups.freshness import ask_for_fresh_backup
from appliance.workflows.cluster.foresight import agreed_of, out_of_service, refusals_of, to_judge
from appliance.workflows.cluster.one_run import OneRun
from appliance.workflows.cluster.patient_drain import PatientDrain
from appliance.workflows.cluster.patient_members import PatientMembers
from appliance.workflows.cluster.upgrading.back import take_back
from appliance.workflows.cluster.upgrading.gates import accepted_by, judge, space_of
from appliance.workflows.cluster.upgrading.loads import loads
from appliance.workflows.cluster.upgrading.look import (
    NO_ETCD,
    POLL_SECONDS,
    Etcd,
    Seen,
    UpgradeResult,
    forecasts_of,
    look_at_etcd,
    look_at_room,
    observe_patiently,
    situation,
    without_left_out,
)
from appliance.workflows.cluster.upgrading.request import UpgradeRequest
from appliance.workflows.cluster.upgrading.revive import revive
from appliance.workflows.cluster.upgrading.run import UpgradeRun
from appliance.workflows.cluster.upgrading.supply import require_bundles
from appliance.workflows.session.confirmation import (
    is_late,
    require_as_shown,
    require_confirmed,
)
from appliance.workflows.session.patience import Patience
from appliance.workflows.session.recording import begun
from appliance.workflows.session.survey import refuse

if TYPE_CHECKING:
    from appliance.model.node.drain import Forecast
    from appliance.model.state.observed import Observed
    from appliance.model.state.plan import Refusal
    from appliance.model.upgrade.moves.room import Room
    from appliance.workflows.session.session import Session

COMMAND: Final = UPGRADE
# What pods may take that a run moved before it was stopped.
MOVING_SECONDS: Final = 60.0


def upgrade(
    request: UpgradeRequest, session: Session, confirm: Callable[[UpgradeResult], bool]
) -> UpgradeResult:
    """Inspect, plan, refuse or carry out, and verify each step.

    Raises:
        NodeUnreachable: no API server answers; nothing was changed.
        PreflightFailed: something must be fixed first; nothing was changed.
        BundleRefused: a bundle is missing or not the release's; nothing was changed.
        Refused: not confirmed, or another command is at work; nothing was changed.
        PlaybookFailed, StepNotVerified, ClusterError: a step failed; the same command goes on.
    """
    session = replace(
        session,
        drain=PatientDrain(session.drain, session.clock),
        members=PatientMembers(session.members, session.clock),
        journal=OneRun(session.journal) if not request.dry_run else session.journal,
    )
    whole = request.desired.site
    request = replace(request, desired=without_left_out(request))

    def look(etcd: Etcd, room: Room | None = None) -> Seen:
        observed = observe_patiently(request.desired.site.nodes, session, "nothing can be upgraded")
        mark = mark_of(observed.cluster)
        room = room or look_at_room(request, observed, session)
        found = replace(situation(request, whole, observed, mark, etcd), room=room)
        return Seen(observed, mark, plan_upgrade(request.options, found, request.hops), room)

    if request.options.back:
        return take_back(request, session, confirm, lambda: look(NO_ETCD))
    etcd = look_at_etcd(request, session)
    with ExitStack() as held:
        try:
            seen = look(etcd)
        except NodeUnreachable as away:
            # A command takes the site once: what is started now, and what follows, are one.
            held.enter_context(session.lock)
            revive(request, session, confirm, away)
            held.enter_context(begun())
            seen = look(etcd)
        return _go_on(request, session, confirm, _Looking(look, seen, etcd))


@dataclass(frozen=True)
class _Looking:
    """What was seen, and how it is looked again.

    Attributes:
        look: at everything, with what etcd's members say, and what bounds a batch.
        etcd: what they said at the first look.
    """

    look: Callable[[Etcd, Room | None], Seen]
    seen: Seen
    etcd: Etcd


def _go_on(
    request: UpgradeRequest,
    session: Session,
    confirm: Callable[[UpgradeResult], bool],
    looking: _Looking,
) -> UpgradeResult:
    """Judge, refuse or carry out what was seen."""
    look, seen, etcd = looking.look, looking.seen, looking.etcd
    plan, mark = seen.plan, seen.mark
    _require_writable(request, mark)
    under_way = mark is not None and not mark.over
    if plan.steps:
        _ask_for_backup(request, session, goes_on=under_way)
    forecasts = _foreseen(request, session, seen)
    foreseen = _refusals_of(request, seen.observed, forecasts)
    plan = replace(plan, refusals=(*plan.refusals, *foreseen))
    clock = Clock(session.journal.read(), request.measured)
    found = UpgradeResult(plan, forecasts, clock, mark)
    brought = loads(request, seen.observed, plan, space_of(request, seen.observed, found))
    masters = control_plane_names(request.desired.site)
    found = replace(found, loads=brought, control_plane=tuple(masters))
    if not plan.refusals:
        found = replace(found, gates=judge(request, session, seen.observed, found))
    if request.dry_run:
        return found
    refuse([*plan.refusals, *(gate.refusal() for gate in stopping(found.gates))])
    judged_at = session.clock.monotonic()
    if not plan.steps and not under_way:
        return found
    require_bundles(request.supplies, request.desired, plan)
    require_confirmed(confirm(found))
    with session.lock, request.pausing() as asked_to_pause:
        run = UpgradeRun(request, session, replace(seen, plan=plan), agreed_of(forecasts))
        ended = run.carry_out(
            asked_to_pause,
            lambda: _as_judged(request, session, found, (look(etcd, seen.room), judged_at)),
            lambda: look(look_at_etcd(request, session), None),
        )
    return replace(found, done=True, ended=ended)


def _ask_for_backup(request: UpgradeRequest, session: Session, *, goes_on: bool) -> None:
    """Refuse to begin without a fresh backup; an upgrade that goes on is not left half-way.

    Raises:
        PreflightFailed: the site asks for backups, and has no fresh one; nothing was changed.
    """
    ask_for_fresh_backup(
        request.desired.site,
        session,
        f"an upgrade to {request.options.to}",
        only_said=goes_on or request.dry_run or request.options.without_backup,
    )


def _foreseen(request: UpgradeRequest, session: Session, seen: Seen) -> dict[str, Forecast]:
    """What the evictions will do; where an upgrade goes on, pods may still be on their way."""
    patience, room = Patience(session.clock, MOVING_SECONDS), seen.room
    while True:
        forecasts, room = forecasts_of(seen.plan, seen.observed, session, room), None
        due = to_judge(forecasts, out_of_service(seen.observed))
        moving = [one for name in due for one in due[name].concerns if one.passing]
        goes_on = seen.mark is not None and not seen.mark.over and not request.dry_run
        if not moving or not goes_on or patience.is_over():
            return forecasts
        session.observer.note(f"waiting for pods to be ready: {moving[0].sentence()}")
        session.clock.sleep(POLL_SECONDS)


def _refusals_of(
    request: UpgradeRequest, observed: Observed, forecasts: Mapping[str, Forecast]
) -> tuple[Refusal, ...]:
    """What the evictions that are left would stop; while a node of ours is out, pods move."""
    due = to_judge(forecasts, out_of_service(observed))
    return refusals_of(due, CHECK, allow_outage=request.allow_outage)


def _require_writable(request: UpgradeRequest, mark: UpgradeMark | None) -> None:
    """Refuse names that would make the mark unreadable: no command could end the upgrade then.

    Raises:
        Refused: one is too long or no single line, or they are too many; nothing was changed.
    """
    names = tuple(sorted(accepted_by(request, mark)))
    if not can_be_read_back(UpgradeMark(request.options.to, "", "", accepted=names)):
        raise Refused(
            f"--accept-loss: found {len(names)} names that the mark of the upgrade cannot hold, "
            "expected single lines of at most 1000 characters, some 50000 in all",
            hint="set these to what kubeadm renders by hand, then leave them out",
        )


def _as_judged(
    request: UpgradeRequest, session: Session, found: UpgradeResult, now: tuple[Seen, float]
) -> Seen:
    """What is seen under the lock; after a late answer everything is judged again.

    Raises:
        Refused: it leads to another plan; nothing was changed.
        PreflightFailed: a point of the list is no go any more; nothing was changed.
    """
    seen, judged_at = _as_shown(found, now[0]), now[1]
    if is_late(session.clock, judged_at):
        forecasts = forecasts_of(seen.plan, seen.observed, session)
        again = replace(found, plan=seen.plan, forecasts=forecasts)
        _require_room(request, session, seen)
        refuse(_refusals_of(request, seen.observed, forecasts))
        gates = judge(request, session, seen.observed, again)
        refuse([gate.refusal() for gate in stopping(gates)])
    return seen


def _require_room(request: UpgradeRequest, session: Session, seen: Seen) -> None:
    """Refuse batches that have become too large since they were shown.

    Raises:
        Refused: nothing was changed.
    """
    room = look_at_room(request, seen.observed, session)
    due = [step.nodes for step in seen.plan.steps if step.kind in OUT] if room else []
    found = [f"{', '.join(names)}: {why}" for names in due if room and (why := room.against(names))]
    if found:
        raise Refused(
            f"a batch is too large by now: {found[0]}: nothing was changed",
            hint="run the same command again: it makes a new plan",
            details=found[1:],
        )


def _as_shown(found: UpgradeResult, seen: Seen) -> Seen:
    """What is seen now, where it leads to the plan that was shown.

    Raises:
        Refused: it does not; nothing was changed.
    """
    shown, now = (
        [(step.kind, step.release, step.nodes, step.action) for step in (*one.steps, *one.rest)]
        for one in (found.plan, seen.plan)
    )
    require_as_shown(
        (shown, found.mark),
        (now, seen.mark),
        "the cluster has changed since the plan was shown",
        [refusal.sentence() for refusal in seen.plan.refusals],
    )
    return seen
