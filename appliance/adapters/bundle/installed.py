"""Reads and writes the list of ``site packages``."""

from __future__ import annotations

from pathlib import Path

from appliance.adapters.bundle.lists import read_list, write_list
from appliance.model.bundle.installed import InstalledList


def read_installed(path: Path) -> InstalledList:
    """The list in a file.

    Raises:
        BundleRefused: it cannot be read, or is not such a list.
    """
    return read_list(path, InstalledList.parse, "site packages")


def write_installed(path: Path, found: InstalledList) -> None:
    """Write a list; only an earlier list is replaced.

    Raises:
        Refused: the file is something else, or cannot be written.
    """
    write_list(path, found.text(), read_installed)
