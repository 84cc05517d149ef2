"""Upgrade Kubernetes to another release: control planes one by one, then workers in batches.

Every step is verified by what is observed afterwards, before the next begins. The mark on the
control-plane nodes names the upgrade to every other command; the same command goes on from any
laptop. What must not be here: the path (:mod:`appliance.model.upgrade`), or how a node is renewed
(role ``kubernetes_upgrade``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from appliance.errors import (
    ClusterError,
    Interrupted,
    NodeUnreachable,
    Refused,
    StepNotVerified,
)
from appliance.model.plan.planner import Scope
from appliance.model.plan.play import Play
from appliance.model.plan.steps import KUBERNETES_IMAGES, KUBERNETES_UPGRADE, UPGRADE
from appliance.model.state.nodes.maintenance import timestamp
from appliance.model.state.observed import Observed
from appliance.model.state.upgrade import ANNOTATION, UpgradeMark, mark_of
from appliance.model.upgrade.gates import stopping
from appliance.model.upgrade.inventory import upgrade_inventory
from appliance.model.upgrade.plan import (
    KubeadmAction,
    UpgradePlan,
    UpgradeStep,
    plan_upgrade,
)
from appliance.model.upgrade.proof import (
    control_plane_names,
    open_points,
    unfinished,
    versions_of,
)
from appliance.model.upgrade.window import CONTROL_PLANE, KUBELET, Clock
from appliance.workflows.cluster.one_run import OneRun
from appliance.workflows.cluster.patient_drain import PatientDrain
from appliance.workflows.cluster.upgrade_gates import carry, judge
from appliance.workflows.cluster.upgrade_look import (
    UpgradeRequest,
    UpgradeResult,
    foresee,
    observe_patiently,
    refusals_of,
    require_bundle,
    require_one_hop,
    situation,
    without_left_out,
)
from appliance.workflows.cluster.upgrade_nodes import Batches
from appliance.workflows.install import InstallRequest, install
from appliance.workflows.session.confirmation import require_as_shown, require_confirmed
from appliance.workflows.session.patience import Patience
from appliance.workflows.session.recording import AGAIN, Recorder
from appliance.workflows.session.survey import refuse

if TYPE_CHECKING:
    from appliance.model.site.settings import Site
    from appliance.workflows.session.session import Session

COMMAND: Final = UPGRADE
# The kubelet waits up to five minutes before it starts a container again that often ended.
PATIENCE_SECONDS: Final = 360.0
POLL_SECONDS: Final = 2.0
SNAPSHOT: Final = "upgrade: snapshot of etcd"


def upgrade(
    request: UpgradeRequest, session: Session, confirm: Callable[[UpgradeResult], bool]
) -> UpgradeResult:
    """Inspect, plan, refuse or carry out, and verify each step.

    Raises:
        NodeUnreachable: no API server answers; nothing was changed.
        PreflightFailed: something must be fixed first; nothing was changed.
        BundleRefused: the bundle is missing or not the release's; nothing was changed.
        Refused: not confirmed, or another command is at work; nothing was changed.
        PlaybookFailed, StepNotVerified, ClusterError: a step failed; the same command goes on.
    """
    session = replace(
        session,
        drain=PatientDrain(session.drain, session.clock),
        journal=OneRun(session.journal) if not request.dry_run else session.journal,
    )
    whole = request.desired.site
    request = replace(request, desired=without_left_out(request))

    def look() -> tuple[Observed, UpgradeMark | None, UpgradePlan]:
        observed = observe_patiently(request, session)
        mark = mark_of(observed.cluster)
        found = situation(request, whole, observed, mark)
        return observed, mark, plan_upgrade(request.options, found, request.hops)

    observed, mark, plan = look()
    forecasts = foresee(plan, session)
    under_way = mark is not None and not mark.over
    # In the middle a node of ours is out, and its pods are on the move: each eviction judges anew.
    foreseen = () if under_way else refusals_of(request, forecasts)
    plan = replace(plan, refusals=(*plan.refusals, *foreseen))
    clock = Clock(session.journal.read(), request.measured)
    found = UpgradeResult(plan, forecasts, clock, mark)
    if not plan.refusals:
        found = replace(found, gates=judge(request, session, observed, found))
    if request.dry_run:
        return found
    refuse([*plan.refusals, *(gate.refusal() for gate in stopping(found.gates))])
    if not plan.steps and not under_way:
        return found
    require_one_hop(request, plan)
    require_bundle(request)
    require_confirmed(confirm(found))
    with session.lock, request.pausing() as asked_to_pause:
        run = _Run(request, session, plan, observed, mark)
        ended = run.carry_out(asked_to_pause, lambda: _as_shown(found, *look()))
    return replace(found, done=True, ended=ended)


def _as_shown(
    found: UpgradeResult, observed: Observed, mark: UpgradeMark | None, plan: UpgradePlan
) -> Observed:
    """What is observed now, where it leads to the plan that was shown.

    Raises:
        Refused: it does not; nothing was changed.
    """
    shown, now = (
        [(step.kind, step.release, step.nodes, step.action) for step in (*one.steps, *one.rest)]
        for one in (found.plan, plan)
    )
    require_as_shown(
        (shown, found.mark),
        (now, mark),
        "the cluster has changed since the plan was shown",
        [refusal.sentence() for refusal in plan.refusals],
    )
    return observed


@contextmanager
def _begun() -> Iterator[None]:
    """Once the mark is written, no error says that nothing was changed.

    Raises:
        ClusterError: in place of what refuses, or could not be reached, before a change.
    """
    try:
        yield
    except (Refused, NodeUnreachable) as error:
        raise ClusterError(
            error.message, hint=error.hint or AGAIN, details=(*error.details, AGAIN)
        ) from error


class _Run:
    """One run: from the mark on the control plane to its end, or to the pause."""

    def __init__(
        self,
        request: UpgradeRequest,
        session: Session,
        plan: UpgradePlan,
        observed: Observed,
        mark: UpgradeMark | None,
    ) -> None:
        self._request = request
        self._session = session
        self._plan = plan
        self._observed = observed
        self._mark_before = mark
        self._hop = request.hops[request.options.to]
        self._recorder = Recorder(request.run, session)
        self._batches = Batches(
            request.desired,
            request.run,
            session,
            self._renew_nodes,
            self._is_renewed,
            self._recorder.begin,
            request.allow_outage,
        )

    @property
    def _site(self) -> Site:
        return self._request.desired.site

    def carry_out(
        self, asked_to_pause: Callable[[], bool], look_again: Callable[[], Observed]
    ) -> bool:
        """Run the steps; return whether every node has the release then.

        Args:
            asked_to_pause: whether the operator did.
            look_again: what is observed once the site is ours; it refuses another plan.

        Raises:
            Refused: the plan is another one now; nothing was changed.
            Interrupted: the operator asked for a pause; no step was cut short.
        """
        self._recorder.begin()
        self._observed = look_again()
        self._prove_snapshot()
        self._write_mark()
        self._write_site()
        with _begun():
            carry(self._request, self._session)
            for step in self._plan.steps:
                if asked_to_pause():
                    raise Interrupted(
                        f"paused before: {step.title}: {', '.join(step.nodes) or self._site.name}; "
                        f"{self._out()}",
                        hint="to go on: run the same command again",
                    )
                self._step(step)
            return self._end()

    def _prove_snapshot(self) -> None:
        """Save etcd and restore it once, before the first change; nothing where nothing is new."""
        evidence = self._session.upgrade_evidence
        due = [step for step in self._plan.steps if step.kind == "control_plane"]
        if evidence is None or not due:
            return
        node = self._site.node(due[0].nodes[0])
        with self._recorder.on_node(SNAPSHOT, node.name, "the way back, restored once"):
            proof = evidence.prove(node, "upgrade")
        self._session.observer.note(f"{node.name}: {proof.path}: {proof.keys} keys")

    def _write_mark(self) -> None:
        request, old = self._request, self._mark_before
        goes_on = old is not None and not old.over and old.release == request.options.to
        mark = UpgradeMark(
            release=request.options.to,
            since=old.since if old and goes_on else timestamp(self._session.clock.now()),
            by=old.by if old and goes_on else f"{request.run.operator} on {request.run.host}",
            without=tuple(request.options.without),
        )
        self._annotate(mark)

    def _out(self) -> str:
        """The nodes that an earlier run left out of service, in words."""
        found = versions_of(self._site, self._observed)
        out = [n for n, one in found.items() if one and one.out_for(self._hop.release)]
        return f"still out of service: {', '.join(out)}" if out else "no node is out of service"

    def _write_site(self) -> None:
        """Write the release into site.yml; the mark is first, so that a killed run is known of.

        Raises:
            Refused: it could not be written; the mark of this run is taken away.
        """
        try:
            self._session.choose_release(self._request.options.to)
        except Refused:
            self._annotate(self._mark_before)
            raise

    def _annotate(self, mark: UpgradeMark | None) -> None:
        value = mark.as_text() if mark else None
        self._session.members.annotate(control_plane_names(self._site), ANNOTATION, value)

    def _step(self, step: UpgradeStep) -> None:
        if step.kind == "artifacts":
            self._mirror()
        elif step.kind == "kubernetes_images":
            with self._recorder.run_step(KUBERNETES_IMAGES.name, step.nodes, step.why):
                self._play(KUBERNETES_IMAGES.name, KUBERNETES_IMAGES.name, step, {}, ())
        elif step.kind == "control_plane":
            self._upgrade_control_plane(step)
        else:
            self._batches.carry_out(step)

    def _mirror(self) -> None:
        """Bring the bundle to the services node, by the install's own step."""
        scope = Scope(only="artifacts")
        install(
            InstallRequest(self._request.desired, self._request.run, scope),
            self._session,
            lambda _plan: True,
        )

    def _upgrade_control_plane(self, step: UpgradeStep) -> None:
        (name,) = step.nodes
        with self._recorder.run_step(CONTROL_PLANE, step.nodes, step.why):
            self._play(CONTROL_PLANE, KUBERNETES_UPGRADE.name, step, {name: step.action}, ())
            self._verify(CONTROL_PLANE, step)

    def _renew_nodes(self, step: UpgradeStep) -> None:
        kubeadm = {name: step.action for name in step.nodes if step.action}
        with self._recorder.run_step(KUBELET, step.nodes, step.why):
            self._play(KUBELET, KUBERNETES_UPGRADE.name, step, kubeadm, step.nodes)
            self._verify(KUBELET, step)

    def _is_renewed(self, name: str) -> bool:
        self._look([name])
        node = versions_of(self._site, self._observed).get(name)
        return node is not None and node.ready and node.kubelet == str(self._hop.kubernetes)

    def _play(
        self,
        shown: str,
        playbook: str,
        step: UpgradeStep,
        kubeadm: Mapping[str, KubeadmAction],
        kubelets: tuple[str, ...],
    ) -> None:
        request, session = self._request, self._session
        inventory = upgrade_inventory(
            request.desired,
            self._observed,
            kubeadm=kubeadm,
            kubelets=kubelets,
            bundle_directory=session.bundle.directory if session.bundle else None,
        )

        def on_task(name: str, task: str, changed: bool | None) -> None:
            session.observer.task(shown, name, task, changed=changed)

        limit = step.nodes
        if step.kind == "kubernetes_images":
            limit = tuple(dict.fromkeys((self._site.services_node.name, *limit)))
        session.playbooks.play(Play(request.run.id, playbook, limit, inventory), on_task)

    def _look(self, names: list[str]) -> None:
        """Read some nodes and the API again."""
        look = self._session.nodes.look([self._site.node(name) for name in names])
        unseen = {fault.node for fault in look.faults}
        facts = {**self._observed.node_facts, **look.node_facts}
        facts = {name: one for name, one in facts.items() if name not in unseen}
        self._observed = Observed(facts, self._session.cluster.read(facts), look.faults)

    def _verify(self, shown: str, step: UpgradeStep) -> None:
        """Look until the step's outcome is observed.

        Raises:
            StepNotVerified: it was not in time.
        """
        patience = Patience(self._session.clock, PATIENCE_SECONDS)
        while True:
            self._look(list(step.nodes))
            left = open_points(self._site, self._observed, self._hop, step)
            if not left:
                return
            if patience.is_over():
                raise StepNotVerified(
                    f"{', '.join(step.nodes)}: the upgrade ran, but {left[0]}",
                    hint=f"see what is wrong: appliance status; then {AGAIN}",
                    details=left[1:],
                )
            self._session.observer.verifying(shown, left[0])
            self._session.clock.sleep(POLL_SECONDS)

    def _end(self) -> bool:
        """Take the mark away where every node has the release.

        Raises:
            StepNotVerified: a node lacks it although every step was verified.
        """
        self._look([node.name for node in self._site.cluster_members])
        left = unfinished(self._site, self._observed, self._hop)
        if self._plan.is_paused:
            return False
        if left:
            raise StepNotVerified(f"every step ran, but {left[0]}", hint=AGAIN, details=left[1:])
        without = self._request.options.without
        mark = mark_of(self._observed.cluster)
        self._annotate(replace(mark, over=True, without=without) if mark and without else None)
        return True
