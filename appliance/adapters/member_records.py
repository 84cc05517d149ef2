"""Read what is written down of members: who was removed on purpose, and what was kept of whom."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Protocol

from appliance.adapters.archive import FOLDER as ARCHIVE
from appliance.errors import ApplianceError, NodeUnreachable, Refused
from appliance.model.membership import FOLDER, MemberRecord, parse_record
from appliance.model.strict_json import Unreadable

if TYPE_CHECKING:
    from collections.abc import Mapping


class Archive(Protocol):
    """Where the records are kept."""

    def everything(self, folder: str) -> Mapping[str, str]:
        """Every document in a folder: name -> its newest copy's text.

        Raises:
            NodeUnreachable: no control-plane node answers, or can read what it keeps.
        """


class MemberRecords(dict[str, MemberRecord]):
    """Node -> its record; of those that could not be read there is none.

    Attributes:
        unread: why not all could be read; None when all were.
    """

    unread: ApplianceError | None = None

    def require(self) -> None:
        """Make sure that all were read, before anything is changed by them.

        Raises:
            NodeUnreachable: no control-plane node answered, or could read what it keeps.
            Refused: a document there is not readable.
        """
        if self.unread is not None:
            raise self.unread


def read_records(archive: Archive) -> MemberRecords:
    """The records on the control-plane nodes; none where nothing was ever written.

    What cannot be read raises nothing here, so that who only looks can go on:
    :meth:`MemberRecords.require` is for who changes something.
    """
    found = MemberRecords()
    try:
        documents = archive.everything(FOLDER)
    except NodeUnreachable as error:
        found.unread = NodeUnreachable(
            f"nobody can tell which nodes were removed on purpose: {error.message}",
            hint=error.hint,
            details=error.details,
        )
        return found
    for name, text in documents.items():
        try:
            record = parse_record(text)
            if name != record.document:
                raise Unreadable(f"it is of another node, {record.node}")
        except Unreadable as error:
            found.unread = _refusal(name, error)
            continue
        found[record.node] = record
    return found


def _refusal(name: str, error: Exception) -> Refused:
    shown = name[:200]
    node = shown.removeprefix(f"{FOLDER}/").removesuffix(".json")
    return Refused(
        f"nobody can tell whether {node} was removed on purpose: {shown} on the control-plane "
        f"nodes is not readable: {error}",
        hint=f"where it is not to come back, take it out of hosts.yml; then on each control-plane "
        f"node: sudo rm {shlex.quote(f'{ARCHIVE}/{name}')}",
    )
