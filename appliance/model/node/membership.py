"""What a node has beyond its kubelet's own, and which nodes were taken out on purpose.

Labels, taints and annotations live on the Node object and die with it. Before a Node object goes,
what an operator or Run:ai put on it is kept in a document; when the node is a member again it is
put back. The same document says that a node was removed on purpose, so that no install brings it
back by itself. What must not be here: reading or writing either (that is an adapter's).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Final

from appliance.model.documents.typed_json import Line, NodeName, read_typed
from appliance.model.site.settings import Site
from appliance.model.state.facts.identity import MachineIdentity, identity
from appliance.model.state.nodes.node_metadata import NodeMetadata, merged, metadata_of, missing
from appliance.model.state.nodes.node_state import node_states

if TYPE_CHECKING:
    from appliance.model.state.desired import Desired
    from appliance.model.state.observed import Observed
    from appliance.model.state.plan import Choice

FOLDER: Final = "members"


@dataclass(frozen=True)
class Removal:
    """That a node was taken out on purpose: by whom, when, why, and what it was.

    Attributes:
        serial: the DMI serial that the cluster had accepted, or None.
        identity: what else the accepted machine tells; nothing in documents of older versions.
        address: its address, for whoever looks for the machine.
        reset: the machine itself was emptied; else it still believes that it is a member.
        etcd_member: it held one of etcd's members.
    """

    by: Line
    at: Line
    reason: str = ""
    serial: Line | None = None
    address: Line = ""
    reset: bool = False
    etcd_member: bool = False
    identity: MachineIdentity = field(default_factory=MachineIdentity)

    @property
    def machine(self) -> MachineIdentity:
        """The machine that the cluster had accepted, without what nobody filled in."""
        return identity(**{**asdict(self.identity), "serial": self.serial})


@dataclass(frozen=True)
class MemberRecord:
    """The document of one node, ``members/<node>.json``."""

    node: NodeName
    removed: Removal | None = None
    kept: NodeMetadata | None = None

    @property
    def document(self) -> str:
        """Its name in the archive."""
        return f"{FOLDER}/{self.node}.json"

    def text(self) -> str:
        """The document as JSON."""
        return json.dumps(asdict(self), indent=2, sort_keys=True) + "\n"


def parse_record(text: str) -> MemberRecord:
    """Read a document that :meth:`MemberRecord.text` wrote; unknown keys are left out.

    Raises:
        Unreadable: it is no such document.
    """
    return read_typed(text, MemberRecord)


def to_keep(desired: Desired, observed: Observed, choice: Choice) -> tuple[MemberRecord, ...]:
    """The documents to write before a step lets go of Node objects.

    What the living Node object has is newer than what was kept of an earlier one. A node that
    returns on the operator's word is from then on no longer removed.
    """
    states = node_states(desired.site, observed)
    found = []
    for name in sorted({*choice.stale, *desired.returning}):
        state, kept = states.get(name), desired.kept.get(name)
        if state is not None and state.member is not None and state.is_blank:
            kept = merged(kept, metadata_of(state.member))
        found.append(MemberRecord(name, removed=None, kept=kept))
    return tuple(found)


def settled(desired: Desired, observed: Observed) -> tuple[str, ...]:
    """The nodes that have again all that was kept for them: from then on it is theirs to change."""
    states = node_states(desired.site, observed)
    return tuple(
        name
        for name, kept in desired.kept.items()
        if (state := states.get(name)) is not None
        and state.is_joined
        and state.member is not None
        and not any(missing(kept, state.member))
    )


def removed(site: Site, records: Mapping[str, MemberRecord]) -> frozenset[str]:
    """The nodes of a site that were taken out on purpose.

    The only control-plane node, and the one that serves the others, cannot have been: a record that
    says so is of another inventory.
    """
    gone = {name for name, record in records.items() if record.removed is not None}
    left = site.without(gone)
    if not left.control_plane or site.services_node.name in gone:
        return frozenset()
    return frozenset(gone & {node.name for node in site.nodes})


def as_recorded(
    desired: Desired, records: Mapping[str, MemberRecord], back: Collection[str] = ()
) -> Desired:
    """What is asked for without the nodes that were removed on purpose, with what was kept of all.

    Args:
        desired: what the inventory asks for.
        records: node -> its record.
        back: nodes that are in the site again, although they were removed.
    """
    site = desired.site.without(removed(desired.site, records) - frozenset(back))
    return replace(desired, site=site, kept=kept_metadata(records))


def kept_metadata(records: Mapping[str, MemberRecord]) -> dict[str, NodeMetadata]:
    """Node -> what is to be put back on it."""
    return {name: record.kept for name, record in records.items() if record.kept is not None}
