"""Writes files of the site and its state: each is there whole or not at all, and for its owner.

A file is written beside its place under a name of its own, synced, renamed, and its folder synced:
a full disk, a kill or a power cut leaves the old file or the new one. A link is replaced, never
followed. What must not be here: what the files hold.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

STATE: Final = ".appliance"
PRIVATE_FOLDER: Final = 0o700
PRIVATE_FILE: Final = 0o600
# Of a file that goes under version control.
COMMITTABLE: Final = 0o644


def make_folder(folder: Path, *, mode: int = 0o777) -> None:
    """Make a folder and those above it; from the site's ``.appliance`` down they are 0700.

    Args:
        folder: which.
        mode: of those outside the state.

    Raises:
        OSError: one could not be made.
    """
    missing = [folder, *folder.parents]
    missing = missing[: next(n for n, path in enumerate(missing) if path.is_dir())]
    for path in reversed(missing):
        private = STATE in path.parts
        # Another process may make the same one at the same time.
        with suppress(FileExistsError):
            path.mkdir(mode=PRIVATE_FOLDER if private else mode)
    if not folder.is_dir():
        raise NotADirectoryError(20, "not a directory", str(folder))


def replace_file(path: Path, text: str, *, mode: int = PRIVATE_FILE) -> None:
    """Write a file, or put another in its place; a file that is there keeps its owner.

    Raises:
        OSError: it could not be written; what was there is as it was.
    """
    with _written_beside(path, text, mode) as temporary:
        _keep_owner(path, temporary)
        temporary.replace(path)
    _sync_folder(path.parent)


def write_once(path: Path, text: str, *, mode: int = PRIVATE_FILE) -> None:
    """Write a file that takes nobody's place.

    Raises:
        FileExistsError: there is one of that name.
        OSError: it could not be written; nothing of it is left.
    """
    with _written_beside(path, text, mode) as temporary:
        _give_name(temporary, path)
    _sync_folder(path.parent)


@contextmanager
def _written_beside(path: Path, text: str, mode: int) -> Iterator[Path]:
    make_folder(path.parent)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:100]}.", suffix=".new")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            os.fchmod(stream.fileno(), mode)
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


def _keep_owner(path: Path, temporary: Path) -> None:
    """A command under sudo takes no file from the operator."""
    try:
        before = path.lstat()
    except FileNotFoundError:
        before = path.parent.stat()
    mine = temporary.stat()
    if (before.st_uid, before.st_gid) != (mine.st_uid, mine.st_gid):
        with suppress(OSError):
            os.chown(temporary, before.st_uid, before.st_gid)


def _give_name(temporary: Path, path: Path) -> None:
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise
    except OSError:
        # Not every file system has links. Names hold a random number: nobody else makes this one.
        if path.exists() or path.is_symlink():
            raise FileExistsError(17, "there is one of that name", str(path)) from None
        temporary.rename(path)


def _sync_folder(folder: Path) -> None:
    """The name is on the disk, too; a file system that cannot promise it is no reason to fail."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
