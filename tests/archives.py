"""How tests unpack archives: with the filter for data, which Python has from 3.11.4 on."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Any, Final

SAFELY: Final[dict[str, Any]] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}


def extract(opened: tarfile.TarFile, folder: Path) -> None:
    """Unpack an archive that the test or the builder made."""
    opened.extractall(folder, **SAFELY)  # noqa: S202 - no stranger's archive
