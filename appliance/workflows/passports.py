"""Documents of members: passports read and written, and what was kept of a Node forgotten."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from appliance.errors import NodeUnreachable
from appliance.model.cluster import Cluster
from appliance.model.membership import MemberRecord, settled
from appliance.model.passport import (
    FIRST,
    FOLDER,
    Acceptance,
    Passport,
    document_of,
    parse_passport,
    passport_of,
)
from appliance.model.traces import is_member

if TYPE_CHECKING:
    from appliance.model.desired import Desired
    from appliance.model.journal import Run
    from appliance.model.postconditions import Observed
    from appliance.workflows.install import InstallPorts, InstallRequest
    from appliance.workflows.ports import Archive, Clock


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


def acceptance(run: Run, clock: Clock, why: str = FIRST) -> Acceptance:
    """By whom, when and why a passport is accepted."""
    at = datetime.fromtimestamp(clock.now(), UTC).isoformat(timespec="seconds")
    return Acceptance(f"{run.operator}@{run.host}", at, why)


def settle(desired: Desired, observed: Observed, ports: InstallPorts) -> None:
    """Forget what was kept of Nodes that have it again, whoever put it back."""
    for name in settled(desired, observed):
        record = MemberRecord(name)
        ports.archive.put(record.document, record.text())


def spread(ports: InstallPorts) -> None:
    """Give a control-plane node that joined just now what the others keep.

    What cannot be copied is said and no failure of the install.
    """
    try:
        missed = ports.archive.spread()
    except NodeUnreachable as error:
        missed = (error.message,)
    for why in missed:
        ports.observer.note(f"a control-plane node lacks documents: {why}")


def accept_members(request: InstallRequest, observed: Observed, ports: InstallPorts) -> None:
    """Write the passport of each Ready member that has none, or whose machine is another now.

    That one cannot be kept is said and no failure of the install: the next one writes it.
    """
    try:
        _accept_members(request, observed, ports)
    except NodeUnreachable as error:
        ports.observer.note(f"no passport was written: {error.message}")


def _accept_members(request: InstallRequest, observed: Observed, ports: InstallPorts) -> None:
    members = observed.cluster.nodes if isinstance(observed.cluster, Cluster) else {}
    there = set(ports.archive.names(FOLDER)) if members else set()
    for node in request.desired.site.cluster_members:
        photo, member = observed.photographs.get(node.name), members.get(node.name)
        if photo is None or member is None or not (member.ready and is_member(photo)):
            continue
        if document_of(node.name) in there and node.name not in request.accept:
            continue
        passport = passport_of(node, photo, member, acceptance(request.run, ports.clock))
        ports.archive.put(passport.document, passport.text())
