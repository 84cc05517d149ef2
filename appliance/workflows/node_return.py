"""Bring a node back into service: look, compare with the photograph, untaint, prove, uncordon.

Pods of users come last: the node is schedulable again only after a pod has proved its network, and
its GPUs where it has some. Only what we did is undone; somebody else's cordon or taint stays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from appliance.errors import NodeUnreachable, PreflightFailed, Refused, StepNotProven
from appliance.model.answering import answering_as
from appliance.model.facts import check_facts
from appliance.model.hardware_facts import Difference, compare, hardware_facts
from appliance.model.judging import judge
from appliance.model.photograph import Photograph, photograph_digest
from appliance.model.plan import PlannedStep
from appliance.model.postconditions import Observed
from appliance.model.proof_image import BUSYBOX, proof_image
from appliance.model.steps import BY_NAME
from appliance.model.strict_json import read_json
from appliance.workflows.gpu_proof import prove_gpus
from appliance.workflows.marks import Marks
from appliance.workflows.patience import Patience
from appliance.workflows.recording import Recorder

if TYPE_CHECKING:
    from appliance.model.answering import Answering
    from appliance.model.desired import Desired
    from appliance.model.journal import Run
    from appliance.model.maintenance import Maintenance
    from appliance.model.observation import DrainView, Look
    from appliance.model.site import Node
    from appliance.workflows.ports import (
        Archive,
        Clock,
        ClusterApi,
        Drain,
        JournalPort,
        Nodes,
        Observer,
    )

POLL_SECONDS = 1.0
SSH_SECONDS = 600.0
# A driver in a container is compiled on the node.
DRIVER_SECONDS = 900.0
READY_SECONDS = 180.0
# How old the first look may be to serve as one after the untaint.
FRESH_SECONDS = 10.0
# Steps whose post-condition a member in service meets.
PROVED_BY = ("workers", "network", "gpu")


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
class ReturnPorts:
    """Everything outside that a return needs."""

    drain: Drain
    nodes: Nodes
    cluster: ClusterApi
    archive: Archive
    journal: JournalPort
    clock: Clock
    observer: Observer
    confirm: Callable[[Maintenance, Sequence[Difference], Answering], bool]
    refused: Callable[[Sequence[Difference]], None] = lambda _: None
    """Is shown all differences when one of them refuses the return."""


@dataclass(frozen=True)
class Returned:
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


def node_return(request: ReturnRequest, ports: ReturnPorts) -> Returned:
    """Bring a node back, or say what keeps it out.

    Raises:
        NodeUnreachable: the API, or the node, does not answer; nothing was changed.
        PreflightFailed: something of the machine is not as it was; nothing was changed.
        Refused: not confirmed, or another command is at work; nothing was changed.
        LeaseLost: another command took the site over, or marked the node; it is left as it is.
        StepNotProven: a part of the node does not come back; it stays cordoned.
    """
    began = ports.clock.monotonic()
    look = ports.nodes.look(_concerned(request))
    view = ports.drain.view(request.node.name)
    mark = view.maintenance
    if mark is None:
        _refuse_foreign(view)
        return Returned(None)
    photograph = _wait_for_node(request, ports, look)
    differences = _differences(request, ports, mark, photograph)
    _refuse_losses(request, ports, differences)
    if request.dry_run:
        return Returned(mark, differences)
    if not ports.confirm(mark, differences, answering_as(request.node, photograph)):
        raise Refused("not confirmed: nothing was changed", hint="answer yes, or pass --yes")
    seen = request.node.name in look.photographs
    fresh = look if seen and ports.clock.monotonic() < began + FRESH_SECONDS else None
    _Run(request, ports, mark, photograph, fresh).carry_out()
    took = ports.clock.monotonic() - began
    return Returned(mark, differences, mark.overrun_seconds(ports.clock.now()), took)


def _concerned(request: ReturnRequest) -> list[Node]:
    """The node, and those without which nothing can be said of it."""
    site = request.desired.site
    return list(dict.fromkeys([request.node, site.services_node, *site.control_plane]))


def _refuse_foreign(view: DrainView) -> None:
    """A node that somebody else took out of service is theirs to bring back."""
    commands = []
    if view.unschedulable:
        commands.append(f"kubectl uncordon {view.node}")
    if view.tainted:
        commands.append(f"kubectl taint nodes {view.node} runai:NoExecute-")
    if commands:
        what = "cordoned" if view.unschedulable else "tainted"
        raise PreflightFailed(
            f"{view.node}: found it {what} by somebody else, expected a maintenance of ours",
            hint=f"when its owner agrees: {' && '.join(commands)}",
        )


def _wait_for_node(request: ReturnRequest, ports: ReturnPorts, look: Look) -> Photograph:
    """The node's photograph in ``look``, or one as soon as it answers.

    Raises:
        NodeUnreachable: it does not, for as long as was asked for.
    """
    patience = Patience(ports.clock, request.wait_seconds)
    while request.node.name not in look.photographs:
        fault = next(fault for fault in look.faults if fault.node == request.node.name)
        if patience.is_over():
            raise NodeUnreachable(fault.reason, hint=fault.hint)
        ports.observer.note(f"waiting for {request.node.name}: {fault.reason}")
        ports.clock.sleep(5 * POLL_SECONDS)
        look = ports.nodes.look([request.node])
    return look.photographs[request.node.name]


def _differences(
    request: ReturnRequest, ports: ReturnPorts, mark: Maintenance, photograph: Photograph
) -> tuple[Difference, ...]:
    """Compare with the photograph before; the driver is given time to load first.

    Raises:
        PreflightFailed: the photograph is nowhere to be had, and that was not acknowledged.
    """
    before = _before(request, ports, mark)
    if before is None:
        return ()
    was, patience = hardware_facts(before), Patience(ports.clock, DRIVER_SECONDS)
    while True:
        found = compare(was, hardware_facts(photograph))
        late = any(d.name == "driver" and d.seen is None for d in found)
        if not late or request.dry_run or patience.is_over():
            return found
        ports.observer.note(f"waiting for NVIDIA's driver on {request.node.name}")
        ports.clock.sleep(10 * POLL_SECONDS)
        photograph = _wait_for_node(request, ports, ports.nodes.look([request.node]))


def _before(request: ReturnRequest, ports: ReturnPorts, mark: Maintenance) -> Photograph | None:
    name = request.node.name
    if mark.photograph is None:
        ports.observer.note(f"{name} was lost: there is no photograph of the day before to compare")
        return None
    before = _kept(ports.archive.get(mark.photograph))
    if before is not None:
        return before
    # Killed before it was kept: then nothing was done to the machine either.
    if mark.phase == "cordon" or "photograph" in request.acknowledged:
        return None
    raise PreflightFailed(
        f"{name}: found no photograph {mark.photograph} on the control-plane nodes, expected the "
        "one taken before the maintenance",
        hint=f"look at the machine yourself, then: appliance node return {name} "
        "--acknowledge photograph",
    )


def _kept(text: str | None) -> Photograph | None:
    """A photograph as the archive has it; None when it has none, or not the whole of it."""
    try:
        kept = read_json(text or "")
        received_at = kept["received_at"]
        at = None if received_at is None else float(received_at)
        return check_facts(kept["document"], at)
    except (ValueError, KeyError, TypeError):
        return None


def _refuse_losses(
    request: ReturnRequest, ports: ReturnPorts, differences: Sequence[Difference]
) -> None:
    losses = [d for d in differences if d.is_loss and d.name not in request.acknowledged]
    if losses:
        name = request.node.name
        ports.refused(differences)
        words = " ".join(f"--acknowledge {loss.name}" for loss in losses)
        raise PreflightFailed(
            f"{name}: {losses[0].sentence()}",
            hint=f"put it right and run the same command; to accept it: appliance node return "
            f"{name} {words}",
            details=[f"{name}: {loss.sentence()}" for loss in losses[1:]],
        )


class _Run:
    """One return, after everything that could refuse it."""

    def __init__(
        self,
        request: ReturnRequest,
        ports: ReturnPorts,
        mark: Maintenance,
        photograph: Photograph,
        fresh: Look | None,
    ) -> None:
        self._request = request
        self._ports = ports
        self._mark = mark
        self._photograph = photograph
        # The first look is as good as another one, if it was made just now.
        self._fresh = fresh
        self._name = request.node.name
        self._recorder = Recorder(request.run, ports.journal, ports.clock)
        self._marks = Marks(ports.drain, self._recorder.begin, self._name, mark)

    def carry_out(self) -> None:
        self._step("untaint", "the network and the GPU stack are to come back", self._untaint)
        self._step("prove", "nobody's pod is to meet a broken node", self._prove)
        self._step("uncordon", "it is proved", self._uncordon)

    def _step(self, name: str, why: str, act: Callable[[], None]) -> None:
        whose, reasons = (self._name,), (f"{self._name}: {why}",)
        observer = self._ports.observer
        with self._recorder.shown(observer, f"return: {name}", whose, reasons) as evidence:
            evidence.before = {self._name: photograph_digest(self._photograph)}
            act()

    def _untaint(self) -> None:
        # Whether the cordon is ours is in the mark; until the end it keeps users' pods away.
        # It answered, so an order to power off says nothing of it any more.
        mark = replace(self._mark.at("return"), ordered=None)
        self._marks.write(mark)
        if self._mark.tainted:
            self._marks.taint(on=False)

    def _prove(self) -> None:
        observed = self._wait_until_whole()
        planned = PlannedStep("return: prove", (self._name,), ())
        prove_gpus(
            planned,
            self._request.desired,
            observed,
            self._ports,
            meanwhile=lambda: self._prove_network(observed),
        )

    def _prove_network(self, observed: Observed) -> None:
        site = self._request.desired.site
        image = proof_image(site, observed.photographs[site.services_node.name], BUSYBOX)
        if image is None:
            note = "no pod proved its network: the registry has no image for one"
            self._ports.observer.note(f"{self._name}: {note}")
        else:
            self._ports.observer.verifying("return: prove", "a pod on it to reach others")
            peers = [self._name, *self._a_peer(observed)]
            if faults := self._ports.cluster.prove(peers, image):
                raise StepNotProven(
                    f"{self._name}: {faults[0]}",
                    hint="it stays cordoned; see appliance status, then run the same command again",
                    details=faults[1:],
                )

    def _wait_until_whole(self) -> Observed:
        """Look until the post-conditions of a member in service are observed on the node."""
        ports, desired = self._ports, self._request.desired
        seconds = [READY_SECONDS, *(BY_NAME[step].patience_seconds for step in self._steps())]
        patience = Patience(ports.clock, max(seconds))
        while True:
            observed, faults = self._look()
            only = frozenset({self._name})
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
                raise StepNotProven(
                    f"the return is not proved: {open_points[0]}",
                    hint="it stays cordoned; see appliance status, then run the same command again",
                    details=open_points[1:],
                )
            ports.observer.verifying("return: prove", open_points[0])
            ports.clock.sleep(POLL_SECONDS)

    def _steps(self) -> tuple[str, ...]:
        """The steps that concern this node, on a site that has them."""
        site = self._request.desired.site
        return tuple(name for name in PROVED_BY if self._request.node in BY_NAME[name].nodes(site))

    def _look(self) -> tuple[Observed, list[str]]:
        site = self._request.desired.site
        look = self._fresh or self._ports.nodes.look(_concerned(self._request))
        self._fresh = None
        observed = Observed(look.photographs, self._ports.cluster.read(look.photographs))
        # Of the others only the node with the registry is needed: its images prove this one.
        needed = (self._name, site.services_node.name)
        return observed, [fault.reason for fault in look.faults if fault.node in needed]

    def _a_peer(self, observed: Observed) -> list[str]:
        """Another Ready member to talk to, or none."""
        members = getattr(observed.cluster, "nodes", {})
        return [n for n, node in members.items() if n != self._name and node.ready][:1]

    def _uncordon(self) -> None:
        self._marks.clear(uncordon=self._mark.cordoned)
