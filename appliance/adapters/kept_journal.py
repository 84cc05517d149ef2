"""The journal of a command that changes a site: guarded by the lock, copied to the nodes.

Records are copied by a thread, so that a slow node slows no step; what could not be copied is
copied with the next record, by this or a later command.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from appliance.errors import ApplianceError

if TYPE_CHECKING:
    from appliance.adapters.archive import ControlPlaneArchive
    from appliance.adapters.journal import FileJournal
    from appliance.model.journal import Record

ARCHIVE = "journal"


class Guard(Protocol):
    """What keeps other commands away."""

    def begin(self) -> tuple[str, ...]:
        """Take the site, or make sure that it is ours still; sentences for the record."""


class KeptJournal:
    """Appends to the site's own journal, and keeps a copy on the control-plane nodes.

    Args:
        journal: on this machine; the truth of what was done from here.
        archive: documents on the control-plane nodes.
        say: tells the operator a sentence.
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
        self.guard: Guard | None = None

    def begin(self) -> tuple[str, ...]:
        """Make sure that the site is this command's."""
        return self.guard.begin() if self.guard else ()

    def append(self, record: Record) -> None:
        """Write one record here, and have it copied."""
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
        """Step name -> seconds its last proven run took."""
        return self._journal.durations()

    def settle(self, seconds: float) -> None:
        """Wait for the copies, at most so long; the rest is copied another time."""
        thread = self._thread
        if thread is not None:
            thread.join(seconds)
            if thread.is_alive():
                self._tell("the control-plane nodes take their time")

    def _copy(self) -> None:
        """Copy until nothing is due; a copy that fails is due again with the next record."""
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
        """Copy what the nodes lack; what is no whole record here would be none there for ever.

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
