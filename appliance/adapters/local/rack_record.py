"""What this machine knows of a rack that was taken down, as a file of the site's state."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Final

from appliance.adapters.local.plain_files import read_plain
from appliance.adapters.local.state_files import replace_file
from appliance.model.plan.rack.mark import RackMark, parse_mark

FILE: Final = "rack.json"
_MOST_BYTES: Final = 4 << 20


class RackFile:
    """One file.

    Args:
        state: the site's state directory.
    """

    def __init__(self, state: Path) -> None:
        self._path = state / FILE

    def read(self) -> RackMark | None:
        """The mark; None without one that can be read."""
        try:
            return parse_mark(read_plain(self._path, most_bytes=_MOST_BYTES).decode())
        except (OSError, ValueError):
            return None

    def write(self, mark: RackMark) -> None:
        """Write it, in place of an older one.

        Raises:
            OSError: it could not be written.
        """
        replace_file(self._path, mark.as_text())

    def drop(self) -> None:
        """Remove it; none is no error."""
        with contextlib.suppress(FileNotFoundError):
            self._path.unlink()
