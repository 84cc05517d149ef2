"""Reads and writes the list of ``site packages``."""

from __future__ import annotations

from pathlib import Path

from appliance.adapters.local.plain_files import read_plain
from appliance.adapters.local.state_files import COMMITTABLE, replace_file
from appliance.errors import BundleRefused, Refused
from appliance.model.bundle.installed import InstalledList
from appliance.model.documents.strict_json import MOST_BYTES


def read_installed(path: Path) -> InstalledList:
    """The list in a file.

    Raises:
        BundleRefused: it cannot be read, or is not such a list.
    """
    try:
        content = read_plain(path, most_bytes=MOST_BYTES, follow=True)
    except OSError as error:
        raise BundleRefused(
            f"the list {path} cannot be read: {error.strerror or error}",
            hint="name the file that 'appliance site packages' wrote",
        ) from error
    return InstalledList.parse(content, str(path))


def write_installed(path: Path, found: InstalledList) -> None:
    """Write a list; only an earlier list is replaced.

    Raises:
        Refused: the file is something else, or cannot be written.
    """
    if path.exists() or path.is_symlink():
        try:
            read_installed(path)
        except BundleRefused as error:
            raise Refused(
                f"{path} is there and holds something else; nothing was written",
                hint="name another file with --out",
            ) from error
    try:
        replace_file(path, found.text(), mode=COMMITTABLE)
    except OSError as error:
        raise Refused(
            f"{path} cannot be written: {error.strerror or error}",
            hint="name another file with --out",
        ) from error
