"""A folder of our own for what a backup writes on a node: 0700, locked, removed with evidence.

What goes is proved to be ours: a folder with our marker, which nothing holds, directly in our
place. Python 3.8, standard library. What must not be here: what is written there.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import stat
from pathlib import Path

PLACE = Path("/var/lib/appliance/backup")
PROC = Path("/proc")
MARKER, DATA = "backup.json", "data"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,120}")


class FolderError(Exception):
    """There is no folder for a backup, or what is there is not ours; the text has the reason."""


@contextlib.contextmanager
def working_folder(name):
    """Make a folder for one run and yield its data folder; remove it afterwards.

    Folders of runs that were killed go first.

    Raises:
        FolderError: there is no room for it, or another run holds it.
    """
    if not _NAME.fullmatch(name):
        raise FolderError("%r is not the name of a backup" % name[:100])
    _make_place()
    folder = PLACE / name
    # A new folder has no lock for a moment, and must not look like one that was left.
    with _alone():
        remove_left()
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError as error:
            raise FolderError("%s is in use: another backup of that name runs" % folder) from error
        lock = os.open(str(folder / MARKER), os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        os.write(lock, marker(folder))
        data = folder / DATA
        data.mkdir(mode=0o700)
        yield data
    finally:
        os.close(lock)
        take_away(folder)


def _make_place():
    PLACE.mkdir(mode=0o700, parents=True, exist_ok=True)
    seen = PLACE.lstat()
    if not stat.S_ISDIR(seen.st_mode) or seen.st_uid != os.geteuid():
        raise FolderError("%s is no folder of ours: move it away, then run again" % PLACE)
    PLACE.chmod(0o700)


def tidy():
    """Remove the folders of runs that were killed, before room for another one is looked for.

    Raises:
        FolderError: the place is not ours.
    """
    _make_place()
    with _alone():
        remove_left()


@contextlib.contextmanager
def _alone():
    handle = os.open(str(PLACE), os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def marker(folder):
    """Return what the marker of a folder of ours says."""
    return json.dumps({"made_by": "appliance_backup", "folder": folder.name}).encode()


def remove_left():
    """Remove the folders of runs that were killed; whatever is not ours stays."""
    for left in sorted(PLACE.iterdir()):
        with contextlib.suppress(FolderError, OSError):
            take_away(left)


def left_bytes():
    """Return how much the folders of killed runs hold: they go before the next one is made."""
    found = 0
    for folder in PLACE.iterdir() if PLACE.is_dir() else ():
        with contextlib.suppress(OSError):
            lock = os.open(str(folder / MARKER), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
                found += sum(one.lstat().st_blocks * 512 for one in (folder / DATA).iterdir())
            finally:
                os.close(lock)
    return found


def take_away(folder):
    """Remove a folder of a backup: only one with our marker, which no run holds.

    Raises:
        FolderError: it is not ours, or a run still holds it.
        OSError: it could not be removed.
    """
    seen = folder.lstat()
    if not stat.S_ISDIR(seen.st_mode) or seen.st_uid != os.geteuid() or folder.parent != PLACE:
        raise FolderError("%s is no folder of ours" % folder)
    if not list(folder.iterdir()):
        folder.rmdir()  # of a run that was killed before it had its marker, or after
        return
    try:
        lock = os.open(str(folder / MARKER), os.O_RDONLY | os.O_NOFOLLOW)
    except OSError as error:
        raise FolderError("%s has no marker of ours" % folder) from error
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise FolderError("a run still holds %s" % folder) from error
        strange = {entry.name for entry in folder.iterdir()} - {MARKER, DATA}
        if os.read(lock, 4096) not in (b"", marker(folder)) or strange or _mounted_below(folder):
            raise FolderError("%s holds what no backup writes" % folder)
        data = folder / DATA
        if data.is_symlink():
            raise FolderError("%s is a link" % data)
        if data.exists():
            shutil.rmtree(str(data))
        (folder / MARKER).unlink()
        folder.rmdir()
    finally:
        os.close(lock)


def _mounted_below(folder):
    inside = "%s/" % folder
    for line in (PROC / "self/mountinfo").read_text(errors="replace").splitlines():
        if (line.split(" ")[4] + "/").startswith(inside):
            return True
    return False
