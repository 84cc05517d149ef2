"""A node's passport: its accepted identity and hardware, who accepted it, and differences today.

It is written when the node is first proved to be a member, and later only when a person accepts
what has changed. What must not be here: reading or keeping it (those are ports').
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Final

from appliance.model.documents.typed_json import Line, NodeName, read_typed
from appliance.model.site.settings import Node
from appliance.model.state.cluster.cluster import ClusterNode
from appliance.model.state.facts.hardware import (
    FIRMWARE,
    IDENTITY,
    Difference,
    compare,
    firmware_facts,
    hardware_facts,
)
from appliance.model.state.facts.identity import MachineIdentity, identity, identity_of
from appliance.model.state.facts.placeholders import told_serial
from appliance.model.state.nodes.node_metadata import NodeMetadata, metadata_of

if TYPE_CHECKING:
    from appliance.model.state.facts.facts import NodeFacts

FOLDER: Final = "passports"
# Besides what a machine is made of: what its cables carry.
KINDS: Final = IDENTITY | {"link"}
FIRST: Final = "first verified"


@dataclass(frozen=True)
class Passport:
    """One node as it was accepted.

    Attributes:
        facts: of its hardware, as ``model/state/facts/hardware.py`` names them; ``machine`` is
            the DMI serial.
        belongings: labels, taints and annotations that are the operator's or Run:ai's.
            The passports on control-plane nodes hold this key, so it stays.
        identity: what else tells it from another machine; nothing in documents of older versions.
        bmc_address: of its BMC by the inventory; BMCs are not asked for more.
        accepted_by: operator@host.
        accepted_at: ISO 8601, UTC.
        why: ``first verified``, or that an operator acknowledged what had changed.
    """

    node: NodeName
    facts: Mapping[Line, Line] = field(default_factory=dict)
    belongings: NodeMetadata = field(default_factory=NodeMetadata)
    bmc_address: Line | None = None
    accepted_by: Line = ""
    accepted_at: Line = ""
    why: str = ""
    identity: MachineIdentity = field(default_factory=MachineIdentity)

    @property
    def document(self) -> str:
        """Its name in the archive."""
        return document_of(self.node)

    @property
    def serial(self) -> str | None:
        """The DMI serial, or None where the machine cannot tell it."""
        return told_serial(self.facts.get("machine"))

    @property
    def machine(self) -> MachineIdentity:
        """The machine that was accepted, without what nobody filled in."""
        return identity(**{**asdict(self.identity), "serial": self.serial})

    def text(self) -> str:
        """The document as JSON."""
        return json.dumps(asdict(self), indent=2, sort_keys=True) + "\n"


def document_of(node: str) -> str:
    """The name of a node's passport in the archive."""
    return f"{FOLDER}/{node}.json"


def parse_passport(text: str) -> Passport:
    """Read a document that :meth:`Passport.text` wrote; unknown keys are left out.

    Raises:
        Unreadable: it is no passport.
    """
    return read_typed(text, Passport)


@dataclass(frozen=True)
class Acceptance:
    """Who accepts a node as it is: operator@host, when (ISO 8601, UTC) and why."""

    by: str
    at: str
    why: str = FIRST


def passport_of(
    node: Node, facts: NodeFacts, member: ClusterNode, accepted: Acceptance
) -> Passport:
    """The passport of a node as it is now."""
    return Passport(
        node=node.name,
        facts=dict(hardware_facts(facts, KINDS)),
        belongings=metadata_of(member),
        bmc_address=str(node.bmc_address) if node.bmc_address else None,
        accepted_by=accepted.by,
        accepted_at=accepted.at,
        why=accepted.why,
        identity=identity_of(facts),
    )


def differences(
    passport: Passport, facts: NodeFacts | None, member: ClusterNode | None
) -> tuple[Difference, ...]:
    """What of a node is not as accepted; of what cannot be seen today nothing is said."""
    found: list[Difference] = []
    if facts is not None:
        then = {**passport.facts, **firmware_facts(passport.machine)}
        if passport.serial is None:
            # Of a version that took what nobody filled in for a serial.
            then.pop("machine", None)
        found.extend(compare(then, hardware_facts(facts, KINDS | FIRMWARE)))
    if member is not None:
        before, now = _by_name(passport.belongings), _by_name(metadata_of(member))
        found.extend(
            Difference(name, before.get(name), now.get(name))
            for name in sorted(before.keys() | now.keys())
            if before.get(name) != now.get(name)
        )
    return tuple(found)


def _by_name(found: NodeMetadata) -> dict[str, str]:
    return dict(_named(found))


def _named(found: NodeMetadata) -> Iterator[tuple[str, str]]:
    for key, value in found.labels.items():
        yield f"label:{key}", value or "set"
    for key, value in found.annotations.items():
        yield f"annotation:{key}", value or "set"
    for taint in found.taints:
        yield f"taint:{taint}", "set"
