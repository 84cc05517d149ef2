"""Switch nodes on and off by their BMCs; each state is observed, and a wrong machine is refused.

Switching on takes no lock: the lock is on the control-plane nodes, which may be off themselves.
What must not be here: emptying a node (:mod:`appliance.workflows.node.maintain`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import nullcontext
from dataclasses import dataclass, replace
from threading import Event
from typing import TYPE_CHECKING

from appliance.errors import (
    ApplianceError,
    ClusterError,
    NodeUnreachable,
    PreflightFailed,
    StepNotVerified,
)
from appliance.model.node.accepted import accepted_of
from appliance.model.node.bmc.orders import BmcMachine
from appliance.model.node.bmc.power import PowerOptions, PowerSeen, refusals, sentence
from appliance.model.node.drain import Forecast, forecast
from appliance.model.site import groups
from appliance.model.site.settings import Node, Site
from appliance.model.state.cluster.cluster import Cluster, ClusterNode, NoCluster, Unreachable
from appliance.model.state.facts.identity import MachineIdentity, likeness
from appliance.model.state.journal import Run
from appliance.workflows.node.baselines import read_passports
from appliance.workflows.session.confirmation import is_late, require_as_shown, require_confirmed
from appliance.workflows.session.recording import Recorder
from appliance.workflows.session.survey import observe

if TYPE_CHECKING:
    from appliance.model.control.lock import LockVerdict
    from appliance.workflows.node.maintenance.driving import BmcDriver
    from appliance.workflows.session.session import Session

COMMAND = "node power"
MOST_AT_ONCE = 64
# How long a machine whose BMC reports power off may still answer.
SILENCE_SECONDS = 10.0
_POLL_SECONDS = 1.0
# For what is on its way after Ctrl-C: a poll and one answer of a BMC.
STOP_SECONDS = 15.0


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
    known, _ = _known(session)
    return _at_once(nodes, lambda node: _status(node, driver, known.get(node.name)))


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


def _known(session: Session) -> tuple[Mapping[str, MachineIdentity], str]:
    """Node -> the machine of its passport; and why there is none to read."""
    try:
        passports = read_passports(session.archive)
    except NodeUnreachable as error:
        return {}, error.message
    return {name: passport.machine for name, passport in passports.items()}, ""


def _at_once(nodes: Sequence[Node], do: Callable[[Node], NodePower]) -> tuple[NodePower, ...]:
    """The same of every node, in threads: one BMC that hangs holds nobody up."""
    pool = ThreadPoolExecutor(max_workers=MOST_AT_ONCE)
    try:
        return tuple(pool.map(do, nodes))
    finally:
        # After Ctrl-C nobody waits for answers; connections end by their time limit.
        pool.shutdown(wait=False, cancel_futures=True)


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
        known, self._unread = _known(session)
        self._states = _at_once(
            request.nodes, lambda node: _status(node, driver, known.get(node.name))
        )
        self._require_answers()
        forecasts: dict[str, Forecast] = {}
        self.answers, unknown = True, ""
        self._members: Mapping[str, ClusterNode] = {}
        self._is_served = False
        answering = self._answering()
        if request.options.takes_away:
            forecasts, unknown = self._pods()
            self.answers = not unknown
        self.seen = tuple(
            PowerSeen(
                state.node,
                state.machine or BmcMachine(),
                self._accepted(state.node, known),
                {name: one for name, one in known.items() if name != state.node},
                forecasts.get(state.node),
                unknown,
                self._serves(request.site.node(state.node)),
                answering.get(state.node, ""),
            )
            for state in self._states
        )
        self._refuse()
        self.sentences = tuple(sentence(seen, request.options) for seen in self.seen)

    def _accepted(self, name: str, known: Mapping[str, MachineIdentity]) -> MachineIdentity:
        """The machine of the passport, else the one that the Node object names."""
        return accepted_of(name, self._members.get(name), known.get(name)).machine

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
        with ThreadPoolExecutor(max_workers=MOST_AT_ONCE) as pool:
            found = list(pool.map(self._session.power.answers, asked))
        return {node.name: str(node.ip) for node, one in zip(asked, found, strict=True) if one}

    def _pods(self) -> tuple[dict[str, Forecast], str]:
        """Node -> what maintenance would do; and why nobody knows the pods."""
        session, site = self._session, self._request.site
        observed, _ = observe(site, session.nodes, session.cluster)
        self._is_served = not isinstance(observed.cluster, NoCluster)
        if isinstance(observed.cluster, Unreachable):
            return {}, observed.cluster.reason
        if not isinstance(observed.cluster, Cluster):
            return {}, ""
        self._members = observed.cluster.nodes
        names = [node.name for node in self._request.nodes if node.name in self._members]
        try:
            views = session.drain.views(names) if names else {}
        except (ClusterError, NodeUnreachable) as error:
            return {}, error.message
        return {
            name: forecast(name, view.pods, view.budgets, _without(view.nodes, names, name))
            for name, view in views.items()
        }, ""

    def _serves(self, node: Node) -> str:
        """What the cluster has from a node beside pods; nothing before there is a cluster."""
        if not self._is_served:
            return ""
        nfs = self._request.site.settings.nfs
        if nfs is not None and str(nfs.server) in (node.name, str(node.ip)):
            return "it is the NFS server: volumes would hang"
        if groups.SERVICES in node.groups:
            return "it serves the registry: no node could pull an image"
        return ""

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
            done = self._switch_all(nodes)
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

    def _switch_all(self, nodes: Sequence[Node]) -> tuple[NodePower, ...]:
        """Switch all at once. After Ctrl-C no order is sent: the lock is soon another's."""
        stop, pool = Event(), ThreadPoolExecutor(max_workers=MOST_AT_ONCE)
        futures = [pool.submit(self._switch, node, stop) for node in nodes]
        try:
            return tuple(future.result() for future in futures)
        except KeyboardInterrupt:
            stop.set()
            wait(futures, STOP_SECONDS)
            raise
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def _switch(self, node: Node, stop: Event) -> NodePower:
        seen = next(one for one in self.seen if one.node == node.name)
        try:
            with self._driver.open(node) as bmc:
                machine = bmc.require(seen.machine.identity) if self._is_told(seen) else None
                for order in self._request.options.orders:
                    if stop.is_set():
                        return NodePower(node.name, reason=f"{node.name}: interrupted")
                    self._session.observer.verifying(
                        f"power: {self._request.options.verb}", f"{node.name}: power {order}"
                    )
                    machine = bmc.power(order, wanted=lambda: not stop.is_set())
                    if order != "on":
                        self._require_silence(node)
        except ApplianceError as error:
            return NodePower(node.name, reason=error.message)
        assert machine is not None  # noqa: S101  (there is at least one order)
        return NodePower(node.name, machine, "same", evidence=_evidence(node, machine))

    def _is_told(self, seen: PowerSeen) -> bool:
        return seen.machine.identity.is_told

    def _require_silence(self, node: Node) -> None:
        """A BMC that lies: the machine still answers.

        Raises:
            StepNotVerified: it does.
        """
        clock = self._session.clock
        ends = clock.monotonic() + SILENCE_SECONDS
        while self._session.power.answers(node):
            if clock.monotonic() >= ends:
                raise StepNotVerified(
                    f"{node.name}: its BMC reports power off, but {node.ip} still answers",
                    hint="its bmc_address may be another machine's, or two machines have one "
                    "address: look at its power LED",
                )
            clock.sleep(_POLL_SECONDS)


def _without(
    nodes: Sequence[ClusterNode], going: Sequence[str], name: str
) -> tuple[ClusterNode, ...]:
    """The nodes as they are while the others of the batch are off: none may count on another."""
    return tuple(
        replace(one, ready=False) if one.name in going and one.name != name else one
        for one in nodes
    )


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


def _evidence(node: Node, machine: BmcMachine) -> str:
    said = f"its BMC ({machine.identity.words()}) reports power {machine.power}"
    if machine.power == "Off":
        return f"{said}; nothing answers at {node.ip}"
    return said
