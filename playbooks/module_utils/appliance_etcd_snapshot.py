"""Save a snapshot of this node's etcd, proved by the checksum at its end.

Through etcd's own gateway with the API server's certificate, so it needs neither a program nor a
container runtime. ``etcdutl snapshot restore`` takes what is written. Python 3.8, standard library,
self-contained: this file is what runs. What must not be here: when a snapshot is due.
"""

from __future__ import annotations

import base64
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
KEPT = 5


class SnapshotError(Exception):
    """There is no snapshot; the text says why."""


def snapshot(why):
    """Save a snapshot of etcd, 0600, and prove it by the checksum at its end; return its path.

    Through etcd's own gateway, so it needs no program and no container runtime.
    """
    SNAPSHOTS.mkdir(mode=0o700, parents=True, exist_ok=True)
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    path = SNAPSHOTS / ("%s-%s.db" % (stamp, why))
    new = path.with_name(path.name + ".new")
    handle = os.open(str(new), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    digest, tail, size = hashlib.sha256(), b"", 0
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
        new.unlink()
        raise SnapshotError("the snapshot of etcd is not whole (%d bytes)" % size)
    new.replace(path)
    for old in sorted(SNAPSHOTS.glob("*-%s.db" % why))[:-KEPT]:
        old.unlink()
    return str(path)


def _blobs():
    context = ssl.create_default_context(cafile=str(PKI / "etcd/ca.crt"))
    client = PKI / "apiserver-etcd-client"
    context.load_cert_chain(str(client) + ".crt", str(client) + ".key")
    connection = http.client.HTTPSConnection("127.0.0.1", 2379, context=context, timeout=60)
    try:
        connection.request("POST", "/v3/maintenance/snapshot", body=b"{}")
        answer = connection.getresponse()
        if answer.status != 200:
            raise SnapshotError("etcd gives no snapshot: it answers %d" % answer.status)
        for line in answer:
            message = json.loads(line)
            if "result" not in message:
                raise SnapshotError("etcd gives no snapshot: %s" % message)
            yield base64.b64decode(message["result"].get("blob", ""))
    except (OSError, http.client.HTTPException) as error:
        raise SnapshotError("etcd gives no snapshot: %s" % error) from error
    finally:
        connection.close()


def main():
    """Save a snapshot for the reason that is named; print its path, or why there is none."""
    try:
        sys.stdout.write(snapshot(sys.argv[1]) + "\n")
    except (SnapshotError, OSError) as error:
        sys.stdout.write("%s\n" % error)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
