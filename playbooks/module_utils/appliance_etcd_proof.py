"""Save a snapshot of this node's etcd, and prove it by restoring it once.

A snapshot that was proved has a file beside it, ``NAME.db.json``, with its sha256 and what it
holds; one without was never restored. Python 3.8, standard library. What must not be here: when a
snapshot is due (the control host decides that).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from ansible.module_utils import (
    appliance_etcd_file,
    appliance_etcd_snapshot,
    appliance_etcd_trial,
    appliance_files,
)

SCHEMA = 1
ERRORS = (
    appliance_etcd_file.FileError,
    appliance_etcd_snapshot.SnapshotError,
    appliance_etcd_trial.TrialError,
    OSError,
)


def prove(why, limits, keep=()):
    """Save a snapshot, restore it once, and return what is known of it.

    Args:
        why: a word for the name of the file, which decides what else is kept.
        limits: for the restore; its seconds also for reading the file.
        keep: names of older snapshots that stay, however many there are.

    Raises:
        one of ERRORS: there is no snapshot, or it was not shown to be restorable.
    """
    if not appliance_etcd_trial.healthy(appliance_etcd_trial.Gateway()):
        raise appliance_etcd_trial.TrialError("etcd on this node does not report itself as healthy")
    programs = appliance_etcd_trial.running_programs()
    path = Path(appliance_etcd_snapshot.snapshot(why, keep))
    return examine(path, programs, limits)


def examine(path, programs, limits):
    """Restore a snapshot that is there once, write what is known beside it, and return that."""
    digest, whole = appliance_etcd_file.sums(path)
    if not whole:
        raise appliance_etcd_file.FileError("%s is damaged: etcd's checksum is another" % path)
    content = appliance_etcd_file.content(path, limits.seconds)
    trial = appliance_etcd_trial.restore_once(path, content, programs, limits)
    known = {
        "schema": SCHEMA,
        "path": str(path),
        "sha256": digest,
        "size_bytes": path.stat().st_size,
        "revision": content.revision,
        "keys": content.keys,
        "digest": content.digest,
        "etcd_version": trial.version,
        "restore_seconds": round(trial.seconds, 1),
    }
    appliance_files.write(path.with_name(path.name + ".json"), json.dumps(known), mode=0o600)
    for beside in path.parent.glob("*.db.json"):
        if not beside.with_name(beside.name[: -len(".json")]).exists():
            beside.unlink()
    return known


def main():
    """Prove a snapshot for the given reason, limits and names to keep; print one JSON object."""
    limits = appliance_etcd_trial.Limits(int(sys.argv[2]), int(sys.argv[3]))
    try:
        known = prove(sys.argv[1], limits, sys.argv[4:])
    except ERRORS as error:
        json.dump({"error": str(error)}, sys.stdout)
        return 1
    json.dump(known, sys.stdout)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
