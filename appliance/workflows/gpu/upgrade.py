"""Upgrade the GPU stack to the bundle's: the operator, then the drivers node by node.

Every step is verified by what is observed afterwards, before the next begins. The plan follows from
what runs, so the same command resumes a run that was killed anywhere, from any laptop. What must
not be here: the order and what forbids it (:mod:`appliance.model.upgrade.gpu`), or how a node is
renewed (roles ``gpu_driver`` and ``gpu_operator``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from appliance.errors import (
    ApplianceError,
    ClusterError,
    Interrupted,
    NodeUnreachable,
    Refused,
    StepNotVerified,
)
from appliance.model.components.gpu.in_turn import node_by_node
from appliance.model.plan.planner import Scope
from appliance.model.plan.play import Play
from appliance.model.plan.steps import GPU_UPGRADE
from appliance.model.state.cluster.cluster import Cluster
from appliance.model.state.nodes.maintenance import maintenance_of
from appliance.model.state.observed import Observed
from appliance.model.upgrade.gpu.inventory import gpu_inventory, limit_of
from appliance.model.upgrade.gpu.observed import REASON, gpu_situation
from appliance.model.upgrade.gpu.plan import GpuPlan, GpuStep
from appliance.model.upgrade.gpu.points import node_points, step_points, unfinished
from appliance.model.upgrade.gpu.target import Target
from appliance.model.upgrade.points.gate import stopping
from appliance.workflows.cluster.backups.freshness import ask_where_data_is
from appliance.workflows.cluster.foresight import agreed_of
from appliance.workflows.cluster.one_run import OneRun
from appliance.workflows.cluster.patient_drain import PatientDrain
from appliance.workflows.cluster.upgrading.nodes import Batches
from appliance.workflows.gpu.look import (
    NODE,
    OPERATOR,
    SETTLE,
    GpuUpgradeRequest,
    GpuUpgradeResult,
    look,
    require_target,
    without_answered,
)
from appliance.workflows.install import InstallRequest, install
from appliance.workflows.session.confirmation import require_as_shown, require_confirmed
from appliance.workflows.session.patience import API_SECONDS, Patience, api_silence, observe_until
from appliance.workflows.session.recording import AGAIN, Recorder
from appliance.workflows.session.survey import refuse

if TYPE_CHECKING:
    from appliance.model.state.desired import Desired
    from appliance.workflows.session.session import Session

COMMAND: Final = "gpu upgrade"
# The driver is another one afterwards, which the upgrade itself verifies.
CHANGED: Final = frozenset({"driver"})
# A driver in a container is compiled on the node; operands start after it.
PATIENCE_SECONDS: Final = 900.0
POLL_SECONDS: Final = 2.0
# An operator that has started writes its DaemonSets one after the other: so long none may change.
QUIET_SECONDS: Final = 30.0


def gpu_upgrade(
    request: GpuUpgradeRequest, session: Session, confirm: Callable[[GpuUpgradeResult], bool]
) -> GpuUpgradeResult:
    """Inspect, plan, judge, refuse or carry out, and verify each step.

    Raises:
        ConfigError: the site has no GPUs; nothing was changed.
        BundleRefused: there is no bundle of the release; nothing was changed.
        NodeUnreachable: no API server answers; nothing was changed.
        PreflightFailed: something must be fixed first, or the backup that is needed is not fresh;
            nothing was changed.
        Refused: not confirmed, or another command is at work; nothing was changed.
        PlaybookFailed, StepNotVerified, ClusterError: a step failed; the same command goes on.
    """
    session = replace(
        session,
        drain=PatientDrain(session.drain, session.clock),
        preflight=without_answered(session.preflight),
        journal=OneRun(session.journal) if not request.dry_run else session.journal,
    )
    target = require_target(request.desired)
    observed, found = look(request, session, target)
    _ask_for_backup(request, session, observed, found.plan)
    if request.dry_run:
        return found
    refuse([gate.refusal() for gate in stopping(found.gates)])
    if not found.plan.steps:
        return found
    require_confirmed(confirm(found))
    with session.lock, request.pausing() as asked_to_pause:
        run = _Run(request, session, target, observed, found)
        run.carry_out(asked_to_pause, lambda: look(request, session, target, found.bundle))
    return replace(found, done=True)


def _ask_for_backup(
    request: GpuUpgradeRequest, session: Session, observed: Observed, plan: GpuPlan
) -> None:
    """Refuse to begin without a fresh backup where a node with GPUs carries data, too.

    Raises:
        PreflightFailed: the site asks for backups, and has no fresh one; nothing was changed.
    """
    members = observed.cluster.nodes if isinstance(observed.cluster, Cluster) else {}
    marks = [maintenance_of(node.annotations) for node in members.values()]
    goes_on = any(mark is not None and mark.reason.startswith(REASON) for mark in marks)
    ask_where_data_is(
        request.desired.site,
        session,
        {name for step in plan.steps if step.kind == "node" for name in step.nodes},
        only_said=goes_on or request.dry_run or request.without_backup,
    )


class _Run:
    """One run: from the second look to the end, or to the pause."""

    def __init__(
        self,
        request: GpuUpgradeRequest,
        session: Session,
        target: Target,
        observed: Observed,
        found: GpuUpgradeResult,
    ) -> None:
        self._request = request
        self._session = session
        self._target = target
        self._desired = request.desired
        self._observed = observed
        self._found = found  # what was shown
        self._recorder = Recorder(request.run, session)
        self._nodes = Batches(
            request.desired,
            f"{REASON}{target.release}: {target.words}",
            lambda reason: reason.startswith(REASON),
            request.run,
            session,
            self._renew,
            # A node that failed stays out: its driver and its operands are proved by the next run.
            None,
            self._recorder.begin,
            request.allow_outage,
            CHANGED,
            agreed=agreed_of(found.forecasts),
        )

    def carry_out(
        self,
        asked_to_pause: Callable[[], bool],
        look_again: Callable[[], tuple[Observed, GpuUpgradeResult]],
    ) -> None:
        """Run the steps of the plan that was shown, once the site is ours.

        Args:
            asked_to_pause: whether the operator did.
            look_again: what is found once the site is ours.

        Raises:
            Refused: the plan is another one now; nothing was changed.
            Interrupted: the operator asked for a pause; no step was cut short.
        """
        self._recorder.begin()
        self._observed, now = look_again()
        require_as_shown(
            _outline(self._found.plan),
            _outline(now.plan),
            "the GPU stack has changed since the plan was shown",
            [gate.sentence() for gate in stopping(now.gates)],
        )
        if self._request.writes_release:
            self._session.choose_release(self._desired.release.name)
        try:
            self._steps(now.plan, asked_to_pause)
        except (Refused, NodeUnreachable) as error:
            # Once a step ran, no error says that nothing was changed.
            raise ClusterError(
                error.message, hint=error.hint or AGAIN, details=(*error.details, AGAIN)
            ) from error

    def _steps(self, plan: GpuPlan, asked_to_pause: Callable[[], bool]) -> None:
        for number, step in enumerate(plan.steps):
            if asked_to_pause():
                names = ", ".join(step.nodes)
                raise Interrupted(
                    f"paused before: {step.title}: {names}; no node is out of service"
                    if number
                    else f"paused before the first step: {step.title}: {names}",
                    hint="to go on: run the same command again",
                )
            try:
                self._carry_out(step)
            except ApplianceError as error:
                error.details = (*error.details, *_not_begun(plan.steps[number + 1 :]))
                raise
        self._wait_for_api()
        left = unfinished(self._desired, self._observed, self._target)
        if left:
            raise StepNotVerified(f"every step ran, but {left[0]}", hint=AGAIN, details=left[1:])

    def _carry_out(self, step: GpuStep) -> None:
        if step.kind in ("artifacts", "registry"):
            self._install(step.kind)
        elif step.kind == "node":
            self._nodes.carry_out(step)
        elif step.kind == "operator":
            self._played(OPERATOR, step)
        else:
            self._require_renewed()
            self._played(SETTLE, step)

    def _require_renewed(self) -> None:
        """Refuse to let operands restart on nodes that are not empty.

        Raises:
            StepNotVerified: one is of an older template still; the same command renews it.
        """
        self._wait_for_api()
        left = node_points(self._desired, self._observed, self._target)
        if left:
            raise StepNotVerified(left[0], hint=AGAIN, details=left[1:])

    def _install(self, only: str) -> None:
        """Run one step of an install: it has nothing to do where its outcome is observed."""
        request = InstallRequest(
            self._desired, self._request.run, Scope(only=only), api_seconds=API_SECONDS
        )
        install(request, self._session, lambda _plan: True)

    def _renew(self, step: GpuStep) -> None:
        """Renew an emptied node; one that is renewed already only comes back."""
        self._look()
        if step_points(self._desired, self._observed, self._target, step):
            self._played(NODE, step)

    def _played(self, shown: str, step: GpuStep) -> None:
        with self._recorder.run_step(shown, step.nodes, step.why):
            self._play(shown, step)
            self._verify(shown, step)

    def _of(self, step: GpuStep) -> Desired:
        """The site with the operator's values of a step."""
        return self._desired if step.kind == "settle" else node_by_node(self._desired)

    def _play(self, shown: str, step: GpuStep) -> None:
        session, desired, target = self._session, self._of(step), self._target
        inventory = gpu_inventory(desired, self._observed, step, target)
        limit = limit_of(desired, self._observed, step, target)

        def on_task(node: str, task: str, changed: bool | None) -> None:
            session.observer.task(shown, node, task, changed=changed)

        play = Play(self._request.run.id, GPU_UPGRADE.name, limit, inventory)
        session.playbooks.play(play, on_task)

    def _look(self) -> Observed:
        """Read every node and the API again; one that is away has no facts."""
        seen = self._session.nodes.look(self._desired.site.nodes)
        cluster = self._session.cluster.read(seen.node_facts)
        self._observed = Observed(seen.node_facts, cluster, seen.faults)
        return self._observed

    def _wait_for_api(self) -> None:
        """The same, once an API server answers, or its time is up."""
        observe_until(self._look, api_silence, self._session)

    def _verify(self, shown: str, step: GpuStep) -> None:
        """Look until the step's outcome is observed.

        Raises:
            StepNotVerified: it was not in time.
        """
        clock = self._session.clock
        quiet = QUIET_SECONDS if step.kind == "operator" else 0.0
        patience, since, before = Patience(clock, PATIENCE_SECONDS), clock.monotonic(), None
        while True:
            self._look()
            left = step_points(self._desired, self._observed, self._target, step)
            now = gpu_situation(self._desired, self._observed, self._target).templates
            if left or now != before:
                since, before = clock.monotonic(), now
            if not left and clock.monotonic() >= since + quiet:
                return
            waited = left[0] if left else "the operator still writes the operands' DaemonSets"
            if patience.is_over():
                raise StepNotVerified(
                    f"the upgrade ran, but {waited}",
                    hint=f"see what is wrong: appliance status; then {AGAIN}",
                    details=left[1:],
                )
            self._session.observer.verifying(shown, waited)
            clock.sleep(POLL_SECONDS)


def _not_begun(rest: Sequence[GpuStep]) -> Iterator[str]:
    """The nodes whose turn did not come, in words."""
    names = [name for step in rest if step.kind == "node" for name in step.nodes]
    if names:
        yield f"not begun: {', '.join(names)}"


def _outline(plan: GpuPlan) -> tuple[object, ...]:
    """What a person agreed to."""
    return (plan.target, [(step.kind, step.nodes, step.reboots) for step in plan.steps])
