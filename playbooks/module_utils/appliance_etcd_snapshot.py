"""Save a snapshot of this node's etcd, verified by the checksum at its end.

It uses etcd's own gateway with the API server's certificate, so it needs neither a program nor a
container runtime. ``etcdutl snapshot restore`` accepts the file. Python 3.8, standard library,
self-contained: only this file runs. What must not be here: when a snapshot is due.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import hashlib
import http.client
import json
import os
import ssl
import sys
import time
from pathlib import Path

PKI = Path("/etc/kubernetes/pki")
SNAPSHOTS = Path("/var/lib/appliance/etcd-snapshots")
DATABASE = Path("/var/lib/etcd/member/snap/db")
PORT = 2379
KEPT = 5
MB = 1000 * 1000


class SnapshotError(Exception):
    """There is no snapshot; the text has the reason."""


def snapshot(why, keep=()):
    """Save a snapshot of etcd, 0600, and verify the checksum at its end; return its path.

    It uses etcd's own gateway, so it needs no program and no container runtime. Only the latest of
    a reason are kept, and those whose names are given: the one before an upgrade that goes on.
    """
    try:
        SNAPSHOTS.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _held():
            _need_room()
            stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
            path = SNAPSHOTS / ("%s-%s.db" % (stamp, why))
            _save(path)
            # Sorted by name, but never this one: the clock may have been set back.
            stays = {path} | {SNAPSHOTS / name for name in keep}
            for old in sorted(set(SNAPSHOTS.glob("*-%s.db" % why)) - stays)[: 1 - KEPT]:
                old.unlink(missing_ok=True)
    except OSError as error:
        raise SnapshotError(
            "the snapshot of etcd was not saved: %s; check that %s is writable and its disk has "
            "space, then run again" % (error, SNAPSHOTS)
        ) from error
    return str(path)


@contextlib.contextmanager
def _held():
    """Lock the folder, and first remove incomplete files if no other process has the lock."""
    handle = os.open(str(SNAPSHOTS), os.O_RDONLY)
    try:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for left in SNAPSHOTS.glob("*.db.new"):
                left.unlink()
        fcntl.flock(handle, fcntl.LOCK_SH)
        yield
    finally:
        os.close(handle)


def _need_room():
    """Refuse when the disk has no space for etcd's database, where its size is known."""
    try:
        needed = DATABASE.stat().st_size * 11 // 10
    except OSError:
        return
    disk = os.statvfs(str(SNAPSHOTS))
    free = disk.f_bavail * disk.f_frsize
    if free < needed:
        raise SnapshotError(
            "no space for a snapshot of etcd: %s has %d MB free and %d MB are needed "
            "(etcd's database and 10 percent); move older snapshots off this node, or free "
            "other disk space, then run again" % (SNAPSHOTS, free // MB, -(-needed // MB))
        )


def _save(path):
    """Write a whole snapshot, or nothing."""
    new = path.with_name(path.name + ".new")
    handle = os.open(str(new), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    digest, tail, size = hashlib.sha256(), b"", 0
    try:
        with os.fdopen(handle, "wb") as stream:
            for blob in _blobs():
                stream.write(blob)
                size += len(blob)
                tail += blob
                digest.update(tail[:-32])
                tail = tail[-32:]
            stream.flush()
            os.fsync(stream.fileno())
        if size % 512 != 32 or digest.digest() != tail:
            raise SnapshotError("the snapshot of etcd is incomplete (%d bytes)" % size)
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


def _blobs():
    try:
        with contextlib.closing(_connection()) as connection:
            connection.request("POST", "/v3/maintenance/snapshot", body=b"{}")
            answer = connection.getresponse()
            if answer.status != 200:
                raise SnapshotError("etcd sent no snapshot: it answers %d" % answer.status)
            for line in answer:
                message = json.loads(line)
                if "result" not in message:
                    raise SnapshotError("etcd sent no snapshot: %s" % message)
                yield base64.b64decode(message["result"].get("blob", ""))
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise SnapshotError("etcd sent no snapshot: %s" % error) from error


def _connection():
    context = ssl.create_default_context(cafile=str(PKI / "etcd/ca.crt"))
    client = PKI / "apiserver-etcd-client"
    context.load_cert_chain(str(client) + ".crt", str(client) + ".key")
    return http.client.HTTPSConnection("127.0.0.1", PORT, context=context, timeout=60)


def main():
    """Save a snapshot for the given reason; print its path, or why there is none."""
    try:
        sys.stdout.write(snapshot(sys.argv[1]) + "\n")
    except (SnapshotError, OSError) as error:
        sys.stdout.write("%s\n" % error)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
