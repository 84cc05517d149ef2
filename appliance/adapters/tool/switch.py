"""The switch from one environment to another: one link is replaced, atomically.

Whoever types the program gets the old version or the new one. A process of the old version that is
still at work keeps its own files: no environment is moved or changed.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from appliance.errors import Refused


def previous_of(door: Path, version: str) -> Path:
    """The program that a door leads to; one that is no link yet gets a second name first.

    Args:
        door: the program that is typed.
        version: its version, for the second name.

    Raises:
        OSError: the second name could not be given.
    """
    if door.is_symlink():
        return Path(os.path.normpath(door.parent / door.readlink()))
    kept = door.with_name(f"{door.name}-{version}")
    if not os.path.lexists(kept):
        try:
            os.link(door, kept)
        except OSError:  # not every file system has links
            new = door.with_name(f".{kept.name}.new")
            shutil.copy2(door, new)
            new.replace(kept)
    return kept


def kept_name(door: Path, version: str) -> Path:
    """The program that :func:`previous_of` will return; changes nothing."""
    if door.is_symlink():
        return Path(os.path.normpath(door.parent / door.readlink()))
    return door.with_name(f"{door.name}-{version}")


def leads_to(door: Path, program: Path) -> bool:
    """Whether a door leads to a program."""
    return door.is_symlink() and door.resolve() == program.resolve()


def switch(door: Path, program: Path) -> None:
    """Let the door lead to a program.

    Raises:
        OSError: the link could not be written; the door leads where it did.
    """
    new = door.with_name(f".{door.name}.new")
    new.unlink(missing_ok=True)
    new.symlink_to(os.path.relpath(program, door.parent))
    new.replace(door)
    handle = os.open(door.parent, os.O_RDONLY)
    try:
        with suppress(OSError):  # file systems that cannot sync a folder
            os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def held(door: Path) -> Iterator[None]:
    """Let one upgrade at a time change what a door leads to.

    Raises:
        Refused: another one is at work, or this user may not write there.
    """
    if not os.access(door.parent, os.W_OK) or not os.access(door.parent.parent.parent, os.W_OK):
        raise Refused(
            f"this user may not write into {door.parent} and {door.parent.parent.parent}",
            hint=f"run the same command as the owner: ls -ld {door.parent}",
        )
    handle = os.open(door.parent, os.O_RDONLY)
    try:
        _lock(handle, door)
        yield
    finally:
        os.close(handle)


def _lock(handle: int, door: Path) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise Refused(
            f"another upgrade of {door} is at work: nothing was changed",
            hint="wait until it has finished, then run the same command again",
        ) from None
