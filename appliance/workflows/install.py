"""Install a site: observe, plan, then converge and verify each step.

A second run only inspects the nodes. The same command resumes a killed run, because the plan
follows from the observed state, not from records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from appliance.errors import ClusterError, PlaybookFailed, StepNotVerified
from appliance.model.components.base.component import Step
from appliance.model.components.node_metadata.node_roles import RolesPlan, plan_inventory
from appliance.model.node.membership import to_keep
from appliance.model.plan.inventory import run_inventory
from appliance.model.plan.judging import judge, reasons_of_others
from appliance.model.plan.planner import Scope, choose
from appliance.model.plan.play import Play
from appliance.model.plan.steps import BY_NAME
from appliance.model.plan.test_image import BUSYBOX, pod_test_image
from appliance.model.state.cluster.cluster import Cluster
from appliance.model.state.desired import Desired
from appliance.model.state.journal import Run
from appliance.model.state.nodes.roles import inventory_roles
from appliance.model.state.observed import Fault, Observed
from appliance.model.state.plan import Plan, PlannedStep
from appliance.workflows.hardware.records import carry_over
from appliance.workflows.node.baselines import Acceptances, settle, spread
from appliance.workflows.session.confirmation import (
    differing,
    is_late,
    require_confirmed,
    require_same_plan,
)
from appliance.workflows.session.gpu_test import require_gpus
from appliance.workflows.session.patience import Patience, api_silence, observe_until
from appliance.workflows.session.recording import Recorder, digests
from appliance.workflows.session.survey import Survey, observe, refuse, survey_of
from appliance.workflows.site.bundle_at_hand import copied_bundle, require_bundle, vouch

if TYPE_CHECKING:
    from appliance.workflows.session.session import Session

POLL_SECONDS = 0.5
# Reading facts costs a second of each node, the API next to nothing: it is asked in between.
LOOK_SECONDS = 5.0


@dataclass(frozen=True)
class InstallRequest:
    """What was asked for, by whom, with which tool.

    Attributes:
        accept: nodes whose passport is written anew: another machine took their place.
        api_seconds: how long an API that is away is waited for, before anything is planned; none
            where nothing restarts it.
    """

    desired: Desired
    run: Run
    scope: Scope = field(default_factory=Scope)
    dry_run: bool = False
    accept: frozenset[str] = frozenset()
    api_seconds: float = 0.0


@dataclass(frozen=True)
class InstallResult:
    """How an install ended.

    Attributes:
        plan: what was planned at the start.
        observed: the last look.
        steps: the steps that ran, in order; empty when there was nothing to do.
    """

    plan: Plan
    observed: Observed
    steps: tuple[str, ...] = ()


def install(
    request: InstallRequest,
    ports: Session,
    confirm: Callable[[Plan], bool],
    ask_again: Callable[[], InstallRequest] | None = None,
) -> InstallResult:
    """Run what the plan says, and verify each step before the next.

    Args:
        request: what was asked for.
        ports: the session.
        confirm: is shown the plan.
        ask_again: makes the request of what is observed under the lock, after a late answer.

    Raises:
        NodeUnreachable: a node could not be reached; nothing was changed.
        PreflightFailed: a node is not fit; nothing was changed.
        BundleRefused: the bundle is missing or corrupt; nothing was changed.
        Refused: not confirmed, or another command is at work; nothing was changed.
        LeaseLost: another command took the site over between two steps.
        PlaybookFailed: a step failed on a node.
        StepNotVerified: a step ran, but its post-condition is not met.
        Interrupted: Ctrl-C.
    """
    found, observed_at = _survey(request, ports), ports.clock.monotonic()
    if request.dry_run:
        return InstallResult(found.plan, found.observed)
    if not found.plan.steps:
        vouch(request.desired, found.observed, ports)
        settle(request.desired, found.observed, ports.archive)
        return InstallResult(found.plan, found.observed)
    refuse(found.plan.refusals)
    require_bundle(found, request.desired, ports)
    require_confirmed(confirm(found.plan))
    for fault in found.plan.left_out:
        ports.observer.note(f"left out (the other nodes continue): {fault.reason}")
    ports.observer.planned(found.plan, ports.journal.durations())
    with ports.lock:
        if is_late(ports.clock, observed_at):
            request = ask_again() if ask_again else request
            found = _as_shown(found, _survey(request, ports), request, ports)
        return _Run(request, ports, found).carry_out()


def _survey(request: InstallRequest, ports: Session) -> Survey:
    def look() -> Observed:
        observed, _ = observe(request.desired.site, ports.nodes, ports.cluster)
        return observed

    observed = observe_until(look, api_silence, ports, request.api_seconds)
    return survey_of(observed, request.desired, ports.preflight, request.scope)


def _as_shown(shown: Survey, now: Survey, request: InstallRequest, ports: Session) -> Survey:
    """What is observed now, where it leads to the plan that was shown.

    Raises:
        PreflightFailed, Refused: it does not; nothing was changed.
    """
    refuse(now.plan.refusals)
    lines = [(*one.plan.outline(), *copied_bundle(one, request.desired)) for one in (shown, now)]
    require_same_plan(request.run, differing(*lines))
    ports.observer.note("the answer came late: the plan was made again, and is the same")
    return now


class _Run:
    """One run: its sequence number, its latest observation."""

    def __init__(self, request: InstallRequest, ports: Session, found: Survey) -> None:
        self._request = request
        self._desired = request.desired
        self._ports = ports
        self._plan = found.plan
        self._observed = found.observed
        self._recorder = Recorder(request.run, ports)

    def carry_out(self) -> InstallResult:
        ran, ports = [], self._ports
        self._recorder.begin()
        vouch(self._desired, self._observed, ports)
        self._keep()
        for planned in self._plan.steps:
            if not (heard := self._heard(planned)):
                self._step(planned)
            elif own := set(planned.nodes) - heard:
                self._step(planned.on(own))
            ran.append(planned.name)
            if BY_NAME[planned.name].gives_bundle:
                vouch(self._desired, self._observed, ports)
        settle(self._desired, self._observed, ports.archive)
        accepting = Acceptances(self._request.run, ports.archive, ports.clock, ports.observer)
        accepting.accept(self._desired, self._observed, self._request.accept)
        self._keep_qualifications()
        added = any(BY_NAME[name].adds_control_plane for name in ran)
        if added and len(self._desired.site.control_plane) > 1:
            spread(ports.archive, ports.observer)
        self._tell_the_rest()
        return InstallResult(self._plan, self._observed, tuple(ran))

    def _keep_qualifications(self) -> None:
        """Records of hardware that were made before the cluster follow the passports."""
        ports, names = self._ports, [node.name for node in self._desired.site.cluster_members]
        for missed in carry_over(names, ports.documents, ports.archive, self._request.accept):
            ports.observer.note(missed)

    def _keep(self) -> None:
        """Before Node objects go: write down what they have, where another laptop finds it."""
        scope = self._request.scope.nodes
        for record in to_keep(self._desired, self._observed, self._plan.choice):
            if scope and record.node not in scope:
                continue
            self._ports.archive.put(record.document, record.text())
            if record.kept is not None:
                kept = {**self._desired.kept, record.node: record.kept}
                self._desired = replace(self._desired, kept=kept)

    def _put_back(self, nodes: tuple[str, ...]) -> None:
        """Give members what was kept for them; it is forgotten once it is seen to be there."""
        members = (
            self._observed.cluster.nodes if isinstance(self._observed.cluster, Cluster) else {}
        )
        for name in nodes:
            if name in self._desired.kept and name in members:
                self._ports.members.put_back(members[name], self._desired.kept[name])

    def _step(self, planned: PlannedStep) -> None:
        with self._recorded(planned.name, planned):
            self._forbid(planned)
            self._converge(planned)
            self._verify(planned)

    @contextmanager
    def _recorded(self, name: str, planned: PlannedStep) -> Iterator[None]:
        """A step in the journal, with what was seen of its nodes before and after."""
        with self._recorder.run_step(name, planned.nodes, planned.why) as evidence:
            evidence.before = digests(self._observed.node_facts, planned.nodes)
            try:
                yield
            finally:
                evidence.after = digests(self._observed.node_facts, planned.nodes)

    def _tell_the_rest(self) -> None:
        """Other members come last: one with a fault of its own, or that hangs, stops no join."""
        for planned in (one.on(heard) for one in self._plan.steps if (heard := self._heard(one))):
            try:
                self._tell_others(planned)
            except (PlaybookFailed, StepNotVerified) as error:
                for one in (error.message, *error.details):
                    self._ports.observer.note(f"{one} (the join goes on; see: appliance plan)")

    def _heard(self, planned: PlannedStep) -> set[str]:
        """The nodes of a step that only hear of those that join."""
        scope = self._request.scope
        if not scope.joining or BY_NAME[planned.name].unmet_of_others is None:
            return set()
        return set(planned.nodes) - scope.nodes

    def _tell_others(self, planned: PlannedStep) -> None:
        """Bring other members what they need to know of nodes that join.

        Raises:
            PlaybookFailed, StepNotVerified: a member lacks it still, for a reason of its own.
        """
        step, new = BY_NAME[planned.name], self._request.scope.joining
        with self._recorded(f"{step.name}: other members", planned):
            self._converge(planned)
            # What was seen of one that does not answer now stays: this run is not about it.
            self._read_nodes(planned)
            left = reasons_of_others(step, self._desired, self._observed, new)
            points = [f"{one.node}: {one.text}" for one in left if one.node in planned.nodes]
            if points:
                raise StepNotVerified(points[0], details=points[1:])

    def _forbid(self, planned: PlannedStep) -> None:
        """Ask again what forbids the step: steps before it may have brought the evidence."""
        step, desired = BY_NAME[planned.name], self._desired
        if step.forbids is None:
            return
        if planned.name != self._plan.steps[0].name:
            self._look(planned)
        refusals = tuple(step.forbids(desired, self._observed))
        if refusals:
            raise StepNotVerified(
                f"step {step.name} was not started: {refusals[0].sentence()}",
                hint=refusals[0].hint,
                details=[refusal.sentence() for refusal in refusals[1:]],
            )

    def _converge(self, planned: PlannedStep) -> None:
        step = BY_NAME[planned.name]
        if step.writes:
            self._write(planned)
            return
        choice, _ = choose(self._desired, self._observed)
        inventory = run_inventory(
            self._desired,
            self._observed,
            choice,
            bundle_directory=self._ports.bundle.directory if self._ports.bundle else None,
        )
        limit = planned.nodes
        if choice.leader and choice.leader not in limit and step.needs_leader:
            limit = (*limit, choice.leader)
        play = Play(self._request.run.id, planned.name, limit, inventory)

        def on_task(node: str, task: str, changed: bool | None) -> None:
            self._ports.observer.task(planned.name, node, task, changed=changed)

        self._ports.playbooks.play(play, on_task)

    def _write(self, planned: PlannedStep) -> None:
        """Do a step that has no playbook: it writes to the Kubernetes API."""
        if BY_NAME[planned.name].writes == "roles":
            self._ports.cluster.write_roles(self._roles())
        else:
            self._put_back(planned.nodes)

    def _roles(self) -> RolesPlan:
        cluster = self._observed.cluster
        if not isinstance(cluster, Cluster) or cluster.roles is None:
            raise ClusterError(
                "the Kubernetes API does not answer, so no node role was set",
                hint="see what is wrong: appliance status",
            )
        return plan_inventory(cluster.roles, inventory_roles(self._desired.site))

    def _verify(self, planned: PlannedStep) -> None:
        """Inspect the nodes until the post-condition is met, or until the time is up."""
        step, ports, desired = BY_NAME[planned.name], self._ports, self._desired
        if step.unmet is None:
            return
        patience = Patience(ports.clock, step.patience_seconds)
        faults, looked = self._look(planned), ports.clock.monotonic()
        while open_points := [
            *faults,
            *judge(step, desired, self._observed, frozenset(planned.nodes)).sentences(),
        ]:
            if patience.is_over():
                raise StepNotVerified(
                    f"step {step.name} ran, but {open_points[0]}",
                    hint="see what is still missing: appliance status; then run the same command "
                    "again",
                    details=open_points[1:],
                )
            ports.observer.verifying(step.name, open_points[0])
            ports.clock.sleep(POLL_SECONDS)
            soon = ports.clock.monotonic() < looked + LOOK_SECONDS
            if soon and not patience.is_last and isinstance(self._observed.cluster, Cluster):
                self._read_cluster()
            else:
                faults, looked = self._look(planned), ports.clock.monotonic()
        self._test(planned)

    def _test(self, planned: PlannedStep) -> None:
        """What a step asks for beyond its post-condition."""
        ports, desired = self._ports, self._desired
        step = BY_NAME[planned.name]
        if self._is_last_test(step):
            self._run_network_test(planned)
        if step.remarks is not None:
            for finding in step.remarks(desired, self._observed):
                ports.observer.note(f"warning: {finding.sentence()}  hint: {finding.hint}")
        if step.tests == "gpus":
            require_gpus(planned, desired, self._observed, ports)

    def _look(self, planned: PlannedStep) -> list[str]:
        """Read the step's nodes and the API again; why nodes could not be seen."""
        faults = self._read_nodes(planned)
        unseen = {fault.node for fault in faults}
        seen = {n: f for n, f in self._observed.node_facts.items() if n not in unseen}
        self._observed = replace(self._observed, node_facts=seen)
        self._read_cluster()
        return [fault.reason for fault in faults if fault.node in planned.nodes]

    def _read_nodes(self, planned: PlannedStep) -> tuple[Fault, ...]:
        """Read the step's nodes again; why others could not be read, whose facts stay as seen."""
        site = self._desired.site
        look = self._ports.nodes.look([site.node(name) for name in planned.nodes])
        facts = {**self._observed.node_facts, **look.node_facts}
        self._observed = replace(self._observed, node_facts=facts)
        return look.faults

    def _read_cluster(self) -> None:
        """Read the API alone: what a cluster still lacks after a play mostly comes by itself."""
        cluster = self._ports.cluster.read(self._observed.node_facts)
        self._observed = replace(self._observed, cluster=cluster)

    def _is_last_test(self, step: Step) -> bool:
        """Whether pods test the network now: once in a run, when all nodes are there."""
        tested = [s.name for s in self._plan.steps if BY_NAME[s.name].tests == "pod network"]
        return step.name in tested[-1:]

    def _run_network_test(self, planned: PlannedStep) -> None:
        cluster = self._observed.cluster
        services = self._observed.node_facts[self._desired.site.services_node.name]
        image = pod_test_image(self._desired.site, services, BUSYBOX)
        if not isinstance(cluster, Cluster) or image is None:
            return
        ready = tuple(sorted(name for name, node in cluster.nodes.items() if node.ready))
        self._ports.observer.verifying(
            planned.name, "test pods on every node: image pull, pod network, service address, DNS"
        )
        faults = self._ports.cluster.run_network_test(ready, image, dns=True)
        if faults:
            raise StepNotVerified(
                f"step {planned.name} ran, but {faults[0]}",
                hint="check that UDP 8472 is open between the nodes, then run the same command "
                "again",
                details=faults[1:],
            )
