"""Reads and writes the lists that one machine writes for another, as ``bundle have`` does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from appliance.adapters.local.plain_files import read_plain
from appliance.adapters.local.state_files import COMMITTABLE, replace_file
from appliance.errors import BundleRefused, Refused
from appliance.model.documents.strict_json import MOST_BYTES

Listed = TypeVar("Listed")


def read_list(path: Path, parse: Callable[[bytes, str], Listed], command: str) -> Listed:
    """The list in a file that ``command`` wrote.

    Raises:
        BundleRefused: it cannot be read, or is not such a list.
    """
    try:
        content = read_plain(path, most_bytes=MOST_BYTES, follow=True)
    except OSError as error:
        raise BundleRefused(
            f"the list {path} cannot be read: {error.strerror or error}",
            hint=f"name the file that 'appliance {command}' wrote",
        ) from error
    return parse(content, str(path))


def write_list(path: Path, text: str, read: Callable[[Path], object]) -> None:
    """Write a list; only an earlier list, which ``read`` can read, is replaced.

    Raises:
        Refused: the file is something else, or cannot be written.
    """
    if path.exists() or path.is_symlink():
        try:
            read(path)
        except BundleRefused as error:
            raise Refused(
                f"{path} is there and holds something else; nothing was written",
                hint="name another file with --out",
            ) from error
    try:
        replace_file(path, text, mode=COMMITTABLE)
    except OSError as error:
        raise Refused(
            f"{path} cannot be written: {error.strerror or error}",
            hint="name another file with --out",
        ) from error
