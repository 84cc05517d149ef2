"""Bring a node back into service: inspect, compare with saved facts, untaint, test, uncordon.

Pods of users come last: the node is schedulable again only after a pod has tested its network, and
its GPUs where it has some. Only our own changes are undone; a cordon or taint of others stays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from appliance.errors import NodeUnreachable, PreflightFailed, StepNotVerified
from appliance.model.components.network.unmet import dns_waits_for
from appliance.model.documents.strict_json import read_json
from appliance.model.node.answering import AnsweringMachine, answering_as
from appliance.model.plan.judging import judge
from appliance.model.plan.steps import BY_NAME, INSTALL
from appliance.model.plan.test_image import BUSYBOX, pod_test_image
from appliance.model.plan.under_upgrade import renewed_later
from appliance.model.site.settings import Node
from appliance.model.state.cluster.cluster import Cluster
from appliance.model.state.desired import Desired
from appliance.model.state.facts.facts import NodeFacts, facts_digest
from appliance.model.state.facts.hardware import Difference, compare, hardware_facts
from appliance.model.state.facts.reader import check_facts
from appliance.model.state.journal import Run
from appliance.model.state.nodes.maintenance import Maintenance
from appliance.model.state.observed import Look, Observed
from appliance.model.state.plan import PlannedStep
from appliance.model.state.upgrade import REASON
from appliance.workflows.node.maintenance.agreed import Shown, shown_return
from appliance.workflows.node.maintenance.marks import Marks
from appliance.workflows.session.confirmation import is_late, require_confirmed
from appliance.workflows.session.gpu_test import require_gpus
from appliance.workflows.session.patience import Patience
from appliance.workflows.session.recording import Recorder

if TYPE_CHECKING:
    from appliance.model.node.drain import DrainView
    from appliance.workflows.session.session import Session

POLL_SECONDS = 1.0
SSH_SECONDS = 600.0
# A driver in a container is compiled on the node.
DRIVER_SECONDS = 900.0
READY_SECONDS = 180.0


@dataclass(frozen=True)
class ReturnRequest:
    """What was asked for.

    Attributes:
        acknowledged: names of facts whose loss is accepted, e.g. ``dimm:A1``.
        wait_seconds: how long the node may take to answer.
    """

    desired: Desired
    node: Node
    run: Run
    acknowledged: frozenset[str] = frozenset()
    wait_seconds: float = SSH_SECONDS
    dry_run: bool = False


@dataclass(frozen=True)
class ReturnResult:
    """How it ended.

    Attributes:
        maintenance: what stood on the node; None when it was in service already.
        differences: what is not as it was before.
        overrun_seconds: how long the window was over at the end; None without a window.
        took_seconds: from the order to the node in service.
    """

    maintenance: Maintenance | None
    differences: tuple[Difference, ...] = ()
    overrun_seconds: float | None = None
    took_seconds: float | None = None


def node_return(
    request: ReturnRequest,
    session: Session,
    confirm: Callable[[Maintenance, Sequence[Difference], AnsweringMachine], bool],
    refused: Callable[[Sequence[Difference]], None] = lambda _: None,
    wake: Callable[[Node], None] = lambda _: None,
) -> ReturnResult:
    """Bring a node back, or say what prevents that.

    Args:
        request: what was asked for.
        session: the session.
        confirm: is shown what stands on the node, what differs, and the machine that answers.
        refused: is shown all differences when one of them refuses the return.
        wake: may switch on a node that does not answer.

    Raises:
        NodeUnreachable: the API, or the node, does not answer; nothing was changed.
        PreflightFailed: something of the machine is not as it was; nothing was changed.
        Refused: not confirmed, or another command is at work; nothing was changed.
        LeaseLost: another command took the site over, or marked the node; it is left as it is.
        StepNotVerified: a part of the node does not work; the node stays cordoned.
    """
    began = session.clock.monotonic()
    look = session.nodes.look(_concerned(request))
    view = session.drain.view(request.node.name)
    mark = view.maintenance
    if mark is None:
        _refuse_foreign(view)
        return ReturnResult(None)
    if request.node.name not in look.node_facts and not request.dry_run:
        wake(request.node)
    facts = _wait_for_node(request, session, look)
    differences = _differences(request, session, mark, facts)
    _refuse_lost_parts(request, refused, differences)
    if request.dry_run:
        return ReturnResult(mark, differences)
    machine, observed_at = answering_as(request.node, facts), session.clock.monotonic()
    require_confirmed(confirm(mark, differences, machine))
    seen = request.node.name in look.node_facts
    fresh = look if seen and not is_late(session.clock, began) else None
    with session.lock:
        if is_late(session.clock, observed_at):
            shown = shown_return(mark, differences, machine)
            facts, fresh = _as_shown(request, session, shown, refused)
        _Run(request, session, mark, facts, fresh).carry_out()
        took = session.clock.monotonic() - began
        overrun = mark.overrun_seconds(session.clock.now())
    return ReturnResult(mark, differences, overrun, took)


def _as_shown(
    request: ReturnRequest,
    session: Session,
    shown: Shown,
    refused: Callable[[Sequence[Difference]], None],
) -> tuple[NodeFacts, Look | None]:
    """The facts under the lock, and the look they are of, where nothing changed meanwhile.

    Raises:
        NodeUnreachable, PreflightFailed, Refused: it did; nothing was changed.
    """
    look = session.nodes.look(_concerned(request))
    mark = session.drain.view(request.node.name).maintenance
    facts = _wait_for_node(request, session, look)
    differences = _differences(request, session, mark, facts) if mark else ()
    _refuse_lost_parts(request, refused, differences)
    shown.require(shown_return(mark, differences, answering_as(request.node, facts)), request.run)
    return facts, look if request.node.name in look.node_facts else None


def _concerned(request: ReturnRequest) -> list[Node]:
    """The node, and the nodes whose facts its checks need."""
    site = request.desired.site
    return list(dict.fromkeys([request.node, site.services_node, *site.control_plane]))


def _refuse_foreign(view: DrainView) -> None:
    """Refuse a node that another person took out of service."""
    commands = []
    if view.unschedulable:
        commands.append(f"kubectl uncordon {view.node}")
    if view.tainted:
        commands.append(f"kubectl taint nodes {view.node} runai:NoExecute-")
    if commands:
        what = "cordoned" if view.unschedulable else "tainted"
        raise PreflightFailed(
            f"{view.node}: found it {what}, but not by 'appliance node maintain'",
            hint=f"if the person who did that agrees: {' && '.join(commands)}",
        )


def _wait_for_node(request: ReturnRequest, session: Session, look: Look) -> NodeFacts:
    """The node's facts in ``look``, or as soon as it answers.

    Raises:
        NodeUnreachable: it did not answer within the time of ``--wait``.
    """
    patience = Patience(session.clock, request.wait_seconds)
    while request.node.name not in look.node_facts:
        fault = next(fault for fault in look.faults if fault.node == request.node.name)
        if patience.is_over():
            raise NodeUnreachable(fault.reason, hint=fault.hint)
        session.observer.note(f"waiting for {request.node.name}: {fault.reason}")
        session.clock.sleep(5 * POLL_SECONDS)
        look = session.nodes.look([request.node])
    return look.node_facts[request.node.name]


def _differences(
    request: ReturnRequest, session: Session, mark: Maintenance, facts: NodeFacts
) -> tuple[Difference, ...]:
    """Compare with the facts before; the driver is given time to load first.

    Raises:
        PreflightFailed: the earlier facts are missing, and that was not acknowledged.
    """
    before = _before(request, session, mark)
    if before is None:
        return ()
    was, patience = hardware_facts(before), Patience(session.clock, DRIVER_SECONDS)
    while True:
        found = compare(was, hardware_facts(facts))
        late = any(d.name == "driver" and d.seen is None for d in found)
        if not late or request.dry_run or patience.is_over():
            return found
        session.observer.note(f"waiting for NVIDIA's driver on {request.node.name}")
        session.clock.sleep(10 * POLL_SECONDS)
        facts = _wait_for_node(request, session, session.nodes.look([request.node]))


def _before(request: ReturnRequest, session: Session, mark: Maintenance) -> NodeFacts | None:
    name = request.node.name
    if mark.photograph is None:
        session.observer.note(f"{name} was marked lost: there are no earlier facts to compare with")
        return None
    before = _kept(session.archive.get(mark.photograph))
    if before is not None:
        return before
    # Killed before it was kept: then nothing was done to the machine either.
    if mark.phase == "cordon" or {"facts", "photograph"} & set(request.acknowledged):
        return None
    raise PreflightFailed(
        f"{name}: the facts saved before the maintenance are missing on the control-plane nodes: "
        f"{mark.photograph}",
        hint=f"check the machine's hardware yourself, then: appliance node return {name} "
        "--acknowledge facts",
    )


def _kept(text: str | None) -> NodeFacts | None:
    """Facts from the archive; None if they are missing or incomplete."""
    try:
        kept = read_json(text or "")
        received_at = kept["received_at"]
        at = None if received_at is None else float(received_at)
        return check_facts(kept["document"], at)
    except (ValueError, KeyError, TypeError):
        return None


def _refuse_lost_parts(
    request: ReturnRequest,
    refused: Callable[[Sequence[Difference]], None],
    differences: Sequence[Difference],
) -> None:
    losses = [d for d in differences if d.is_loss and d.name not in request.acknowledged]
    if losses:
        name = request.node.name
        refused(differences)
        words = " ".join(f"--acknowledge {loss.name}" for loss in losses)
        raise PreflightFailed(
            f"{name}: {losses[0].sentence()}",
            hint="fix it and run the same command again; to accept it: appliance node return "
            f"{name} {words}",
            details=[f"{name}: {loss.sentence()}" for loss in losses[1:]],
        )


class _Run:
    """One return, after everything that could refuse it."""

    def __init__(
        self,
        request: ReturnRequest,
        session: Session,
        mark: Maintenance,
        facts: NodeFacts,
        fresh: Look | None,
    ) -> None:
        self._request = request
        self._session = session
        self._mark = mark
        self._read_facts = facts
        # The first look is as good as another one, if it was made just now.
        self._fresh = fresh
        self._name = request.node.name
        self._recorder = Recorder(request.run, session)
        self._marks = Marks(session.drain, self._recorder.begin, self._name, mark)

    def carry_out(self) -> None:
        self._step("untaint", "the pod network and the GPU stack start again", self._untaint)
        self._step("test", "the node is tested before pods of users start on it", self._test)
        self._step("uncordon", "its tests passed", self._uncordon)

    def _step(self, name: str, why: str, act: Callable[[], None]) -> None:
        with self._recorder.on_node(f"return: {name}", self._name, why) as evidence:
            evidence.before = {self._name: facts_digest(self._read_facts)}
            act()

    def _untaint(self) -> None:
        # Whether the cordon is ours is in the mark; until the end it keeps users' pods away.
        # It answered, so an order to power off says nothing of it any more.
        mark = replace(self._mark.at("return"), ordered=None)
        self._marks.write(mark)
        if self._mark.tainted:
            self._marks.taint(on=False)

    def _test(self) -> None:
        observed = self._wait_until_whole()
        planned = PlannedStep("return: test", (self._name,), ())
        require_gpus(
            planned,
            self._request.desired,
            observed,
            self._session,
            meanwhile=lambda: self._run_network_test(observed),
        )

    def _run_network_test(self, observed: Observed) -> None:
        site = self._request.desired.site
        image = pod_test_image(site, observed.node_facts[site.services_node.name], BUSYBOX)
        if image is None:
            note = "its pod network was not tested: the registry has no image for a test pod"
            self._session.observer.note(f"{self._name}: {note}")
        else:
            self._session.observer.verifying("return: test", "a test pod on it: pod network")
            peers, cluster = [self._name, *self._a_peer(observed)], observed.cluster
            dns = not (isinstance(cluster, Cluster) and dns_waits_for(self._name, cluster))
            if not dns:
                note = "the cluster's DNS was not tested: it has no place before the node is back"
                self._session.observer.note(f"{self._name}: {note}")
            if faults := self._session.cluster.run_network_test(peers, image, dns=dns):
                raise StepNotVerified(
                    f"{self._name}: {faults[0]}",
                    hint="the node stays cordoned; see appliance status, then run it again",
                    details=faults[1:],
                )

    def _wait_until_whole(self) -> Observed:
        """Look until the post-conditions of a member in service are observed on the node."""
        session = self._session
        seconds = [READY_SECONDS, *(BY_NAME[step].patience_seconds for step in self._steps())]
        patience = Patience(session.clock, max(seconds))
        while True:
            observed, faults = self._look()
            only, desired = frozenset({self._name}), self._judged_by(observed)
            open_points = [
                *faults,
                *(
                    sentence
                    for step in self._steps()
                    for sentence in judge(BY_NAME[step], desired, observed, only).sentences()
                ),
            ]
            if not open_points:
                return observed
            if patience.is_over():
                raise StepNotVerified(
                    f"{self._name}: not ready for service: {open_points[0]}",
                    hint="the node stays cordoned; see appliance status, then run it again",
                    details=open_points[1:],
                )
            session.observer.verifying("return: test", open_points[0])
            session.clock.sleep(POLL_SECONDS)

    def _judged_by(self, observed: Observed) -> Desired:
        """What is asked of the node: not the release where an upgrade renews it later.

        Otherwise a node that a person maintains meanwhile could neither return nor be upgraded.
        Nor the GPU stack of a bundle: ``gpu upgrade`` brings it, after Kubernetes has its release.
        """
        ours = self._mark.reason.startswith(REASON)
        lags = not ours and renewed_later(self._name, observed.cluster)
        lagging = self._request.desired.lagging | frozenset({self._name} if lags else ())
        return replace(self._request.desired, lagging=lagging, manifest=None)

    def _steps(self) -> tuple[str, ...]:
        """The steps that concern this node, on a site that has them."""
        site = self._request.desired.site
        node = self._request.node
        return tuple(s.name for s in INSTALL if s.in_service and node in s.nodes(site))

    def _look(self) -> tuple[Observed, list[str]]:
        site = self._request.desired.site
        look = self._fresh or self._session.nodes.look(_concerned(self._request))
        self._fresh = None
        observed = Observed(
            look.node_facts, self._session.cluster.read(look.node_facts), look.faults
        )
        # Of the others only the node with the registry is needed: its images test this one.
        needed = (self._name, site.services_node.name)
        return observed, [fault.reason for fault in look.faults if fault.node in needed]

    def _a_peer(self, observed: Observed) -> list[str]:
        """Another Ready member to talk to, or none."""
        members = getattr(observed.cluster, "nodes", {})
        return [n for n, node in members.items() if n != self._name and node.ready][:1]

    def _uncordon(self) -> None:
        self._marks.clear(uncordon=self._mark.cordoned)
