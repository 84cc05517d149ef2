"""Read what is written down of members: who was removed on purpose, and what was kept of whom."""

from __future__ import annotations

from typing import TYPE_CHECKING

from appliance.errors import NodeUnreachable
from appliance.model.membership import FOLDER, MemberRecord, parse_record

if TYPE_CHECKING:
    from appliance.adapters.archive import ControlPlaneArchive as Archive


def read_records(archive: Archive) -> dict[str, MemberRecord]:
    """Node -> its record; none where no control-plane node answers: whoever looks next says that.

    A document that cannot be read counts as absent, as one that was never written.
    """
    found = {}
    try:
        for name in archive.names(FOLDER):
            try:
                record = parse_record(archive.get(name) or "")
            except ValueError:
                continue
            found[record.node] = record
    except NodeUnreachable:
        return {}
    return found
