"""Go on where another laptop stopped: its records, passports and photographs, and what it left.

Reads from the nodes and writes on this machine alone; both are unions, so that it can be run again
at any time and loses nothing. What must not be here: a change of a node.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from appliance.model.handover import handover
from appliance.model.strict_json import Unreadable

if TYPE_CHECKING:
    from appliance.model.handover import Handover
    from appliance.workflows.ports import Archive, Documents, Lock, Records

JOURNAL = "journal"
FOLDERS = ("passports", "maintenance")


@dataclass(frozen=True)
class AdoptPorts:
    """Everything outside that it needs."""

    archive: Archive
    records: Records
    documents: Documents
    lock: Lock


@dataclass(frozen=True)
class Adopted:
    """What came, and how the site was left.

    Attributes:
        records: how many records are new here.
        documents: names of documents that are new here, or differed.
        skipped: one sentence for each that the nodes hold and that is not readable.
    """

    records: int
    documents: tuple[str, ...]
    handover: Handover
    skipped: tuple[str, ...] = ()


def site_adopt(ports: AdoptPorts) -> Adopted:
    """Fetch what the control-plane nodes hold, and say how the site was left.

    Raises:
        NodeUnreachable: no control-plane node answers.
    """
    lock = ports.lock.look()
    new: list[str] = []
    skipped: list[str] = []
    for folder in FOLDERS:
        for name, text in ports.archive.everything(folder).items():
            try:
                if ports.documents.keep(name, text):
                    new.append(name)
            except Unreadable as error:
                skipped.append(f"{name[:200]!r} on the control-plane nodes: {error}")
    there = ports.archive.everything(JOURNAL)
    merged = ports.records.merge({name.removeprefix(f"{JOURNAL}/"): t for name, t in there.items()})
    return Adopted(
        merged.new,
        tuple(new),
        handover(ports.records.read(), lock),
        (*skipped, *merged.skipped),
    )
