"""Patch the nodes' own packages: workers in batches, control planes one by one, services last.

Every step is verified by what the nodes say afterwards, before the next begins. Nothing but the
nodes' own marks is remembered: the same command goes on from any laptop. What must not be here: the
order and what forbids it (:mod:`appliance.model.patch`), or how packages are installed (role
``node_patch``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from appliance.errors import (
    ClusterError,
    Interrupted,
    NodeUnreachable,
    Refused,
    StepNotVerified,
)
from appliance.model.patch.inventory import patch_inventory
from appliance.model.patch.plan import PatchPlan, PatchStep, gpu_of
from appliance.model.patch.proof import newly_kept, open_points
from appliance.model.patch.state import REASON, NodeState
from appliance.model.patch.window import PACKAGES
from appliance.model.plan.planner import Scope
from appliance.model.plan.play import Play
from appliance.model.plan.steps import NODE_PATCH
from appliance.model.state.cluster.cluster import Cluster
from appliance.model.state.observed import Observed
from appliance.model.upgrade.points.gate import stopping
from appliance.workflows.cluster.backups.freshness import ask_where_data_is
from appliance.workflows.cluster.foresight import agreed_of
from appliance.workflows.cluster.one_run import OneRun
from appliance.workflows.cluster.patient_drain import PatientDrain
from appliance.workflows.cluster.upgrading.nodes import Batches
from appliance.workflows.install import InstallRequest, install
from appliance.workflows.node.patch_look import (
    PatchRequest,
    PatchResult,
    etcd_gates,
    lacking,
    look,
)
from appliance.workflows.session.confirmation import require_as_shown, require_confirmed
from appliance.workflows.session.patience import API_SECONDS, Patience
from appliance.workflows.session.recording import AGAIN, Recorder
from appliance.workflows.session.survey import refuse

if TYPE_CHECKING:
    from appliance.model.bundle.manifest import BundleManifest
    from appliance.model.site.settings import Site
    from appliance.workflows.session.session import Session

COMMAND: Final = "node patch"
# After a boot the kubelet, etcd and the API server of a node come up within minutes.
PATIENCE_SECONDS: Final = 900.0
POLL_SECONDS: Final = 5.0
# The kernel is another one afterwards, which the patch itself verifies.
CHANGED: Final = frozenset({"kernel"})


def node_patch(
    request: PatchRequest, session: Session, confirm: Callable[[PatchResult], bool]
) -> PatchResult:
    """Inspect, plan, refuse or carry out, and verify each step.

    Raises:
        NodeUnreachable: no API server answers; nothing was changed.
        PreflightFailed: something must be fixed first, or the backup that is needed is not fresh;
            nothing was changed.
        Refused: not confirmed, or another command is at work; nothing was changed.
        PlaybookFailed, StepNotVerified, ClusterError: a step failed; the same command goes on.
        Interrupted: the operator asked for a pause; no step was cut short.
    """
    session = replace(
        session,
        drain=PatientDrain(session.drain, session.clock),
        journal=OneRun(session.journal) if not request.dry_run else session.journal,
    )
    observed, found = look(request, session)
    _ask_for_backup(request, session, found.plan)
    if request.dry_run:
        return found
    refuse(found.plan.refusals)
    if not found.plan.steps:
        return found
    require_confirmed(confirm(found))
    with session.lock, request.pausing() as asked_to_pause:
        run = _Run(request, session, found, observed)
        kept = run.carry_out(asked_to_pause, lambda: look(request, session))
    return replace(found, kept=kept, done=True)


def _ask_for_backup(request: PatchRequest, session: Session, plan: PatchPlan) -> None:
    """Refuse to begin without a fresh backup; a node that is out of service is not left so.

    Raises:
        PreflightFailed: the site asks for backups, and has no fresh one; nothing was changed.
    """
    goes_on = any(patch.out for patch in plan.nodes.values())
    ask_where_data_is(
        request.desired.site,
        session,
        {name for step in plan.steps if step.kind != "artifacts" for name in step.nodes},
        only_said=goes_on or request.dry_run or request.without_backup,
    )


def _outline(plan: PatchPlan) -> tuple[object, ...]:
    """What a person agreed to."""
    return (
        [(step.kind, step.nodes) for step in plan.steps],
        {name: (patch.packages, bool(patch.reboot)) for name, patch in plan.nodes.items()},
    )


class _Run:
    """One run: from the second look to the end, or to the pause."""

    def __init__(
        self, request: PatchRequest, session: Session, found: PatchResult, observed: Observed
    ) -> None:
        self._request = request
        self._session = session
        self._found = found
        self._observed = observed
        self._recorder = Recorder(request.run, session)
        self._kept: tuple[str, ...] = ()
        self._batches = Batches(
            request.desired,
            REASON,
            lambda reason: reason == REASON,
            request.run,
            session,
            self._converge,
            self._is_patched,
            self._recorder.begin,
            request.allow_outage,
            CHANGED,
            agreed=agreed_of(found.forecasts),
        )

    @property
    def _site(self) -> Site:
        return self._request.desired.site

    def carry_out(
        self,
        asked_to_pause: Callable[[], bool],
        look_again: Callable[[], tuple[Observed, PatchResult]],
    ) -> tuple[str, ...]:
        """Run the steps of the plan that was shown; which configuration files stayed.

        Args:
            asked_to_pause: whether the operator did.
            look_again: what is found once the site is ours; another plan is refused.
        """
        self._recorder.begin()
        self._observed, now = look_again()
        require_as_shown(
            _outline(self._found.plan),
            _outline(now.plan),
            "the nodes have changed since the plan was shown",
            [refusal.sentence() for refusal in now.plan.refusals],
        )
        self._found = now
        try:
            for step in now.plan.steps:
                if asked_to_pause():
                    raise Interrupted(
                        f"paused before: {step.title}: {', '.join(step.nodes) or self._site.name}",
                        hint="to go on: run the same command again",
                    )
                self._step(step)
        except (Refused, NodeUnreachable) as error:
            # Once a step ran, no error says that nothing was changed.
            raise ClusterError(
                error.message, hint=error.hint or AGAIN, details=(*error.details, AGAIN)
            ) from error
        return self._kept

    def _step(self, step: PatchStep) -> None:
        if step.kind == "artifacts":
            request = InstallRequest(
                self._request.desired,
                self._request.run,
                Scope(only="artifacts"),
                api_seconds=API_SECONDS,
            )
            install(request, self._session, lambda _plan: True)
            return
        self._require_etcd(step)
        serves = self._site.services_node.name in step.nodes
        lacked = self._lacking() if serves else ()
        if step.kind == "host":
            self._converge(step)
        else:
            self._batches.carry_out(step)
        if serves:
            self._require_services(lacked)

    def _lacking(self) -> tuple[str, ...]:
        return lacking(self._request.desired, self._session, self._observed)

    def _require_services(self, lacked: tuple[str, ...]) -> None:
        """Look until the services node offers again what it offered before its patch.

        Raises:
            StepNotVerified: it did not in time; the packages are in effect on it.
        """
        name = self._site.services_node.name
        patience = Patience(self._session.clock, PATIENCE_SECONDS)
        while left := [text for text in self._lacking() if text not in lacked]:
            if patience.is_over():
                raise StepNotVerified(
                    f"{name}: its packages are in effect, but {left[0]}",
                    hint="repair it: appliance install",
                    details=left[1:],
                )
            self._session.observer.verifying(PACKAGES, left[0])
            self._session.clock.sleep(POLL_SECONDS)

    def _require_etcd(self, step: PatchStep) -> None:
        """Refuse to take a node with etcd out while another member is not whole.

        Its own member may be away where an earlier patch took it out: it goes on there.

        Raises:
            StepNotVerified: says which; the node is still in service.
        """
        out = [name for name in step.nodes if self._found.patch_of(name).out]
        asked = stopping(etcd_gates(self._site, self._session, (step,)))
        faults = [gate for gate in asked if gate.node not in out]
        if faults:
            raise StepNotVerified(
                f"{', '.join(step.nodes)}: not taken out of service: {faults[0].sentence()}",
                hint=f"{faults[0].cure}; then {AGAIN}",
                details=[gate.sentence() for gate in faults[1:]],
            )

    def _converge(self, step: PatchStep) -> None:
        with self._recorder.run_step(PACKAGES, step.nodes, step.why):
            self._play(step)
            self._verify(step)

    def _play(self, step: PatchStep) -> None:
        request, session = self._request, self._session
        inventory = patch_inventory(
            request.desired,
            self._observed,
            {name: self._found.patch_of(name) for name in step.nodes},
            # What a boot is for may be in no file of the node: the plan's word counts.
            {n: self._before(n).boot for n in step.nodes if self._found.patch_of(n).reboot},
            bundle_directory=session.bundle.directory if session.bundle else None,
        )

        def on_task(name: str, task: str, changed: bool | None) -> None:
            session.observer.task(PACKAGES, name, task, changed=changed)

        session.playbooks.play(
            Play(request.run.id, NODE_PATCH.name, step.nodes, inventory), on_task
        )

    def _before(self, name: str) -> NodeState:
        state = self._found.states[name]
        if not isinstance(state, NodeState):
            raise AssertionError(f"{name}: planned without its packages")
        return state

    @property
    def _manifest(self) -> BundleManifest:
        manifest = self._request.desired.manifest
        if manifest is None:
            raise AssertionError("planned without a manifest")
        return manifest

    def _open_points(self, name: str) -> tuple[str, ...]:
        """Why a node is not patched yet; a file that stayed is told once it is."""
        node = self._site.node(name)
        now = self._session.packages.read([node]).get(name)
        before = self._before(name)
        left = open_points(
            self._found.patch_of(name), before, now, self._manifest, gpu_of(self._site, node)
        )
        if not left and isinstance(now, NodeState):
            told = [text for text in newly_kept(before, now) if text not in self._kept]
            for text in told:
                self._session.observer.note(text)
            self._kept = (*self._kept, *told)
        return left

    def _is_patched(self, name: str) -> bool:
        return not self._open_points(name) and not self._unready([name])

    def _unready(self, names: list[str]) -> list[str]:
        """Members that the API does not call Ready."""
        members = [name for name in names if self._site.node(name).in_cluster]
        if not members:
            return []
        cluster = self._session.cluster.read(self._observed.node_facts)
        if not isinstance(cluster, Cluster):
            return ["no API server answers"]
        ready = {name for name, node in cluster.nodes.items() if node.ready}
        return [f"{name}: its Node is not Ready" for name in members if name not in ready]

    def _verify(self, step: PatchStep) -> None:
        """Look until the step's outcome is observed, etcd's health with it.

        Raises:
            StepNotVerified: it was not in time.
        """
        patience = Patience(self._session.clock, PATIENCE_SECONDS)
        while True:
            left = [text for name in step.nodes for text in self._open_points(name)]
            left += self._unready(list(step.nodes))
            gates = () if left else etcd_gates(self._site, self._session, (step,))
            left += [gate.sentence() for gate in stopping(gates)]
            if not left:
                return
            if patience.is_over():
                raise StepNotVerified(
                    f"{', '.join(step.nodes)}: the packages were installed, but {left[0]}",
                    hint=f"see what is wrong: appliance status; then {AGAIN}",
                    details=left[1:],
                )
            self._session.observer.verifying(PACKAGES, left[0])
            self._session.clock.sleep(POLL_SECONDS)
