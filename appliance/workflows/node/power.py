"""Switch nodes on and off by their BMCs; each state is observed, and a wrong machine is refused.

Switching on takes no lock: the lock is on the control-plane nodes, which may be off themselves.
What must not be here: emptying a node (:mod:`appliance.workflows.node.maintain`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from threading import Event
from typing import TYPE_CHECKING

from appliance.errors import (
    ApplianceError,
    NodeUnreachable,
    PreflightFailed,
    StepNotVerified,
)
from appliance.model.node.bmc.orders import BmcMachine
from appliance.model.node.bmc.power import PowerOptions, refusals, sentence
from appliance.model.site.settings import Node, Site
from appliance.model.state.facts.identity import MachineIdentity, likeness
from appliance.model.state.journal import Run
from appliance.workflows.node.maintenance.at_once import STOP_SECONDS, at_once
from appliance.workflows.node.maintenance.surroundings import Surroundings, known_machines
from appliance.workflows.node.maintenance.switching import PowerChange, switch
from appliance.workflows.session.confirmation import is_late, require_as_shown, require_confirmed
from appliance.workflows.session.recording import Recorder

if TYPE_CHECKING:
    from appliance.model.control.lock import LockVerdict
    from appliance.workflows.node.maintenance.driving import BmcDriver
    from appliance.workflows.session.session import Session

COMMAND = "node power"


@dataclass(frozen=True)
class PowerRequest:
    """What was asked for, of which nodes."""

    site: Site
    nodes: tuple[Node, ...]
    options: PowerOptions
    run: Run
    dry_run: bool = False


@dataclass(frozen=True)
class NodePower:
    """One node's power.

    Attributes:
        machine: as its BMC reports it; None where it was not read.
        like: whether it is the accepted machine: ``same``, ``another`` or ``unknown``.
        reason: why it was not read; empty where it was.
        evidence: what was observed after the order; empty where there was none.
    """

    node: str
    machine: BmcMachine | None = None
    like: str = "unknown"
    reason: str = ""
    evidence: str = ""


@dataclass(frozen=True)
class PowerResult:
    """How it ended: the nodes, what was to be done in words, and whether it was done."""

    nodes: tuple[NodePower, ...]
    planned: tuple[str, ...] = ()
    done: bool = False


def node_power_status(
    nodes: Sequence[Node], session: Session, driver: BmcDriver
) -> tuple[NodePower, ...]:
    """The power of nodes as their BMCs report it. Changes nothing, and never raises."""
    known, _ = known_machines(session)
    return at_once(nodes, lambda node, _: _status(node, driver, known.get(node.name)))


def node_power(
    request: PowerRequest,
    session: Session,
    driver: BmcDriver,
    confirm: Callable[[Sequence[str]], bool],
) -> PowerResult:
    """Change the power of nodes, all at once, and observe the result.

    Raises:
        NodeUnreachable: a BMC was not reached; nothing was changed.
        PreflightFailed: a machine is the wrong one, or pods run on it; nothing was changed.
        Refused: not confirmed, or another command is at work; nothing was changed.
        StepNotVerified: the power of a node is not what was ordered; the others are named.
    """
    plan = _Plan(request, session, driver)
    observed_at = session.clock.monotonic()
    todo = [seen for seen in plan.seen if not seen.is_done(request.options)]
    if request.dry_run or not todo:
        return PowerResult(plan.states(), plan.sentences)
    require_confirmed(confirm(plan.sentences))
    with session.lock if request.options.takes_away and plan.answers else nullcontext():
        if is_late(session.clock, observed_at):
            now = _Plan(request, session, driver)
            what = "the answer came late, and the nodes changed since they were shown"
            require_as_shown(plan.sentences, now.sentences, what)
        done = plan.carry_out([seen.node for seen in todo])
    return PowerResult(done, plan.sentences, done=True)


def _status(node: Node, driver: BmcDriver, accepted: MachineIdentity | None) -> NodePower:
    try:
        with driver.open(node) as bmc:
            machine = bmc.machine()
    except ApplianceError as error:
        return NodePower(node.name, reason=error.message)
    like = likeness(accepted or MachineIdentity(), machine.identity)
    return NodePower(node.name, machine, like)


class _Plan:
    """What was seen of the nodes, and what is to be done."""

    def __init__(self, request: PowerRequest, session: Session, driver: BmcDriver) -> None:
        self._request, self._session, self._driver = request, session, driver
        around = Surroundings(*known_machines(session))
        self._unread, known = around.unread, around.known
        self._states = at_once(
            request.nodes, lambda node, _: _status(node, driver, known.get(node.name))
        )
        self._require_answers()
        answering = self._answering()
        if request.options.takes_away:
            around.look(request.site, request.nodes, session)
        self.answers = not around.unknown
        self.seen = tuple(
            around.seen(
                request.site,
                request.site.node(state.node),
                state.machine or BmcMachine(),
                answering.get(state.node, ""),
            )
            for state in self._states
        )
        self._refuse()
        self.sentences = tuple(sentence(seen, request.options) for seen in self.seen)

    def states(self) -> tuple[NodePower, ...]:
        """The nodes as they were seen."""
        return self._states

    def _require_answers(self) -> None:
        silent = [state for state in self._states if state.reason]
        if silent:
            raise NodeUnreachable(
                silent[0].reason,
                hint="correct it, or leave the node out; see all: appliance node power status",
                details=[state.reason for state in silent[1:]],
            )

    def _answering(self) -> dict[str, str]:
        """Node -> its address, of each that answers although its BMC reports power off.

        The BMC lies, or is another machine's: an order would change the power of that one.
        """
        asked = [
            self._request.site.node(state.node)
            for state in self._states
            if state.machine is not None and state.machine.power == "Off"
        ]
        found = at_once(asked, lambda node, _: self._session.power.answers(node))
        return {node.name: str(node.ip) for node, one in zip(asked, found, strict=True) if one}

    def _refuse(self) -> None:
        found = [one for seen in self.seen for one in refusals(seen, self._request.options)]
        if found:
            first, *others = found
            raise PreflightFailed(
                first.sentence(),
                hint=first.hint,
                details=[
                    *([f"no passport was read: {self._unread}"] if self._unread else []),
                    *(f"{other.sentence()}  hint: {other.hint}" for other in others),
                ],
            )

    def carry_out(self, names: Sequence[str]) -> tuple[NodePower, ...]:
        """Send the orders and observe their effect.

        Raises:
            StepNotVerified: of some nodes it was not observed; details name every node.
        """
        request, session = self._request, self._session
        unlocked = not (request.options.takes_away and self.answers)
        recorder = Recorder(request.run, replace(session, lock=Unlocked()) if unlocked else session)
        nodes = [node for node in request.nodes if node.name in names]
        why = [text for text in self.sentences if text.partition(":")[0] in names]
        with recorder.run_step(f"power: {request.options.verb}", names, why):
            done = at_once(nodes, self._switch, STOP_SECONDS)
            failed = [one for one in done if one.reason]
            if failed:
                raise StepNotVerified(
                    failed[0].reason,
                    hint="look at the node; then run the same command again: it does the rest",
                    details=[
                        *(one.reason for one in failed[1:]),
                        *(f"done: {one.node}: {one.evidence}" for one in done if not one.reason),
                    ],
                )
        kept = {one.node: one for one in done}
        return tuple(kept.get(state.node, state) for state in self._states)

    def _switch(self, node: Node, stop: Event) -> NodePower:
        seen = next(one for one in self.seen if one.node == node.name)
        options = self._request.options
        step = f"power: {options.verb}"
        change = PowerChange(node, options.orders, seen.machine.identity, step)
        try:
            machine, evidence = switch(change, self._session, self._driver, stop)
        except ApplianceError as error:
            return NodePower(node.name, reason=error.message)
        return NodePower(node.name, machine, "same", evidence=evidence)


class Unlocked:
    """In place of the site's lock, where the nodes that keep it are off."""

    def __enter__(self) -> object:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing was taken."""

    def require(self) -> tuple[str, ...]:
        """Nothing is taken."""
        return ()

    def look(self) -> LockVerdict:
        """Who holds it is not asked."""
        raise AssertionError("no lock is looked at")
