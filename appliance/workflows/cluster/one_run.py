"""One journal for workflows that run within another: the records of a run are numbered through."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from appliance.model.state.journal import Record
    from appliance.workflows.session.ports import JournalPort


class OneRun:
    """Appends to a journal, and gives each record the next number of its run."""

    def __init__(self, journal: JournalPort) -> None:
        self._journal = journal
        self._sequence = 0

    def append(self, record: Record) -> None:
        """Write one finished step."""
        self._sequence += 1
        self._journal.append(replace(record, sequence=self._sequence))

    def read(self, *, limit: int | None = None) -> Sequence[Record]:
        """The latest records, oldest first."""
        return self._journal.read(limit=limit)

    def durations(self) -> dict[str, float]:
        """Step -> seconds its last verified run took."""
        return self._journal.durations()
