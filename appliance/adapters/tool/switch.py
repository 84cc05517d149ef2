"""The switch from one environment to another: one link is replaced, atomically.

Whoever types the program gets the old version or the new one. A process of the old version that is
still at work keeps its own files: no environment is moved or changed.
"""

from __future__ import annotations

import fcntl
import os
import pwd
import shlex
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from appliance.errors import Refused


def previous_of(launcher: Path, version: str) -> Path:
    """The program that a launcher leads to; one that is no link yet gets a second name first.

    Args:
        launcher: the program that is typed.
        version: its version, for the second name.

    Raises:
        OSError: the second name could not be given.
    """
    if launcher.is_symlink():
        return Path(os.path.normpath(launcher.parent / launcher.readlink()))
    kept = launcher.with_name(f"{launcher.name}-{version}")
    if not os.path.lexists(kept):
        try:
            os.link(launcher, kept)
        except OSError:  # not every file system has links
            new = launcher.with_name(f".{kept.name}.new")
            shutil.copy2(launcher, new)
            new.replace(kept)
    return kept


def kept_name(launcher: Path, version: str) -> Path:
    """The program that :func:`previous_of` will return; changes nothing."""
    if launcher.is_symlink():
        return Path(os.path.normpath(launcher.parent / launcher.readlink()))
    return launcher.with_name(f"{launcher.name}-{version}")


def leads_to(launcher: Path, program: Path) -> bool:
    """Whether a launcher leads to a program."""
    return launcher.is_symlink() and launcher.resolve() == program.resolve()


def switch(launcher: Path, program: Path) -> None:
    """Let the launcher lead to a program.

    Raises:
        OSError: the link could not be written; the launcher leads where it did.
    """
    new = launcher.with_name(f".{launcher.name}.new")
    new.unlink(missing_ok=True)
    new.symlink_to(os.path.relpath(program, launcher.parent))
    new.replace(launcher)
    handle = os.open(launcher.parent, os.O_RDONLY)
    try:
        with suppress(OSError):  # file systems that cannot sync a folder
            os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def held(launcher: Path) -> Iterator[None]:
    """Let one upgrade at a time change what a launcher leads to.

    Raises:
        Refused: another one is at work, this user may not write there, or root may not.
    """
    folder, beside = launcher.parent, launcher.parent.parent.parent
    owner = folder.stat().st_uid
    if os.geteuid() == 0 != owner:
        # That user could exchange what root starts here, and could not upgrade it afterwards.
        raise Refused(
            f"{folder} belongs to another user, and this is root: nothing was changed",
            hint=f"run the same command as that user: sudo -u {_name_of(owner)} "
            f"{shlex.quote(str(launcher))} self upgrade --bundle DIR",
        )
    if not os.access(folder, os.W_OK) or not os.access(beside, os.W_OK):
        raise Refused(
            f"this user may not write into {folder} and {beside}: nothing was changed",
            hint=f"run the same command as the owner: ls -ld {shlex.quote(str(folder))}",
        )
    handle = os.open(launcher.parent, os.O_RDONLY)
    try:
        _lock(handle, launcher)
        yield
    finally:
        os.close(handle)


def _name_of(uid: int) -> str:
    try:
        return shlex.quote(pwd.getpwuid(uid).pw_name)
    except KeyError:
        return f"'#{uid}'"


def _lock(handle: int, launcher: Path) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise Refused(
            f"another upgrade of {launcher} is at work: nothing was changed",
            hint="wait until it has finished, then run the same command again",
        ) from None
