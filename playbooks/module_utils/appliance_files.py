"""Writes files on nodes: whole or not at all, whatever ends the run."""

from __future__ import annotations

import os
import stat
from contextlib import suppress


def write(path, content, mode=None, owner=None):
    """Replace a file atomically, whole even after a power cut; its folder is there.

    Args:
        path: the file.
        content: bytes, or text for UTF-8.
        mode: without one, that of the file that is replaced, or 0644.
        owner: ids of user and group; without them, those of this process.
    """
    data = content if isinstance(content, bytes) else content.encode("utf-8", "surrogateescape")
    if mode is None:
        mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o644
    new = path.with_name(".%s.new" % path.name)
    with suppress(FileNotFoundError):
        new.unlink()  # of a run that was killed, or planted by the owner of the folder
    handle = os.open(str(new), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as stream:
        stream.write(data)
        stream.flush()
        if owner is not None:
            os.fchown(handle, *owner)
        os.fchmod(handle, mode)
        os.fsync(handle)
    new.replace(path)


def put_aside(path):
    """Move a file away under a name that is free; return that name."""
    number = 1
    while True:
        kept = path.with_name("%s.before-appliance-%d" % (path.name, number))
        if not os.path.lexists(str(kept)):
            path.rename(kept)
            return kept
        number += 1
