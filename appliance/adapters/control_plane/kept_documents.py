"""Copies of the archive's documents in a site's state on this machine."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from appliance.adapters.local.state_files import replace_file
from appliance.model.documents.strict_json import MOST_BYTES, Unreadable, read_json

# The accepted names of the archive; no part of a name can leave the folder.
_PART: Final = r"[A-Za-z0-9][A-Za-z0-9._-]{0,200}"
_NAME: Final = re.compile(rf"{_PART}(/{_PART}){{1,3}}")


class KeptDocuments:
    """Files below ``<site>/.appliance/``, with the names of the archive."""

    def __init__(self, state_directory: Path) -> None:
        self._directory = state_directory

    def keep(self, name: str, text: str) -> bool:
        """Write a document (0600) unless it exists already; return whether it was written.

        Raises:
            Unreadable: the name or the text is not that of a document.
            OSError: the document could not be written.
        """
        path = self._place(name)
        read_json(text)
        try:
            if not path.is_symlink() and path.is_file() and path.read_bytes() == text.encode():
                return False
            replace_file(path, text)
        except (IsADirectoryError, NotADirectoryError, FileExistsError) as error:
            raise Unreadable(f"another file blocks its path: {error.strerror}") from error
        return True

    def read(self, name: str) -> str | None:
        """The text of a document; None where there is none, or something else is in its place.

        Raises:
            Unreadable: the name is not that of a document.
        """
        path = self._place(name)
        try:
            # A pipe would be waited for, and a link leads elsewhere.
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            with os.fdopen(handle, "rb") as stream:
                content = stream.read(MOST_BYTES + 1)
            return content.decode() if len(content) <= MOST_BYTES else None
        except (OSError, UnicodeDecodeError):
            return None

    def _place(self, name: str) -> Path:
        if not _NAME.fullmatch(name):
            raise Unreadable("its name is not that of a document")
        path = self._directory / name
        if not path.parent.resolve().is_relative_to(self._directory.resolve()):
            raise Unreadable(f"its folder is outside {self._directory}")
        return path
