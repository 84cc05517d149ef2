"""Reads the records of members: which were removed on purpose, and their saved metadata."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from appliance.errors import ApplianceError, NodeUnreachable, Refused
from appliance.model.documents.places import ARCHIVE
from appliance.model.documents.strict_json import Unreadable
from appliance.model.node.membership import FOLDER, MemberRecord, parse_record

if TYPE_CHECKING:
    from appliance.workflows.session.ports import Archive


class MemberRecords(dict[str, MemberRecord]):
    """Node -> its record; unreadable records are missing.

    Attributes:
        unread: why not all records could be read; None if all were.
    """

    unread: ApplianceError | None = None

    def require(self) -> None:
        """Refuse unless all records were read, before a change that depends on them.

        Raises:
            NodeUnreachable: no control-plane node answered and could read its documents.
            Refused: a document is not readable.
        """
        if self.unread is not None:
            raise self.unread


def read_records(archive: Archive) -> MemberRecords:
    """The records on the control-plane nodes; empty if none was ever written.

    Unreadable records raise nothing here, so that read-only commands can continue: changing
    commands call :meth:`MemberRecords.require`.
    """
    records = MemberRecords()
    try:
        documents = archive.everything(FOLDER)
    except NodeUnreachable as error:
        records.unread = NodeUnreachable(
            f"cannot read which nodes were removed on purpose: {error.message}",
            hint=error.hint,
            details=error.details,
        )
        return records
    for name, text in documents.items():
        try:
            record = parse_record(text)
            if name != record.document:
                raise Unreadable(f"the record belongs to another node, {record.node}")
        except Unreadable as error:
            records.unread = _refusal(name, error)
            continue
        records[record.node] = record
    return records


def read_all_records(archive: Archive) -> MemberRecords:
    """The records, for a command that changes something.

    Raises:
        NodeUnreachable: no control-plane node answered and could read its documents.
        Refused: a document is not readable.
    """
    records = read_records(archive)
    records.require()
    return records


def _refusal(name: str, error: Exception) -> Refused:
    shown = name[:200]
    node = shown.removeprefix(f"{FOLDER}/").removesuffix(".json")
    return Refused(
        f"cannot read whether {node} was removed on purpose: {shown} on the control-plane "
        f"nodes is not readable: {error}",
        hint="if the node must not come back, remove it from hosts.yml; then on each control-plane "
        f"node: sudo rm {shlex.quote(f'{ARCHIVE}/{name}')}",
    )
