"""Go on where another laptop stopped: its records, passports and facts, and what it left.

Reads from the nodes and writes on this machine alone; both are unions, so that it can be run again
at any time and loses nothing. What must not be here: a change of a node.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from appliance.model.checks.hardware.record import FOLDER as QUALIFICATIONS
from appliance.model.checks.hardware.trials.burn_in import FOLDER as BURN_INS
from appliance.model.control.handover import Handover, handover
from appliance.model.documents.strict_json import Unreadable
from appliance.workflows.hardware.records import is_older, is_older_burn_in

if TYPE_CHECKING:
    from appliance.workflows.session.session import Session

JOURNAL = "journal"
FOLDERS = ("passports", "maintenance", QUALIFICATIONS, BURN_INS)
# Of these, this machine may have a later one.
OLDER = {QUALIFICATIONS: is_older, BURN_INS: is_older_burn_in}


@dataclass(frozen=True)
class AdoptResult:
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


def site_adopt(session: Session) -> AdoptResult:
    """Fetch what the control-plane nodes hold, and say how the site was left.

    Raises:
        NodeUnreachable: no control-plane node answers.
    """
    lock = session.lock.look()
    new: list[str] = []
    skipped: list[str] = []
    for folder in FOLDERS:
        for name, text in session.archive.everything(folder).items():
            try:
                if folder in OLDER and OLDER[folder](session.documents, name, text):
                    continue
                if session.documents.keep(name, text):
                    new.append(name)
            except Unreadable as error:
                skipped.append(f"{name[:200]!r} on the control-plane nodes: {error}")
    there = session.archive.everything(JOURNAL)
    records = {name.removeprefix(f"{JOURNAL}/"): text for name, text in there.items()}
    merged = session.records.merge(records)
    return AdoptResult(
        merged.new,
        tuple(new),
        handover(session.records.read(), lock),
        (*skipped, *merged.skipped),
    )
