"""The machine that answers at a node's address, shown to the person who confirms a change.

Names such as w1 exist at every site; a serial does not. What must not be here: whether it is the
machine that was accepted (:mod:`.machine_identity`), or asking it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from appliance.model.state.facts.identity import identity_of

if TYPE_CHECKING:
    from appliance.model.site.settings import Node
    from appliance.model.state.facts.facts import NodeFacts
    from appliance.model.state.observed import Look

NO_ANSWER: Final = "no answer"


@dataclass(frozen=True)
class AnsweringMachine:
    """One node of the inventory, and what was seen at its address.

    Attributes:
        answer: one sentence: the host name and the serial of what answers, or why that is unknown.
    """

    node: str
    address: str
    answer: str

    @property
    def claim(self) -> str:
        """Who it says it is; why it did not answer is left out, for that changes by the minute."""
        unknown = self.answer.startswith(("unknown", NO_ANSWER))
        said = self.answer.partition(": ")[0] if unknown else self.answer
        return f"{self.node}, {self.address}: {said}"


def answering(node: Node, look: Look) -> AnsweringMachine:
    """The machine at a node's address; unknown, with the reason, if it was not read."""
    facts = look.node_facts.get(node.name)
    if facts is not None:
        return answering_as(node, facts)
    fault = next((one for one in look.faults if one.node == node.name), None)
    if fault is None:
        return AnsweringMachine(node.name, node.ip, "unknown: not inspected")
    # A machine that answers without identifying itself is not the same as no answer.
    there = fault.answers or fault.deceives or fault.logged_in
    what = "unknown: a machine answers, but was not identified" if there else NO_ANSWER
    reason = fault.reason.removeprefix(f"{node.name}: ")
    return AnsweringMachine(node.name, node.ip, f"{what}: {reason}")


def answering_as(node: Node, facts: NodeFacts) -> AnsweringMachine:
    """The machine that was read at a node's address."""
    name = facts.hostname or "unknown"
    return AnsweringMachine(node.name, node.ip, f"host name {name}, {identity_of(facts).words()}")
