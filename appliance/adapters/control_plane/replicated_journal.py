"""The journal of a changing command: copied to the control-plane nodes.

A thread copies the records: a slow node delays no step. Records that could not be copied are copied
with the next record, by this or a later command.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from appliance.errors import ApplianceError

if TYPE_CHECKING:
    from appliance.adapters.control_plane.archive import ControlPlaneArchive
    from appliance.adapters.control_plane.journal import FileJournal
    from appliance.model.state.journal import Record

ARCHIVE = "journal"


class KeptJournal:
    """Appends to the site's journal, and copies it to the control-plane nodes.

    Args:
        journal: the journal on this machine, complete for all work from here.
        archive: documents on the control-plane nodes.
        say: prints a sentence for the operator.
    """

    def __init__(
        self, journal: FileJournal, archive: ControlPlaneArchive, say: Callable[[str], None]
    ) -> None:
        self._journal = journal
        self._archive = archive
        self._say = say
        self._due = threading.Event()
        self._thread: threading.Thread | None = None
        self._wake = threading.Lock()
        self._kept: set[str] | None = None
        self._told = False

    def append(self, record: Record) -> None:
        """Write one record on this machine, and start copying it."""
        self._journal.append(record)
        with self._wake:
            self._due.set()
            if self._thread is None:
                self._thread = threading.Thread(target=self._copy, daemon=True, name="journal")
                self._thread.start()

    def read(self, *, limit: int | None = None) -> list[Record]:
        """The latest records of this machine's journal, oldest first."""
        return self._journal.read(limit=limit)

    def durations(self) -> dict[str, float]:
        """Step name -> seconds of its last verified run."""
        return self._journal.durations()

    def settle(self, seconds: float) -> None:
        """Wait for the copies up to a limit; the rest is copied later."""
        thread = self._thread
        if thread is not None:
            thread.join(seconds)
            if thread.is_alive():
                self._tell("copying timed out")

    def _copy(self) -> None:
        """Copy until all records are copied; a failed copy is retried with the next record."""
        while True:
            with self._wake:
                if not self._due.is_set():
                    self._thread = None
                    return
                self._due.clear()
            try:
                self._copy_missing()
            except (ApplianceError, OSError) as error:
                self._tell(error.message if isinstance(error, ApplianceError) else str(error))

    def _copy_missing(self) -> None:
        """Copy the records that the nodes lack; an invalid record is never copied.

        Raises:
            NodeUnreachable: too few control-plane nodes answer.
        """
        if self._kept is None:
            self._kept = set(self._archive.names(ARCHIVE))
        for path in self._journal.paths():
            name = f"{ARCHIVE}/{path.name}"
            if name in self._kept:
                continue
            text = self._journal.document(path.name)
            if text is not None:
                self._archive.put(name, text)
                self._kept.add(name)

    def _tell(self, why: str) -> None:
        if not self._told:
            self._told = True
            self._say(f"the journal will be copied to the control-plane nodes later: {why}")
