"""Documents of the archive, kept in a site's state on this machine."""

from __future__ import annotations

import os
from pathlib import Path


class KeptDocuments:
    """Files below ``<site>/.appliance/``, by the names that the archive gives them."""

    def __init__(self, state_directory: Path) -> None:
        self._directory = state_directory

    def keep(self, name: str, text: str) -> bool:
        """Write a document (0600) unless it is here already; whether anything was written."""
        path = self._directory / name
        if ".." in Path(name).parts or (path.is_file() and path.read_text("utf-8") == text):
            return False
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.new")
        temporary.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with os.fdopen(os.open(temporary, flags, 0o600), "w", encoding="utf-8") as stream:
            stream.write(text)
        temporary.rename(path)
        return True
