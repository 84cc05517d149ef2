"""One run of an upgrade: from the mark on the control plane to its end, or to the pause.

Every step is verified by what is observed afterwards, before the next begins; each release of the
path is planned from what runs when its turn comes. What must not be here: the path
(:mod:`appliance.model.upgrade`), or how a node is renewed (roles).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from appliance.errors import ClusterError, Interrupted, Refused, StepNotVerified
from appliance.model.plan.planner import Scope
from appliance.model.plan.play import Play
from appliance.model.plan.steps import KUBERNETES_IMAGES, KUBERNETES_RUNTIME, KUBERNETES_UPGRADE
from appliance.model.state.nodes.maintenance import timestamp
from appliance.model.state.observed import Observed
from appliance.model.state.upgrade import ANNOTATION as MARK
from appliance.model.state.upgrade import REASON, UpgradeMark, mark_of, owed_before, with_snapshot
from appliance.model.upgrade.evidence import Silence
from appliance.model.upgrade.inventory import upgrade_inventory
from appliance.model.upgrade.moves.runtime import with_runtimes
from appliance.model.upgrade.moves.steps import KubeadmAction, UpgradeStep
from appliance.model.upgrade.proof import (
    control_plane_names,
    etcd_points,
    open_points,
    unfinished,
    versions_of,
)
from appliance.model.upgrade.window import CONTROL_PLANE, KUBELET, RUNTIME
from appliance.workflows.cluster.upgrading.gates import accepted_by, carry, window_days
from appliance.workflows.cluster.upgrading.look import Seen, observe_patiently
from appliance.workflows.cluster.upgrading.nodes import Batches
from appliance.workflows.cluster.upgrading.request import UpgradeRequest
from appliance.workflows.cluster.upgrading.revive import keep_record
from appliance.workflows.install import InstallRequest, install
from appliance.workflows.session.patience import API_SECONDS, Patience
from appliance.workflows.session.recording import AGAIN, Recorder, begun
from appliance.workflows.session.survey import refuse

if TYPE_CHECKING:
    from appliance.model.site.settings import Site
    from appliance.model.state.desired import Desired
    from appliance.model.upgrade.path import Hop
    from appliance.model.upgrade.plan import UpgradePlan
    from appliance.workflows.session.session import Session

# The kubelet waits up to five minutes before it starts a container again that often ended.
PATIENCE_SECONDS: Final = 360.0
POLL_SECONDS: Final = 0.5
SNAPSHOT: Final = "upgrade: snapshot of etcd"


class UpgradeRun:
    """One run, release by release."""

    def __init__(
        self, request: UpgradeRequest, session: Session, seen: Seen, agreed: frozenset[str]
    ) -> None:
        self._request = request
        self._agreed = agreed  # what ends for good, as it was shown
        self._session = session
        self._recorder = Recorder(request.run, session)
        self._use(seen)

    def _use(self, seen: Seen) -> None:
        """Go by another look: its plan, and the first release of its path."""
        request = self._request
        self._seen = seen
        self._observed: Observed = seen.observed
        self._mark: UpgradeMark | None = seen.mark
        self._plan: UpgradePlan = seen.plan
        self._hop: Hop = request.hops[seen.plan.release or request.options.to]
        supply = request.supplies.get(self._hop.release)
        self._desired: Desired = supply.desired_of(request.desired) if supply else request.desired
        self._bundle = supply.bundle if supply else None

    @property
    def _site(self) -> Site:
        return self._request.desired.site

    def carry_out(
        self,
        asked_to_pause: Callable[[], bool],
        look_again: Callable[[], Seen],
        look_on: Callable[[], Seen],
    ) -> bool:
        """Run the steps; return whether every node has the release then.

        Args:
            asked_to_pause: whether the operator did.
            look_again: what is seen once the site is ours; it refuses another plan.
            look_on: what is seen when a release of the path is complete.

        Raises:
            Refused: the plan is another one now; nothing was changed.
            Interrupted: the operator asked for a pause; no step was cut short.
        """
        self._recorder.begin()
        before = look_again()
        self._use(before)
        snapshot = self._snapshot()
        self._write_mark(snapshot)
        self._write_site(before.mark)
        with begun():
            while self._carry_out_release(asked_to_pause):
                self._use(look_on())
                refuse(self._plan.refusals)
                if not self._plan.steps:
                    break
                self._write_mark(self._snapshot())
            return self._end()

    def _carry_out_release(self, asked_to_pause: Callable[[], bool]) -> bool:
        """Run the steps of the first release of the path; return whether another follows now."""
        release = self._hop.release
        carry(self._request, self._session, self._seen, self._accepted)
        for step in self._plan.steps:
            if step.release != release:
                return self._complete()
            if asked_to_pause():
                raise Interrupted(
                    f"paused before: {step.title}: {', '.join(step.nodes) or self._site.name}; "
                    f"{self._out()}",
                    hint="to go on: run the same command again",
                )
            self._step(step)
        return False

    def _complete(self) -> bool:
        """Whether the release is complete, so that the next may begin.

        Raises:
            StepNotVerified: a node lacks it although every step was verified.
            NodeUnreachable: no API server answers.
        """
        masters, what = self._site.control_plane, "what runs is unknown"
        self._observed = observe_patiently(masters, self._session, what)
        left = unfinished(self._site, self._observed, self._hop, self._request.options.to)
        if left:
            raise StepNotVerified(
                f"every step to {self._hop.release} ran, but {left[0]}",
                hint=AGAIN,
                details=left[1:],
            )
        return True

    def _snapshot(self) -> str:
        """Save etcd and restore it once, before the first change of a release.

        Return where it is; empty where nothing of the control plane changes, or where an earlier
        run saved it and it is there still: that one has the cluster before the release.
        """
        evidence, release = self._session.upgrade_evidence, self._hop.release
        masters, kinds = control_plane_names(self._site), ("control_plane", "runtime")
        due = [one for one in self._plan.steps if one.kind in kinds and one.nodes[0] in masters]
        due = [step for step in due if step.release == release]
        known = before.snapshot_of(release) if (before := self._goes_on) else ""
        if evidence is None or not due or (known and not self._is_gone(known)):
            return ""
        node = self._site.node(self._with_etcd(due[0].nodes[0]))
        keep = [PurePosixPath(one).name for one in (before.snapshots if before else ())]
        with self._recorder.on_node(SNAPSHOT, node.name, "the way back, restored once"):
            proof = evidence.prove(node, "upgrade", keep)
        self._session.observer.note(f"{node.name}: {proof.path}: {proof.keys} keys")
        return f"{release} {node.name} {proof.path}"

    def _is_gone(self, snapshot: str) -> bool:
        """Whether a snapshot that the mark names is there no more; who does not answer has it."""
        _, name, path = (*snapshot.split(" ", 2), "", "")[:3]
        evidence, masters = self._session.upgrade_evidence, control_plane_names(self._site)
        is_ours = evidence is not None and name in masters
        found = evidence.keeps(self._site.node(name), path) if evidence and is_ours else False
        if found is False:
            self._session.observer.note(f"{snapshot}: this snapshot is gone; another is made now")
        return found is False

    def _with_etcd(self, name: str) -> str:
        """The node, or another control-plane node where its own etcd is down."""
        evidence, masters = self._session.upgrade_evidence, self._site.control_plane
        if evidence is None or len(masters) == 1:
            return name
        found = evidence.statuses(masters)
        well = [] if isinstance(found, Silence) else [one.node for one in found if one.healthy]
        return name if name in well or not well else well[0]

    @property
    def _goes_on(self) -> UpgradeMark | None:
        """The mark of the upgrade that this run goes on with; None where it begins one."""
        mark = self._mark
        is_ours = mark is not None and not mark.over and mark.release == self._request.options.to
        return mark if is_ours else None

    @property
    def _accepted(self) -> frozenset[str]:
        return accepted_by(self._request, self._mark)

    def _write_mark(self, snapshot: str) -> None:
        request, old, last = self._request, self._goes_on, self._mark
        # A node that was left out at its end is the rest of the same upgrade.
        since = last.since if last and last.release == request.options.to else ""
        self._mark = UpgradeMark(
            release=request.options.to,
            since=since or timestamp(self._session.clock.now()),
            by=old.by if old else f"{request.run.operator} on {request.run.host}",
            without=tuple(request.options.without),
            accepted=tuple(sorted(self._accepted)),
            snapshots=with_snapshot(old.snapshots if old else (), snapshot),
            before=old.before if old else request.before,
            window_days=window_days(request, self._session, self._plan),
            former=owed_before(last, request.options.to),
        )
        self._annotate(self._mark)

    def _out(self) -> str:
        """The nodes that an earlier run left out of service, in words."""
        found = versions_of(self._site, self._observed)
        out = [n for n, one in found.items() if one and one.out_for(self._request.options.to)]
        return f"still out of service: {', '.join(out)}" if out else "no node is out of service"

    def _write_site(self, before: UpgradeMark | None) -> None:
        """Write the release into site.yml; the mark is first, so that a killed run is known of.

        Raises:
            Refused: it could not be written; the mark of this run is taken away.
        """
        try:
            self._session.choose_release(self._request.options.to)
        except Refused:
            self._annotate(before)
            raise

    def _annotate(self, mark: UpgradeMark | None) -> None:
        value = mark.as_text() if mark else None
        # First where it can be read without an API, which the next step may stop.
        last = mark or (replace(self._mark, over=True) if self._mark else None)
        if last is not None:
            keep_record(self._session, last)
        self._session.members.annotate(control_plane_names(self._site), MARK, value)

    def _require_majority(self, step: UpgradeStep) -> None:
        """Refuse to restart one etcd while another is down: of three, two carry the API.

        Raises:
            ClusterError: names the other; nothing of this step began.
        """
        others = [name for name in control_plane_names(self._site) if name not in step.nodes]
        left = self._etcd(step)
        # Where no member could be asked, nobody knows of the others either.
        down = [one for one in left if one.partition(":")[0] in ("etcd", *others)]
        if down:
            raise ClusterError(
                f"{', '.join(step.nodes)} was not touched, because {down[0]}",
                hint=f"see what is wrong: appliance status; then {AGAIN}",
                details=left,
            )

    def _step(self, step: UpgradeStep) -> None:
        if step.kind not in ("artifacts", "kubernetes_images"):
            self._require_majority(step)
        if step.kind == "artifacts":
            self._mirror()
        elif step.kind == "kubernetes_images":
            with self._recorder.run_step(KUBERNETES_IMAGES.name, step.nodes, step.why):
                self._play(KUBERNETES_IMAGES.name, KUBERNETES_IMAGES.name, step, {}, ())
        elif step.kind == "control_plane":
            (name,) = step.nodes
            with self._recorder.run_step(CONTROL_PLANE, step.nodes, step.why):
                self._play(CONTROL_PLANE, KUBERNETES_UPGRADE.name, step, {name: step.action}, ())
                self._verify(CONTROL_PLANE, step)
        else:
            self._batches(step).carry_out(step)

    def _batches(self, step: UpgradeStep) -> Batches[UpgradeStep]:
        # Until its kubelet is renewed, a node that returns runs the release before.
        lagging = frozenset(step.nodes) if step.kind == "runtime" else frozenset()
        return Batches(
            replace(self._desired, lagging=lagging),
            REASON + self._request.options.to,
            lambda reason: reason.startswith(REASON),
            self._request.run,
            self._session,
            self._change_runtimes if step.kind == "runtime" else self._renew_nodes,
            lambda name: self._is_renewed(step, name),
            self._recorder.begin,
            self._request.allow_outage,
            has_way_back=True,
            agreed=self._agreed,
        )

    def _mirror(self) -> None:
        """Bring the bundle to the services node, by the install's own step."""
        scope, run = Scope(only="artifacts"), self._request.run
        asked = InstallRequest(self._desired, run, scope, api_seconds=API_SECONDS)
        install(asked, replace(self._session, bundle=self._bundle), lambda _plan: True)

    def _change_runtimes(self, step: UpgradeStep) -> None:
        with self._recorder.run_step(RUNTIME, step.nodes, step.why):
            self._play(RUNTIME, KUBERNETES_RUNTIME.name, step, {}, ())
            self._verify(RUNTIME, step)

    def _renew_nodes(self, step: UpgradeStep) -> None:
        kubeadm = {name: step.action for name in step.nodes if step.action}
        with self._recorder.run_step(KUBELET, step.nodes, step.why):
            self._play(KUBELET, KUBERNETES_UPGRADE.name, step, kubeadm, step.nodes)
            self._verify(KUBELET, step)

    def _is_renewed(self, step: UpgradeStep, name: str) -> bool:
        self._look([name])
        one = replace(step, nodes=(name,))
        return not open_points(self._site, self._observed, self._hop, one)

    def _play(
        self,
        shown: str,
        playbook: str,
        step: UpgradeStep,
        kubeadm: Mapping[str, KubeadmAction],
        kubelets: tuple[str, ...],
    ) -> None:
        session = self._session
        inventory = with_runtimes(
            upgrade_inventory(
                self._desired,
                self._observed,
                kubeadm=kubeadm,
                kubelets=kubelets,
                bundle_directory=self._bundle.directory if self._bundle else None,
            ),
            self._desired,
            self._observed,
            changing=step.nodes if step.kind == "runtime" else (),
        )
        # It was saved before the first change; by now this node's etcd may be down.
        saved = self._mark is not None and bool(self._mark.snapshot_of(self._hop.release))
        inventory["all"]["vars"]["kubernetes_upgrade_snapshot"] = not saved
        if self._mark is not None:
            inventory["all"]["vars"]["kubernetes_upgrade_id"] = self._mark.id

        def on_task(name: str, task: str, changed: bool | None) -> None:
            session.observer.task(shown, name, task, changed=changed)

        limit = step.nodes
        if step.kind == "kubernetes_images":
            limit = tuple(dict.fromkeys((self._site.services_node.name, *limit)))
        session.playbooks.play(Play(self._request.run.id, playbook, limit, inventory), on_task)

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
            left = open_points(self._site, self._observed, self._hop, step) or self._etcd(step)
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

    def _etcd(self, step: UpgradeStep) -> tuple[str, ...]:
        """Why etcd is not whole after a step on one of several control-plane nodes."""
        evidence, names = self._session.upgrade_evidence, control_plane_names(self._site)
        if evidence is None or len(names) < 2 or not set(names) & set(step.nodes):
            return ()
        return etcd_points(names, evidence.statuses(self._site.control_plane))

    def _end(self) -> bool:
        """Take the mark away where every node has the release; return whether every one has.

        Raises:
            StepNotVerified: a node lacks it although every step was verified.
        """
        if self._plan.is_paused:
            return False
        self._complete()
        without = self._request.options.without
        mark = mark_of(self._observed.cluster)
        self._annotate(mark.ended(without) if mark and without else None)
        return True
