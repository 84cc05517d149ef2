"""What a folder holds, to the last bit that a command could have changed."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def snapshot(folder: Path) -> dict[str, tuple[int, str | bytes]]:
    """Every name below a folder: its mode, and its content or where it leads."""
    found: dict[str, tuple[int, str | bytes]] = {}
    for root, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(root) / name
            mode = path.lstat().st_mode
            content: str | bytes = b""
            if stat.S_ISLNK(mode):
                content = str(path.readlink())
            elif stat.S_ISREG(mode):
                content = path.read_bytes()
            found[str(path.relative_to(folder))] = (mode, content)
    return found
