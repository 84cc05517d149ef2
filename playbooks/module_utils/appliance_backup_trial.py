"""Restore a snapshot of etcd that comes from a backup, in a scratch etcd of its own folder.

The snapshot is the standard input; it goes again when the trial ends. Python 3.8, standard
library. What must not be here: the node's own etcd, which is not touched.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import shutil
import sys

from ansible.module_utils import (
    appliance_backup,
    appliance_backup_folder,
    appliance_etcd_file,
    appliance_etcd_trial,
)

# Left free for the node, beside the snapshot and its restored copy.
RESERVE = 1 << 30
ERRORS = (
    appliance_backup_folder.FolderError,
    appliance_etcd_file.FileError,
    appliance_etcd_trial.TrialError,
    http.client.HTTPException,
    OSError,
)


def receive(path, size, stream, sha256=""):
    """Write so many bytes into a new file.

    Args:
        path: the file.
        size: in bytes.
        stream: where they come from.
        sha256: of all of them; empty: any.

    Raises:
        OSError: fewer or others came, or the disk has too little space for the trial.
    """
    if shutil.disk_usage(str(path.parent)).free < 2 * size + RESERVE:
        raise OSError("this node has too little space to restore a snapshot of %d bytes" % size)
    handle, left = os.open(str(path), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), size
    digest = hashlib.sha256()
    with os.fdopen(handle, "wb") as file:
        while left:
            piece = stream.read(min(left, appliance_backup.CHUNK))
            if not piece:
                raise OSError("it did not come to its end")
            file.write(piece)
            digest.update(piece)
            left -= len(piece)
    if sha256 and digest.hexdigest() != sha256:
        raise OSError("what came is not what was saved: its sha256 is another")


def trial(path, limits):
    """Return what a snapshot holds, once a scratch etcd answered the same."""
    digest, whole = appliance_etcd_file.sums(path)
    if not whole:
        raise appliance_etcd_file.FileError("it is damaged: etcd's checksum is another")
    content = appliance_etcd_file.content(path, limits.seconds)
    programs = appliance_etcd_trial.running_programs()
    found = appliance_etcd_trial.restore_once(path, content, programs, limits)
    return dict(content._asdict(), sha256=digest, version=found.version)


def main():
    """Receive and try the snapshot that the JSON in the first argument describes."""
    want = json.loads(sys.argv[1])
    limits = appliance_etcd_trial.Limits(int(want["seconds"]), int(want["memory_mb"]))

    def tried():
        with appliance_backup_folder.working_folder(want["folder"]) as data:
            receive(data / "snapshot.db", int(want["size"]), sys.stdin.buffer)
            return trial(data / "snapshot.db", limits)

    return appliance_backup.answer(tried, ERRORS)


if __name__ == "__main__":
    raise SystemExit(main())
