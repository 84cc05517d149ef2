"""Writes files of the site and its state atomically, and keeps their owner.

A file is written under a temporary name in the same folder, synced, renamed, and the folder synced:
a full disk, a kill or a power cut leaves the old file or the new one. A link is replaced, never
followed. What must not be here: the content of the files.
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
# Mode of a file under version control.
COMMITTABLE: Final = 0o644


def make_folder(folder: Path, *, mode: int = 0o777) -> None:
    """Create a folder and its parents; from the site's ``.appliance`` down they are 0700.

    Args:
        folder: the folder to create.
        mode: mode of folders outside the state.

    Raises:
        OSError: a folder could not be created.
    """
    missing = [folder, *folder.parents]
    missing = missing[: next(n for n, path in enumerate(missing) if path.is_dir())]
    for path in reversed(missing):
        private = STATE in path.parts
        # Another process may create the same folder at the same time.
        with suppress(FileExistsError):
            path.mkdir(mode=PRIVATE_FOLDER if private else mode)
    if not folder.is_dir():
        raise NotADirectoryError(20, "not a directory", str(folder))


def replace_file(path: Path, text: str, *, mode: int = PRIVATE_FILE) -> None:
    """Write a file or replace it; a replaced file keeps its owner.

    Raises:
        OSError: the file could not be written; an earlier file is unchanged.
    """
    with _written_beside(path, text, mode) as temporary:
        _keep_owner(path, temporary)
        temporary.replace(path)
    _sync_folder(path.parent)


def write_once(path: Path, text: str, *, mode: int = PRIVATE_FILE) -> None:
    """Write a new file; never replace one.

    Raises:
        FileExistsError: the file exists already.
        OSError: the file could not be written; no part of it remains.
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
    """Keep the operator as owner, also of files written under sudo."""
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
        # Not every file system has links. The name has a random number: no other process uses it.
        if path.exists() or path.is_symlink():
            raise FileExistsError(17, "the file exists already", str(path)) from None
        temporary.rename(path)


def _sync_folder(folder: Path) -> None:
    """Sync the folder's entries; ignore file systems that cannot."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
