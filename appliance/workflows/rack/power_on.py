"""Switches the nodes of a rack on by their BMCs, or says which to switch on by hand; waits.

What must not be here: the order of the stages, and any change of the cluster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from appliance.errors import ApplianceError
from appliance.model.state.facts.identity import MachineIdentity, likeness
from appliance.workflows.session.patience import Patience

if TYPE_CHECKING:
    from appliance.model.site.settings import Node
    from appliance.model.state.facts.facts import NodeFacts
    from appliance.workflows.session.session import Session

POLL_SECONDS: Final = 5.0


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
    """The facts of the nodes that came, and node -> why of those that did not within the time."""
    patience, missing = Patience(session.clock, seconds), list(nodes)
    came: dict[str, NodeFacts] = {}
    while True:
        look = session.nodes.look(missing)
        came |= look.node_facts
        missing = [node for node in nodes if node.name not in came]
        why = {fault.node: fault.reason for fault in look.faults}
        if not missing or patience.is_over():
            return came, {node.name: why.get(node.name, "no answer") for node in missing}
        session.observer.verifying(step, why.get(missing[0].name, missing[0].name))
        session.clock.sleep(POLL_SECONDS)
