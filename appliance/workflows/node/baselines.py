"""Documents of members: read and write passports, and delete restored node metadata."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from appliance.errors import ApplianceError, NodeUnreachable
from appliance.model.node.baseline import (
    FIRST,
    FOLDER,
    Acceptance,
    Passport,
    document_of,
    parse_passport,
    passport_of,
)
from appliance.model.node.membership import MemberRecord, settled
from appliance.model.state.cluster.cluster import Cluster
from appliance.model.state.facts.identity import MachineIdentity
from appliance.model.state.nodes.node_state import node_states

if TYPE_CHECKING:
    from appliance.model.state.desired import Desired
    from appliance.model.state.journal import Run
    from appliance.model.state.observed import Observed
    from appliance.workflows.session.ports import Archive, Clock, Observer


def read_passport(archive: Archive, node: str) -> Passport | None:
    """The passport of a node; None when there is none, or it cannot be read.

    Raises:
        NodeUnreachable: no control-plane node answers.
    """
    text = archive.get(document_of(node))
    try:
        found = parse_passport(text) if text else None
    except ValueError:
        return None
    return found if found and found.node == node else None


def read_passports(archive: Archive) -> dict[str, Passport]:
    """Node -> its passport; what is no passport, or another node's, is left out.

    Raises:
        NodeUnreachable: no control-plane node answers, or can read what it keeps.
    """
    found = {}
    for name, text in archive.everything(FOLDER).items():
        try:
            passport = parse_passport(text)
        except ValueError:
            continue
        if passport.document == name:
            found[passport.node] = passport
    return found


@dataclass(frozen=True)
class AcceptedMachines:
    """Which machines were accepted, of the nodes that were asked for.

    Attributes:
        machines: node -> the machine of its passport; not there where it never had one.
        unread: node -> why its passport was not read.
        corrupt: node -> why what is kept as its passport is none.
    """

    machines: Mapping[str, MachineIdentity] = field(default_factory=dict)
    unread: Mapping[str, str] = field(default_factory=dict)
    corrupt: Mapping[str, str] = field(default_factory=dict)


def accepted_machines(archive: Archive, names: Collection[str]) -> AcceptedMachines:
    """The accepted machines of these nodes; without a name, nothing is read."""
    if not names:
        return AcceptedMachines()
    try:
        documents = archive.everything(FOLDER)
    except ApplianceError as error:
        return AcceptedMachines(unread=dict.fromkeys(names, error.message))
    machines, corrupt = {}, {}
    for name in names:
        document = document_of(name)
        if document not in documents:
            continue
        try:
            passport = parse_passport(documents[document])
        except ValueError as error:
            corrupt[name] = f"{document}: {error}"
            continue
        if passport.node == name:
            machines[name] = passport.machine
        else:
            corrupt[name] = f"{document}: it is that of {passport.node}"
    return AcceptedMachines(machines, corrupt=corrupt)


def acceptance(run: Run, clock: Clock, why: str = FIRST) -> Acceptance:
    """By whom, when and why a passport is accepted."""
    at = datetime.fromtimestamp(clock.now(), UTC).isoformat(timespec="seconds")
    return Acceptance(f"{run.operator}@{run.host}", at, why)


def settle(desired: Desired, observed: Observed, archive: Archive) -> None:
    """Delete the saved metadata of Nodes that have it again, whatever restored it."""
    for name in settled(desired, observed):
        record = MemberRecord(name)
        archive.put(record.document, record.text())


def spread(archive: Archive, observer: Observer) -> None:
    """Copy the documents of the other control-plane nodes to one that has just joined.

    A failed copy is a warning, not a failure of the install.
    """
    try:
        missed = archive.spread()
    except NodeUnreachable as error:
        missed = (error.message,)
    for why in missed:
        observer.note(f"documents are missing on a control-plane node: {why}")


class Acceptances:
    """The acceptances of one run: who accepts, where passports are kept, whom warnings reach."""

    def __init__(self, run: Run, archive: Archive, clock: Clock, observer: Observer) -> None:
        self._run = run
        self._archive = archive
        self._clock = clock
        self._observer = observer

    def accept(self, desired: Desired, observed: Observed, replaced: frozenset[str]) -> None:
        """Write the passport of each Ready member that has none, and of those ``replaced``.

        A passport that cannot be written is a warning: the next install writes it.
        """
        try:
            self._accept(desired, observed, replaced)
        except NodeUnreachable as error:
            self._observer.note(f"no passport was written: {error.message}")

    def _accept(self, desired: Desired, observed: Observed, replaced: frozenset[str]) -> None:
        members = observed.cluster.nodes if isinstance(observed.cluster, Cluster) else {}
        there = set(self._archive.names(FOLDER)) if members else set()
        states = node_states(desired.site, observed)
        for node in desired.site.cluster_members:
            state = states[node.name]
            member = state.member
            if member is None or not (member.ready and state.is_joined):
                continue
            if document_of(node.name) in there and node.name not in replaced:
                continue
            facts, said = observed.node_facts[node.name], acceptance(self._run, self._clock)
            passport = passport_of(node, facts, member, said)
            self._archive.put(passport.document, passport.text())
