"""Bring a node back into service: inspect, compare with saved facts, untaint, test, uncordon.

Pods of users come last: the node is schedulable again only after a pod has tested its network, and
its GPUs where it has some. Only our own changes are undone; a cordon or taint of others stays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from appliance.errors import (
    ApplianceError,
    Interrupted,
    LeaseLost,
    NodeUnreachable,
    PreflightFailed,
)
from appliance.model.documents.strict_json import read_json
from appliance.model.node.answering import AnsweringMachine, answering_as
from appliance.model.site.settings import Node
from appliance.model.state.desired import Desired
from appliance.model.state.facts.facts import NodeFacts
from appliance.model.state.facts.hardware import Difference, compare, hardware_facts
from appliance.model.state.facts.reader import check_facts
from appliance.model.state.journal import Run
from appliance.model.state.nodes.maintenance import Maintenance
from appliance.model.state.observed import Look
from appliance.workflows.node.maintenance.agreed import Shown, shown_return
from appliance.workflows.node.maintenance.bringing_back import (
    POLL_SECONDS,
    BringingBack,
    Returning,
    concerned,
    unready,
)
from appliance.workflows.node.maintenance.taking_out import as_error
from appliance.workflows.session.confirmation import is_late, require_confirmed
from appliance.workflows.session.patience import Patience

if TYPE_CHECKING:
    from appliance.model.node.drain import DrainView
    from appliance.workflows.session.session import Session

SSH_SECONDS = 600.0
# A driver in a container is compiled on the node.
DRIVER_SECONDS = 900.0


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
    look = session.nodes.look(concerned(request.desired.site, [request.node]))
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
        node = Returning(request.node, mark, facts)
        BringingBack(request.desired, request.run, session, [node], fresh).carry_out()
        took = session.clock.monotonic() - began
        overrun = mark.overrun_seconds(session.clock.now())
    return ReturnResult(mark, differences, overrun, took)


def nodes_return(
    requests: Sequence[ReturnRequest], session: Session
) -> Mapping[str, ApplianceError]:
    """Bring a batch of nodes back at the same time; node -> why it stays out.

    What one node lacks keeps no other out. Where the joint test does not say which node is at
    fault, each is tested alone.

    Args:
        requests: one for each node, of one run.
        session: the session.

    Raises:
        LeaseLost: another command took the site over, or marked a node; they are left as they are.
    """
    failed: dict[str, ApplianceError] = {}
    back: Sequence[str] = ()
    if len(requests) > 1:
        try:
            back = _return_together(requests, session, failed)
        except Interrupted:
            return failed
    done = (*failed, *back)
    _return_alone([one for one in requests if one.node.name not in done], session, failed)
    return failed


def _return_alone(
    requests: Sequence[ReturnRequest], session: Session, failed: dict[str, ApplianceError]
) -> None:
    """Bring one node after the other back; after Ctrl-C no further one is tried."""
    for number, request in enumerate(requests):
        try:
            node_return(request, session, lambda *_: True)
        except LeaseLost:
            raise
        except (Interrupted, KeyboardInterrupt) as stopped:
            error = as_error(stopped)
            failed.update({one.node.name: error for one in requests[number:]})
            return
        except ApplianceError as fault:
            failed[request.node.name] = fault


def _return_together(
    requests: Sequence[ReturnRequest], session: Session, failed: dict[str, ApplianceError]
) -> Sequence[str]:
    """The nodes that are back by one joint return; ``failed`` takes the errors that are final.

    Raises:
        LeaseLost: another command took the site over, or marked a node.
        Interrupted: the operator pressed Ctrl-C; it is the error of every node that is not back
            and has no other.
    """
    back = None
    try:
        nodes, look = _answering(requests, session, failed)
        if len(nodes) < 2:
            return ()
        back = BringingBack(requests[0].desired, requests[0].run, session, nodes, look)
        with session.lock:
            back.carry_out()
    except LeaseLost:
        raise
    except (Interrupted, KeyboardInterrupt) as stopped:
        done, error = (*failed, *(back.back if back else ())), as_error(stopped)
        failed |= {r.node.name: error for r in requests if r.node.name not in done}
        raise error from None
    except ApplianceError:
        # Each node that may be without fault is tried alone, and says what it lacks.
        for name, points in back.unready.items() if back else ():
            failed[name] = unready(name, points)
    return back.back if back else ()


def _answering(
    requests: Sequence[ReturnRequest], session: Session, failed: dict[str, ApplianceError]
) -> tuple[list[Returning], Look | None]:
    """The nodes that answer and may come back, and the look; ``failed`` takes the others' errors.

    One that does not answer, or is in service, is left for later: it would hold up the others.
    """
    began = session.clock.monotonic()
    nodes = [request.node for request in requests]
    look = session.nodes.look(concerned(requests[0].desired.site, nodes))
    views = session.drain.views([node.name for node in nodes])
    found = []
    for request in requests:
        name = request.node.name
        mark, facts = views[name].maintenance, look.node_facts.get(name)
        if mark is None or facts is None:
            continue
        try:
            _refuse_lost_parts(request, lambda _: None, _differences(request, session, mark, facts))
        except LeaseLost:
            raise
        except ApplianceError as error:
            failed[name] = error
        else:
            found.append(Returning(request.node, mark, facts))
    return found, None if is_late(session.clock, began) else look


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
    look = session.nodes.look(concerned(request.desired.site, [request.node]))
    mark = session.drain.view(request.node.name).maintenance
    facts = _wait_for_node(request, session, look)
    differences = _differences(request, session, mark, facts) if mark else ()
    _refuse_lost_parts(request, refused, differences)
    shown.require(shown_return(mark, differences, answering_as(request.node, facts)), request.run)
    return facts, look if request.node.name in look.node_facts else None


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
