"""Take in the snapshot of a restore piece by piece, and say how far a restore came on this node.

The pieces come over SSH; a piece that came before is written over by the same bytes. Python 3.8,
standard library, self-contained: only this file runs. What must not be here: any act of the
restore itself (role ``etcd_restore``).
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import http.client
import json
import os
import re
import ssl
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

RESTORES = Path("/var/lib/appliance/restore")
ETCD = Path("/var/lib/etcd")
KUBERNETES = Path("/etc/kubernetes")
MARK, SNAPSHOT, PART = "mark.json", "snapshot.db", "snapshot.db.part"
KEY = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]{0,150}\Z")
PODS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
AUTHORITIES = ("ca", "front-proxy-ca", "etcd/ca")
HELD = b"/registry/configmaps/kube-system/kubeadm-config"
MOST_ASKED = 8
MOST_MARKS, MOST_MARK_BYTES = 50, 65536
CHUNK = 1 << 20


class IntakeError(Exception):
    """Nothing was taken in; the text has the reason."""


def folder_of(key):
    """Return the folder of a restore, 0700; it is made.

    Raises:
        IntakeError: the word is none, or the folder is not ours.
    """
    if not KEY.match(key):
        raise IntakeError("no word for a restore: %r" % key[:100])
    folder = RESTORES / key
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.is_symlink() or folder.lstat().st_uid != os.geteuid():
        raise IntakeError("%s is no folder of ours: move it away, then run again" % folder)
    if not (folder / MARK).exists():
        # Before anything of the snapshot: a run that is killed goes on here, and cleans up.
        new = folder / (MARK + ".new")
        new.write_text(json.dumps({"schema": 1, "key": key, "acts": {}}))
        new.chmod(0o600)
        new.replace(folder / MARK)
    return folder


def append(key, offset, stream):
    """Write a piece of the snapshot; what was written beyond it before is cut off."""
    path = folder_of(key) / PART
    handle = os.open(str(path), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "r+b") as target:
        if target.seek(0, os.SEEK_END) < offset:
            raise IntakeError("%s is shorter than %d bytes" % (path, offset))
        target.truncate(offset)
        target.seek(offset)
        for piece in iter(lambda: stream.read(CHUNK), b""):
            target.write(piece)
        return target.tell()


def seal(key, size, sha256):
    """Check the snapshot, and give it its name.

    Raises:
        IntakeError: it is not what was sent.
    """
    folder = folder_of(key)
    path = folder / PART
    digest, seen = hashlib.sha256(), 0
    with path.open("rb") as stream:
        for piece in iter(lambda: stream.read(CHUNK), b""):
            digest.update(piece)
            seen += len(piece)
        os.fsync(stream.fileno())
    if (seen, digest.hexdigest()) != (size, sha256):
        raise IntakeError("%s is not what was sent: it has %d bytes of %d" % (path, seen, size))
    path.replace(folder / SNAPSHOT)


def has(key, sha256):
    """Return whether the snapshot lies here whole."""
    path = folder_of(key) / SNAPSHOT
    digest = hashlib.sha256()
    try:
        with path.open("rb") as stream:
            for piece in iter(lambda: stream.read(CHUNK), b""):
                digest.update(piece)
    except OSError:
        return False
    return digest.hexdigest() == sha256


def look(others=()):
    """Return what a restore is planned by, as plain data.

    Args:
        others: addresses of the other control-plane nodes: the control host may not reach one that
            lives.
    """
    disk = os.statvfs(str(ETCD if ETCD.is_dir() else ETCD.parent))
    manifest = KUBERNETES / "manifests/etcd.yaml"
    return {
        "marks": marks(),
        "etcd_data": (ETCD / "member").is_dir(),
        "manifests": [n for n in PODS if (KUBERNETES / "manifests" / (n + ".yaml")).is_file()],
        "authorities": all(
            (KUBERNETES / "pki" / (name + end)).is_file()
            for name in AUTHORITIES
            for end in (".crt", ".key")
        ),
        "member": _member(manifest),
        "joined": (KUBERNETES / "kubelet.conf").is_file(),
        "account_key": _sum_of(KUBERNETES / "pki/sa.pub"),
        "kubernetes": _kubernetes(),
        "etcd": etcd(),
        "others": _asked(others),
        "free_bytes": disk.f_bavail * disk.f_frsize,
    }


def marks():
    """Return {word of a restore: the acts that ended here}; ``compared`` stands for every key."""
    found = {}
    for path in sorted(RESTORES.glob("*/" + MARK))[-MOST_MARKS:]:
        try:
            with path.open() as stream:
                mark = json.loads(stream.read(MOST_MARK_BYTES))
            acts = sorted(str(act) for act in mark["acts"])
            found[path.parent.name] = acts + (["compared"] if mark.get("compared") else [])
        except (OSError, ValueError, LookupError, TypeError):
            found[path.parent.name] = ["unreadable"]
    return found


def _member(manifest):
    """Return name and peer URL that the manifest of etcd gives this node."""
    try:
        text = manifest.read_text()
    except OSError:
        return {}
    words = {"name": "--name", "peer": "--initial-advertise-peer-urls"}
    found = {}
    for key, flag in words.items():
        match = re.search(r"^\s*- \"?%s=([^\s\"]+)" % re.escape(flag), text, re.MULTILINE)
        found[key] = match.group(1) if match else ""
    return found


def _kubernetes():
    """Return the version of the API server that this node starts, or that a restore stopped."""
    pod = "manifests/kube-apiserver.yaml"
    found = {_version(KUBERNETES / pod)} - {""}
    if not found:
        # Role etcd_restore keeps what it stopped there until it starts it again.
        stopped = sorted(RESTORES.glob("*/" + pod))[-MOST_MARKS:]
        found = {_version(path) for path in stopped} - {""}
    return found.pop() if len(found) == 1 else ""


def _version(manifest):
    """Return the version of Kubernetes that a manifest of its API server starts; empty: none."""
    try:
        with manifest.open() as stream:
            text = stream.read(MOST_MARK_BYTES)
    except (OSError, ValueError):
        return ""
    image = r"^\s*image: \S+/kube-apiserver:v([0-9]+\.[0-9]+\.[0-9]+)(?:@\S+)?\s*$"
    match = re.search(image, text, re.MULTILINE)
    return match.group(1) if match else ""


def _sum_of(path):
    """Return the sha256 of a small file; empty where there is none."""
    try:
        with path.open("rb") as stream:
            return hashlib.sha256(stream.read(MOST_MARK_BYTES)).hexdigest()
    except OSError:
        return ""


def _asked(addresses):
    with ThreadPoolExecutor(MOST_ASKED) as pool:
        return dict(pool.map(lambda address: (address, etcd(address)), addresses))


def etcd(address="127.0.0.1"):
    """Return whether etcd there, with a majority, holds a cluster: cluster, empty or silent.

    An etcd that lost its data may start as a new and empty one, and an API server beside it
    answers. kubeadm's own ConfigMap tells both apart.
    """
    body = json.dumps({"key": base64.b64encode(HELD).decode(), "count_only": True})
    try:
        context = ssl.create_default_context(cafile=str(KUBERNETES / "pki/etcd/ca.crt"))
        client = str(KUBERNETES / "pki/apiserver-etcd-client")
        context.load_cert_chain(client + ".crt", client + ".key")
        line = http.client.HTTPSConnection(address, 2379, context=context, timeout=8)
        with contextlib.closing(line):
            line.request("POST", "/v3/kv/range", body=body)
            answer = line.getresponse()
            said = json.loads(answer.read(1 << 16) or b"{}")
        if answer.status != 200:
            return "silent"
        return "cluster" if int(said.get("count", 0)) else "empty"
    except (OSError, ValueError, AttributeError, TypeError, http.client.HTTPException):
        return "silent"


def main(words):
    """Carry out one word; print what it answers as JSON."""
    verb, rest = words[0], words[1:]
    try:
        if verb == "look":
            answer = look(rest)
        elif verb == "has":
            answer = {"has": has(*rest)}
        elif verb == "append":
            answer = {"size": append(rest[0], int(rest[1]), sys.stdin.buffer)}
        elif verb == "seal":
            seal(rest[0], int(rest[1]), rest[2])
            answer = {}
        else:
            raise IntakeError("no such word: %s" % verb)
    except (IntakeError, OSError, ValueError) as error:
        sys.stderr.write("%s\n" % error)
        return 1
    sys.stdout.write(json.dumps(answer) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
