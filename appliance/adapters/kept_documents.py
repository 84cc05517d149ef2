"""Documents of the archive, kept in a site's state on this machine."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from appliance.adapters.state_files import replace_file
from appliance.model.strict_json import Unreadable, read_json

# Of the archive's names these only; none of their parts can be a way out of the folder.
_PART: Final = r"[A-Za-z0-9][A-Za-z0-9._-]{0,200}"
_NAME: Final = re.compile(rf"{_PART}(/{_PART}){{1,3}}")


class KeptDocuments:
    """Files below ``<site>/.appliance/``, by the names that the archive gives them."""

    def __init__(self, state_directory: Path) -> None:
        self._directory = state_directory

    def keep(self, name: str, text: str) -> bool:
        """Write a document (0600) unless it is here already; whether anything was written.

        Raises:
            Unreadable: the name is no name of a document, or the text is not one.
            OSError: it could not be written.
        """
        path = self._place(name)
        read_json(text)
        try:
            if not path.is_symlink() and path.is_file() and path.read_bytes() == text.encode():
                return False
            replace_file(path, text)
        except (IsADirectoryError, NotADirectoryError, FileExistsError) as error:
            raise Unreadable(f"something else is at its place: {error.strerror}") from error
        return True

    def _place(self, name: str) -> Path:
        if not _NAME.fullmatch(name):
            raise Unreadable("its name is not that of a document")
        path = self._directory / name
        if not path.parent.resolve().is_relative_to(self._directory.resolve()):
            raise Unreadable(f"its folder leads out of {self._directory}")
        return path
