"""What the control-plane nodes keep of a maintenance: its facts, or a step in the journal."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from appliance.model.documents.strict_json import Unreadable
from appliance.model.state.journal import read_record
from appliance.model.state.nodes.maintenance import Maintenance, archived

if TYPE_CHECKING:
    from appliance.workflows.session.ports import Archive

# Who takes nodes out, also such as were silent: of those no facts are kept.
COMMANDS = ("node maintain", "node remove", "rack down")
_RUN = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def recorded(archive: Archive, marks: Mapping[str, Maintenance]) -> frozenset[str]:
    """The nodes of whose maintenance something is kept; nothing is asked where there is none.

    Raises:
        NodeUnreachable: no control-plane node answers, or can read what it keeps.
    """
    return frozenset(name for name, mark in marks.items() if _is_kept(archive, name, mark.run))


def _is_kept(archive: Archive, node: str, run: str) -> bool:
    # The run is whatever the annotation says.
    if not _RUN.fullmatch(run):
        return False
    if archive.get(archived(node, run)) is not None:
        return True
    name = f"{run}-001.json"
    text = archive.get(f"journal/{name}")
    try:
        record = read_record(name, text) if text else None
    except Unreadable:
        return False
    return record is not None and node in record.nodes and record.command in COMMANDS
