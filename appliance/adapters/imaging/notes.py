"""Notes about servers that are not finished, as files of the site's state on this machine."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Final

from appliance.adapters.local.plain_files import read_plain
from appliance.adapters.local.state_files import replace_file
from appliance.model.documents.strict_json import Unreadable
from appliance.model.node.imaging.batch import Note, read_note

FOLDER: Final = "imaging"
_MOST_BYTES: Final = 10_000


class NoteFiles:
    """One file for each server.

    Args:
        state: the site's state directory.
    """

    def __init__(self, state: Path) -> None:
        self._folder = state / FOLDER

    def read(self, name: str) -> Note | None:
        """The note of a server; one that cannot be read lets nothing be wiped."""
        try:
            return read_note(read_plain(self._path(name), most_bytes=_MOST_BYTES).decode())
        except (OSError, ValueError, Unreadable):
            return None

    def keep(self, name: str, note: Note) -> None:
        """Write it."""
        replace_file(self._path(name), note.text())

    def drop(self, name: str) -> None:
        """Remove it."""
        with contextlib.suppress(FileNotFoundError):
            self._path(name).unlink()

    def _path(self, name: str) -> Path:
        # Names of nodes are host names: the inventory's reader refuses every other form.
        return self._folder / f"{name}.json"
