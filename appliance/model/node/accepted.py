"""Which machine was accepted under a node's name, and whose word that is.

Documents on the control-plane nodes come first: the passport, then the record of a removal. A Node
object says it too, but the kubelet of that very node may write there what it likes, so it is
believed only where there is no document. What must not be here: reading any of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from appliance.model.state.cluster.cluster import SERIAL_ANNOTATION, ClusterNode
from appliance.model.state.facts.identity import MachineIdentity, likeness

if TYPE_CHECKING:
    from appliance.model.node.baseline import Passport
    from appliance.model.node.membership import Removal
    from appliance.model.state.plan import Refusal


@dataclass(frozen=True)
class AcceptedMachine:
    """The machine that is believed to be the accepted one.

    Attributes:
        machine: tells nothing where nobody knows.
        doubt: that the Node object says otherwise and is not believed; empty when it does not.
        hint: what to do about that.
    """

    machine: MachineIdentity = field(default_factory=MachineIdentity)
    doubt: str = ""
    hint: str = ""

    def tell(self, refusal: Refusal) -> Refusal:
        """A refusal that may follow from not believing the Node object, with that in its hint."""
        if not self.doubt:
            return refusal
        return replace(refusal, hint=f"{refusal.hint}; {self.doubt}: {self.hint}")


def accepted_of(
    name: str,
    member: ClusterNode | None,
    passport: MachineIdentity | None = None,
    removed: Removal | None = None,
) -> AcceptedMachine:
    """Weigh the passport, the record of a removal, and the Node object, in this order."""
    kept = (passport, removed.machine if removed else None)
    written = next((one for one in kept if one is not None and one.is_told), None)
    told = member.identity if member else MachineIdentity()
    if written is None:
        return AcceptedMachine(told)
    if likeness(written, told) != "another":
        return AcceptedMachine(written)
    keys = [SERIAL_ANNOTATION] if told.serial else sorted(told.annotations())
    return AcceptedMachine(
        written,
        f"its Node object names a machine with {told.words()}, but the accepted machine has "
        f"{written.words()}: the Node object is ignored",
        f"find the writer: kubectl get node {name} -o yaml --show-managed-fields; delete the wrong "
        f"annotation, which the next install writes again: kubectl annotate node {name} "
        f"{' '.join(f'{key}-' for key in keys)}; if the Node object is right: appliance node "
        f"passport {name} --acknowledge",
    )


def doubts_of(
    members: Mapping[str, ClusterNode], passports: Mapping[str, Passport]
) -> dict[str, AcceptedMachine]:
    """Node -> what its passport says, for each whose Node object says otherwise."""
    found = {
        name: accepted_of(name, member, passports[name].machine)
        for name, member in members.items()
        if name in passports
    }
    return {name: accepted for name, accepted in found.items() if accepted.doubt}
