"""Switches the nodes of a rack on by their BMCs, or says which to switch on by hand; waits.

What must not be here: the order of the stages, and any change of the cluster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from appliance.errors import ApplianceError
from appliance.model.state.facts.identity import MachineIdentity, likeness
from appliance.model.state.nodes.unreachable import is_lasting
from appliance.workflows.session.patience import Patience

if TYPE_CHECKING:
    from appliance.model.site.settings import Node
    from appliance.model.state.facts.facts import NodeFacts
    from appliance.workflows.session.session import Session

POLL_SECONDS: Final = 5.0
# Something else may answer in a node's place for a moment while it boots.
LASTING_SECONDS: Final = 60.0


@dataclass(frozen=True)
class NodePower:
    """What was seen of one node before anything was done.

    Attributes:
        answers: it is on.
        by_bmc: its BMC reports it off, and may switch it on.
        words: what is to be done with it.
    """

    node: str
    answers: bool
    by_bmc: bool
    words: str


def look_at_power(
    node: Node, session: Session, machines: Mapping[str, MachineIdentity]
) -> NodePower:
    """One node's power; never raises.

    Args:
        node: which.
        session: the session.
        machines: node -> the machine that was accepted under its name, as far as it is known.
    """
    # A router or a firewall may answer in its place: a BMC that reports it off knows better.
    on = session.power.answers(node)
    answers = NodePower(node.name, True, False, f"{node.name} answers")
    hand = f"switch {node.name} ({node.ip}) on by hand"
    if node.bmc_address is None:
        told = NodePower(node.name, False, False, f"{hand}: the inventory has no BMC for it")
        return answers if on else told
    try:
        with session.driver.open(node) as bmc:
            machine = bmc.machine()
    except ApplianceError as error:
        return answers if on else NodePower(node.name, False, False, f"{hand}: {error.message}")
    if on and (machine.power != "Off" or _is_anothers(node.name, machine.identity, machines)):
        return answers
    said = f"its BMC ({machine.identity.words()}) reports power {machine.power or 'unknown'}"
    if on:
        said += ", although something answers at its address"
    if _is_anothers(node.name, machine.identity, machines):
        return NodePower(node.name, False, False, f"{hand}: {said}: that is another machine")
    if machine.power == "On":
        return NodePower(node.name, False, False, f"{node.name} does not answer yet: {said}")
    return NodePower(node.name, False, True, f"switch {node.name} on: {said}")


def _is_anothers(name: str, seen: MachineIdentity, machines: Mapping[str, MachineIdentity]) -> bool:
    if likeness(machines.get(name, MachineIdentity()), seen) == "another":
        return True
    others = (one for other, one in machines.items() if other != name)
    return any(likeness(one, seen) == "same" for one in others)


def switch_on(nodes: Sequence[Node], seen: Mapping[str, NodePower], session: Session) -> None:
    """Switch on the nodes that their BMC may switch on; a BMC that fails holds nobody up."""
    for node in nodes:
        session.observer.note(seen[node.name].words)
        if not seen[node.name].by_bmc:
            continue
        try:
            with session.driver.open(node) as bmc:
                machine = bmc.machine()
                if machine.identity.is_told:
                    bmc.require(machine.identity)
                bmc.power("on")
        except ApplianceError as error:
            hand = f"switch {node.name} ({node.ip}) on by hand"
            session.observer.note(f"{hand}: {error.message}")


def wait_for(
    nodes: Sequence[Node], session: Session, step: str, seconds: float
) -> tuple[dict[str, NodeFacts], dict[str, str]]:
    """The facts of the nodes that came, and node -> why of those that did not within the time.

    Where something else answers in a node's place, with another host key, or a name does not
    resolve, the whole time would be waited in vain: after a minute of that only the others are
    waited for.
    """
    patience = Patience(session.clock, seconds)
    came: dict[str, NodeFacts] = {}
    given_up: dict[str, str] = {}
    since: dict[str, float] = {}
    waiting = list(nodes)
    while True:
        look, now = session.nodes.look(waiting), session.clock.monotonic()
        came |= look.node_facts
        faults = {fault.node: fault for fault in look.faults}
        why = {name: fault.reason for name, fault in faults.items()}
        lasting = {name for name, fault in faults.items() if is_lasting(fault.cause)}
        since = {name: since.get(name, now) for name in lasting}
        for name, began in since.items():
            if now - began >= LASTING_SECONDS:
                given_up[name] = why[name]
                session.observer.note(f"not waited for any longer: {why[name]}")
        waiting = [node for node in nodes if node.name not in came.keys() | given_up.keys()]
        if not waiting or patience.is_over():
            silent = {node.name: why.get(node.name, "no answer") for node in waiting}
            missing = {**given_up, **silent}
            return came, {node.name: missing[node.name] for node in nodes if node.name in missing}
        session.observer.verifying(step, why.get(waiting[0].name, waiting[0].name))
        session.clock.sleep(POLL_SECONDS)
