"""Reads the records of members: which were removed on purpose, and their saved metadata."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Protocol

from appliance.adapters.control_plane.archive import FOLDER as ARCHIVE
from appliance.errors import ApplianceError, NodeUnreachable, Refused
from appliance.model.documents.strict_json import Unreadable
from appliance.model.node.membership import FOLDER, MemberRecord, parse_record


class Archive(Protocol):
    """The archive of the records."""

    def everything(self, folder: str) -> Mapping[str, str]:
        """Every document in a folder: name -> its newest copy's text.

        Raises:
            NodeUnreachable: no control-plane node answers and can read its documents.
        """


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


def _refusal(name: str, error: Exception) -> Refused:
    shown = name[:200]
    node = shown.removeprefix(f"{FOLDER}/").removesuffix(".json")
    return Refused(
        f"cannot read whether {node} was removed on purpose: {shown} on the control-plane "
        f"nodes is not readable: {error}",
        hint="if the node must not come back, remove it from hosts.yml; then on each control-plane "
        f"node: sudo rm {shlex.quote(f'{ARCHIVE}/{name}')}",
    )
