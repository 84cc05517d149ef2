"""``rack down``: end the workloads of the whole rack, and power it off in order.

What is done is on the Node objects, and in a record on this machine before each order. So the same
command goes on after a kill, even while control planes are off, and ``rack up`` returns exactly
what this cordoned.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from appliance.errors import StepNotVerified
from appliance.model.plan.rack.mark import ANNOTATION, RackMark, is_ours, reason_of
from appliance.model.plan.rack.order import NodeOff, Stage, drain_order, holding_up
from appliance.model.state.nodes.maintenance import Maintenance, archived, timestamp
from appliance.workflows.cluster.backups.freshness import ask_where_data_is
from appliance.workflows.node.baselines import read_passports
from appliance.workflows.node.maintenance.marks import Marks
from appliance.workflows.node.maintenance.refusals import require_writable
from appliance.workflows.node.power import Unlocked
from appliance.workflows.rack.down_plan import BATTERY, DownPlan, DownRequest, plan_down
from appliance.workflows.rack.power_off import PowerOff
from appliance.workflows.rack.workloads import end_workloads
from appliance.workflows.session.confirmation import (
    is_late,
    require_as_shown,
    require_confirmed,
)
from appliance.workflows.session.recording import AGAIN, Recorder, begun

if TYPE_CHECKING:
    from appliance.workflows.session.session import Session

STEP: Final = "rack down"


@dataclass(frozen=True)
class DownResult:
    """How it ended: what was planned, and the evidence of each node; empty where nothing was."""

    planned: tuple[str, ...]
    nodes: tuple[NodeOff, ...] = ()
    ended_with_node: tuple[str, ...] = ()


def rack_down(
    request: DownRequest, session: Session, confirm: Callable[[Sequence[str]], bool]
) -> DownResult:
    """Take the rack down.

    Raises:
        NodeUnreachable: the API does not answer; nothing was changed.
        PreflightFailed: etcd is not healthy, or the newest backup is not fresh; nothing was
            changed.
        Refused: not confirmed, or another command is at work; nothing was changed.
        LeaseLost: another command took the site over; the nodes are left as they are.
        StepNotVerified: some nodes are still on, or not confirmed off; names each.
        ClusterError: the API or etcd refused; the same command goes on.
    """
    require_writable(request.reason)
    before = session.rack_record.read()
    plan, observed_at = plan_down(request, session, before), session.clock.monotonic()
    if plan.look is not None:
        ask_where_data_is(
            request.site,
            session,
            {node.name for node in request.site.nodes},
            only_said=plan.before is not None or request.dry_run or request.without_backup,
        )
    if request.dry_run:
        return DownResult(plan.lines)
    require_confirmed(confirm(plan.lines))
    if plan.look is None:
        # The lock is on the control planes, which are off.
        return _Run(request, replace(session, lock=Unlocked()), plan).go_on()
    with session.lock:
        if is_late(session.clock, observed_at):
            now = plan_down(request, session, before)
            what = "the answer came late, and the rack changed since it was shown"
            require_as_shown(plan.lines, now.lines, what)
            plan = now
        return _Run(request, session, plan).carry_out()


class _Run:
    """One run, after everything that could refuse it."""

    def __init__(self, request: DownRequest, session: Session, plan: DownPlan) -> None:
        self._request, self._session, self._plan = request, session, plan
        self._recorder = Recorder(request.run, session)
        # One that ended, of a rack that is up again, says nothing of this time.
        before = plan.before
        goes_on = before if before and (plan.look is None or before.phase != "down") else None
        self._power = PowerOff(request.site, session, goes_on or self._new_mark())
        self._stay: tuple[str, ...] = ()

    def _new_mark(self) -> RackMark:
        run, now = self._request.run, self._session.clock.now()
        return RackMark(
            run.id, run.operator, run.host, timestamp(now), "workloads", self._request.reason
        )

    def carry_out(self) -> DownResult:
        names = [name for name in drain_order(self._request.site) if name in self._plan.views]
        self._cordon(names)
        with begun():
            return self._go_down(names)

    def _go_down(self, names: Sequence[str]) -> DownResult:
        self._end_workloads(names)
        early = [stage for stage in self._plan.stages if stage.tier in BATTERY]
        late = [stage for stage in self._plan.stages if stage.tier not in BATTERY]
        self._announce("power off")
        self._out_of_service(names)
        for stage in early:
            self._power_off([stage], f"{STEP}: power off, {stage.tier} nodes")
        self._snapshot()
        self._announce("control plane")
        return self._last(late)

    def go_on(self) -> DownResult:
        """The rest, with the API off: every stage is looked at again."""
        return self._last(self._plan.stages)

    def _last(self, stages: Sequence[Stage]) -> DownResult:
        """One step: once a majority of control planes is off, no lock can be asked any more."""
        self._power_off(stages, f"{STEP}: power off, control plane")
        self._power.record(replace(self._power.mark, phase="down"))
        seen = tuple(self._power.seen.values())
        unsure = [f"{one.node} is not confirmed off: {one.words}" for one in seen if not one.off]
        if unsure:
            raise StepNotVerified(
                unsure[0],
                hint="look at its power LED; it holds nothing up any more",
                details=[
                    *unsure[1:],
                    *(f"off: {one.node}: {one.words}" for one in seen if one.off),
                ],
            )
        return DownResult(self._plan.lines, seen, self._stay)

    def _power_off(self, stages: Sequence[Stage], step: str) -> None:
        names = [name for stage in stages for name in stage.nodes]
        why = [f"{name}: the rack goes down" for name in names]
        with self._recorder.run_step(step, names, why):
            for stage in stages:
                holding = holding_up(self._power.stage(stage, step))
                if holding:
                    first, *others = holding
                    raise StepNotVerified(
                        f"{first.node} is still on: {first.words}",
                        hint=f"power it off: appliance node power off {first.node} --hard, or by "
                        f"its button; then {AGAIN}",
                        details=[f"{one.node} is still on: {one.words}" for one in others],
                    )

    def _announce(self, phase: str) -> None:
        """The mark in its next phase: here first, then on the control planes."""
        self._recorder.begin()
        self._power.record(replace(self._power.mark, phase=phase))  # type: ignore[arg-type]
        names = [n.name for n in self._request.site.control_plane if n.name in self._plan.views]
        self._session.members.annotate(names, ANNOTATION, self._power.mark.annotation())

    def _cordon(self, names: Sequence[str]) -> None:
        """Cordon all, so that no pod moves; what others cordoned or maintain stays theirs."""
        with self._recorder.run_step(f"{STEP}: cordon", names, ["no pod may move to another node"]):
            machines = {
                name: passport.machine
                for name, passport in read_passports(self._session.archive).items()
            }
            self._power.record(replace(self._power.mark, machines=machines))
            self._announce("workloads")
            for name in names:
                view = self._plan.views[name]
                if view.maintenance is None:
                    mark = self._maintenance(name, cordoned=not view.unschedulable)
                    self._marks(name, None).write(mark, cordon=True)

    def _maintenance(self, name: str, *, cordoned: bool) -> Maintenance:
        run, photograph = self._request.run, archived(name, self._request.run.id)
        facts = self._plan.look.node_facts.get(name) if self._plan.look else None
        if facts is not None:
            document = {"document": facts.document, "received_at": facts.received_at}
            for missed in self._session.archive.put(photograph, json.dumps(document)):
                self._session.observer.note(f"facts not saved on every control plane: {missed}")
        return Maintenance(
            run=run.id,
            by=run.operator,
            host=run.host,
            since=timestamp(self._session.clock.now()),
            reason=reason_of(self._request.reason),
            mode="cordon",
            phase="cordon",
            cordoned=cordoned,
            tainted=False,
            photograph=photograph if facts is not None else None,
        )

    def _marks(self, name: str, before: Maintenance | None) -> Marks:
        return Marks(self._session.drain, self._recorder.begin, name, before)

    def _end_workloads(self, names: Sequence[str]) -> None:
        alive = [name for name in names if self._plan.views[name].ready]
        step = f"{STEP}: workloads"
        with self._recorder.run_step(step, alive, ["each pod is asked, and has its grace"]):
            self._stay = end_workloads(
                alive, self._session, step, self._recorder.begin, self._request.budget_seconds
            )
        for sentence in self._stay:
            self._session.observer.note(sentence)

    def _out_of_service(self, names: Sequence[str]) -> None:
        for name in names:
            mark = self._session.drain.view(name).maintenance
            if mark is not None and is_ours(mark) and mark.is_under_way:
                self._marks(name, mark).write(mark.at("out of service"))

    def _snapshot(self) -> None:
        """Of etcd, on the control plane that goes last; one that an earlier run made is enough."""
        if self._power.mark.snapshot:
            return
        evidence = self._session.upgrade_evidence
        assert evidence is not None  # noqa: S101  (the command gives it)
        last = next(s for s in self._plan.stages if s.tier == "control plane").nodes[-1]
        with self._recorder.on_node(f"{STEP}: snapshot of etcd", last, "restored once"):
            proof = evidence.prove(self._request.site.node(last), "rack")
        said = f"{proof.node}:{proof.path}"
        self._power.record(replace(self._power.mark, snapshot=said))
