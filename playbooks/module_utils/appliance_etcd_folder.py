"""The folder of a scratch etcd: made 0700, locked, and removed with nothing else.

What goes is proved to be ours: a folder with our marker, which nothing holds, and with nothing in
it that no trial writes. Python 3.8, standard library. What must not be here: what runs in it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import stat
import time
import uuid
from pathlib import Path

TRIALS = Path("/var/lib/appliance/etcd-trials")
LIVE = Path("/var/lib/etcd")
PROC = Path("/proc")
MARKER, LOG, DATA = "trial.json", "etcd.log", "data"
# etcd allocates two segments of its log, of 64 MB each, when it starts.
EXTRA_BYTES = 256 << 20
MB = 1000 * 1000


class FolderError(Exception):
    """There is no folder for a trial, or what is there is not ours; the text has the reason."""


@contextlib.contextmanager
def folder_of_our_own(snapshot):
    """Make a folder of our own, 0700, with its marker locked; remove it afterwards."""
    TRIALS.mkdir(mode=0o700, parents=True, exist_ok=True)
    if TRIALS.is_symlink() or LIVE.resolve() in (TRIALS.resolve(), *TRIALS.resolve().parents):
        raise FolderError("%s is a link, or lies within %s" % (TRIALS, LIVE))
    for left in sorted(TRIALS.iterdir()):
        take_away(left)
    _need_room(snapshot)
    folder = TRIALS / uuid.uuid4().hex
    folder.mkdir(mode=0o700)
    lock = os.open(str(folder / MARKER), os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        os.write(lock, marker(folder))
        yield folder, lock
    finally:
        os.close(lock)
        take_away(folder)


def marker(folder):
    """Return what the marker of a folder of ours says."""
    return json.dumps({"made_by": "appliance_etcd_trial", "folder": folder.name}).encode()


def _need_room(snapshot):
    needed = snapshot.stat().st_size * 11 // 10 + EXTRA_BYTES
    disk = os.statvfs(str(TRIALS))
    free = disk.f_bavail * disk.f_frsize
    if free < needed:
        raise FolderError(
            "no space to restore the snapshot once: %s has %d MB free and %d MB are needed; free "
            "disk space, then run again" % (TRIALS, free // MB, -(-needed // MB))
        )


def take_away(folder):
    """Remove a folder of a trial: only one with our marker, and only what a trial writes there.

    Raises:
        FolderError: it is not ours, or its etcd still runs.
    """
    seen = folder.lstat()
    if not stat.S_ISDIR(seen.st_mode) or seen.st_uid != os.geteuid():
        raise FolderError("%s is no folder of ours: move it away, then run again" % folder)
    if not list(folder.iterdir()):
        folder.rmdir()  # of a trial that was killed before it had its marker, or after
        return
    try:
        lock = os.open(str(folder / MARKER), os.O_RDONLY | os.O_NOFOLLOW)
    except OSError as error:
        raise FolderError("%s has no marker of ours: move it away, then run again" % folder) from (
            error
        )
    try:
        _lock_once_quiet(lock, folder)
        found = os.read(lock, 4096)
        strange = {entry.name for entry in folder.iterdir()} - {MARKER, LOG, DATA}
        if found not in (b"", marker(folder)) or strange or _mounted_below(folder):
            raise FolderError(
                "%s holds what no trial writes: move it away, then run again" % folder
            )
        data = folder / DATA
        if data.is_symlink():
            raise FolderError("%s is a link: remove it, then run again" % data)
        if data.exists():
            shutil.rmtree(str(data))
        (folder / LOG).unlink(missing_ok=True)
        (folder / MARKER).unlink()
        folder.rmdir()
    finally:
        os.close(lock)


def _lock_once_quiet(lock, folder, seconds=15):
    """Lock a marker; whoever runs a trial there holds it, its etcd too."""
    until = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if time.monotonic() > until:
                raise FolderError("another trial still runs in %s" % folder) from error
            time.sleep(0.2)
        else:
            return


def _mounted_below(folder):
    inside = "%s/" % folder
    for line in (PROC / "self/mountinfo").read_text(errors="replace").splitlines():
        if (line.split(" ")[4] + "/").startswith(inside):
            return True
    return False
