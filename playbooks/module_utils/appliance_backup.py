"""Send what a node holds of a backup, as one stream: a line of JSON, then the parts it lists.

While parts are gathered, empty lines say that the node is at work; whoever does not read any more
ends it. Nothing is written but a folder of the run's own, which goes when it ends. Python 3.8,
standard library. What must not be here: what a backup is for, and its encryption.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import json
import os
import re
import signal
import stat
import sys
import threading
from pathlib import Path
from urllib.parse import urlsplit

from ansible.module_utils import (
    appliance_backup_cluster,
    appliance_backup_folder,
    appliance_etcd_proof,
    appliance_etcd_trial,
)

KUBERNETES = Path("/etc/kubernetes")
# Beside /etc/kubernetes: path -> its name below control_plane/NODE/.
BESIDE = {
    "/var/lib/kubelet/config.yaml": "kubelet/config.yaml",
    "/var/lib/kubelet/kubeadm-flags.env": "kubelet/kubeadm-flags.env",
    "/etc/appliance": "appliance",
    "/etc/systemd/system/kubelet.service.d": "kubelet.service.d",
}
TLS = {"/etc/appliance/tls": "appliance", "/etc/appliance/ca.crt": "appliance-ca.crt"}
# What kubeadm kept of an upgrade may hold a copy of etcd's data.
LEFT_OUT = ("tmp",)
# What commands copied to this node: journal and passports, as model/documents/places.py has it.
ARCHIVE = Path("/var/lib/appliance/archive")
# Folder of the archive -> the names of its documents that a backup takes, as site_parts.py has it.
OF_STATE = {
    "journal": re.compile(r"[0-9A-Za-z-]{1,100}\.json"),
    "passports": re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,190}\.json"),
}
MOST_DOCUMENTS, MOST_STATE_BYTES = 8000, 128 << 20
_API_SERVER = re.compile(
    r"^\s*image: \S+/kube-apiserver:v([0-9]+\.[0-9]+\.[0-9]+)(?:@\S+)?\s*$", re.MULTILINE
)
MOST_POD_BYTES = 1 << 16
MOST_FILES, MOST_FILE_BYTES, MOST_BYTES = 5000, 16 << 20, 256 << 20
CHUNK = 1 << 18
BEAT_SECONDS = 5


class GatherError(Exception):
    """Something of a backup is not there, or cannot be read; the text has the reason."""


class Gathered:
    """What a node gives to a backup.

    Attributes:
        parts: (name, path, content, size, sha256); either a path or a content. A path may be a
            function that yields the content.
        missing: (what, why).
        told: more for the first line.
    """

    def __init__(self):
        self.parts = []
        self.missing = []
        self.told = {}

    def file(self, name, path):
        """Add a file that stays as it is until it is sent.

        Raises:
            OSError: it cannot be read.
        """
        digest, size = hashlib.sha256(), 0
        with _opened(path) as stream:
            for piece in iter(lambda: stream.read(CHUNK), b""):
                digest.update(piece)
                size += len(piece)
        self.parts.append((name, path, None, size, digest.hexdigest()))

    def text(self, name, content):
        """Add what is in memory."""
        digest = hashlib.sha256(content).hexdigest()
        self.parts.append((name, None, content, len(content), digest))

    def later(self, name, pieces, size, digest):
        """Add what a function yields once it is sent; its size and sha256 are known."""
        self.parts.append((name, pieces, None, size, digest))

    def lacks(self, what, why):
        """Note what could not be had."""
        self.missing.append((what, " ".join(str(why).split())[:500] or "no reason"))

    def first_line(self):
        """Return the line before the parts."""
        parts = [
            {"name": name, "size": size, "sha256": digest}
            for name, _, _, size, digest in self.parts
        ]
        missing = [{"what": what, "why": why} for what, why in self.missing]
        return json.dumps(dict(self.told, parts=parts, missing=missing)).encode() + b"\n"


def _opened(path):
    handle = os.open(str(path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError("%s is no regular file" % path)
    return os.fdopen(handle, "rb")


def tree(found, path, name, budget):
    """Add a file, or every regular file below a folder; others are left out, and links named.

    Args:
        found: where it is added.
        path: the file or folder.
        name: of the part, or of the folder of the parts.
        budget: [files, bytes] that may still come; it shrinks.
    """
    files = [path] if path.is_file() else sorted(_files(path))
    for one in [] if path.is_file() else sorted(_links(path)):
        inner = "%s/%s" % (name, one.relative_to(path))
        found.lacks(inner.encode("ascii", "replace").decode(), "a link, which is not followed")
    for one in files:
        inner = name if one == path else "%s/%s" % (name, one.relative_to(path))
        try:
            with _opened(one) as stream:
                content = stream.read(MOST_FILE_BYTES + 1)
            budget[0] -= 1
            budget[1] -= len(content)
            if len(content) > MOST_FILE_BYTES or min(budget) < 0:
                raise GatherError("it is larger than any file of its kind")
            _require_name(inner)
            found.text(inner, content)
        except (OSError, GatherError, ValueError) as error:
            found.lacks(inner.encode("ascii", "replace").decode(), error)


def _require_name(name):
    if not name.isprintable():
        raise GatherError("its name cannot be printed")
    name.encode()


def _links(folder):
    """Yield links below a folder: what they lead to may be a key that nobody misses until then."""
    for here, folders, names in os.walk(str(folder)):
        for one in (*folders, *names):
            if (Path(here) / one).is_symlink():
                yield Path(here) / one


def _files(folder):
    for here, folders, names in os.walk(str(folder)):
        if Path(here) == folder:
            folders[:] = [one for one in folders if one not in LEFT_OUT]
        for one in names:
            path = Path(here) / one
            with contextlib.suppress(OSError):
                if stat.S_ISREG(path.lstat().st_mode):
                    yield path


def of_etcd(found, want, _data):
    """A snapshot that was restored once, and the members at that time."""
    limits = appliance_etcd_trial.Limits(int(want["seconds"]), int(want["memory_mb"]))
    try:
        known = appliance_etcd_proof.prove("backup", limits)
        listed = appliance_etcd_trial.Gateway().ask("/v3/cluster/member/list", {})
        members = [_member(one) for one in listed.get("members", [])]
        found.file("etcd/snapshot.db", Path(known["path"]))
    except (*appliance_etcd_proof.ERRORS, http.client.HTTPException, LookupError) as error:
        found.lacks("etcd", error)
        return
    found.told["etcd"] = {
        "revision": known["revision"],
        "keys": known["keys"],
        "digest": known["digest"],
        "sha256": known["sha256"],
        "version": known["etcd_version"],
        "members": members,
    }


def _member(listed):
    address = urlsplit((listed.get("peerURLs") or [""])[0]).netloc
    return {
        "node": str(listed.get("name") or "?"),
        "address": address,
        "id": "%x" % int(listed["ID"]),
    }


def of_control_plane(found, want, _data):
    """What makes this node a control plane: /etc/kubernetes, and what belongs to it."""
    top, budget = "control_plane/%s" % want["node"], [MOST_FILES, MOST_BYTES]
    if not KUBERNETES.is_dir():
        found.lacks("control_plane", "%s is not there" % KUBERNETES)
        return
    tree(found, KUBERNETES, top, budget)
    for path, name in sorted(BESIDE.items()):
        if Path(path).exists():
            tree(found, Path(path), "%s/%s" % (top, name), budget)
    found.told["kubernetes"] = kubernetes_version()


def kubernetes_version():
    """Return the version of the API server in its static pod here; empty: there is none."""
    try:
        with _opened(KUBERNETES / "manifests/kube-apiserver.yaml") as stream:
            text = stream.read(MOST_POD_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
    match = _API_SERVER.search(text)
    return match.group(1) if match else ""


def of_tls(found, want, _data):
    """Keys and certificates of the servers on this node."""
    budget = [MOST_FILES, MOST_BYTES]
    for path, name in sorted(TLS.items()):
        if Path(path).exists():
            tree(found, Path(path), "tls/%s/%s" % (want["node"], name), budget)


def of_state(found, _want, _data):
    """What commands copied here of the journal and the passports, the newest records first."""
    budget = [MOST_DOCUMENTS, MOST_STATE_BYTES]
    for folder, known in sorted(OF_STATE.items(), reverse=True):
        top, left_out = ARCHIVE / folder, 0
        for name in sorted(_names(top), reverse=True):
            if not known.fullmatch(name):
                continue
            try:
                with _opened(top / name) as stream:
                    content = stream.read(MOST_FILE_BYTES + 1)
            except OSError as error:
                found.lacks("state/%s/%s" % (folder, name), error)
                continue
            if len(content) > MOST_FILE_BYTES or budget[0] < 1 or budget[1] < len(content):
                left_out += 1
                continue
            budget[0] -= 1
            budget[1] -= len(content)
            found.text("state/%s/%s" % (folder, name), content)
        if left_out:
            found.lacks("state/%s" % folder, "%d more or larger than a backup takes" % left_out)


def _names(folder):
    if folder.is_symlink() or not folder.is_dir():
        return []
    return [path.name for path in folder.iterdir()]


KINDS = {
    "etcd": of_etcd,
    "control_plane": of_control_plane,
    "tls": of_tls,
    "state": of_state,
    "runai": appliance_backup_cluster.of_runai,
    "objects": appliance_backup_cluster.of_objects,
    "registry": appliance_backup_cluster.of_registry,
}


def gather(want, data):
    """Return everything that was asked for, or why it is not there."""
    found = Gathered()
    for kind in want["kinds"]:
        if kind not in KINDS:
            found.lacks(kind, "this node knows no such kind")
            continue
        try:
            KINDS[kind](found, want, data)
        except (OSError, ValueError, LookupError, TypeError) as error:
            found.lacks(kind, "%s: %s" % (type(error).__name__, error))
    return found


class Beat(threading.Thread):
    """Writes an empty line now and then, and ends this process once nobody reads."""

    def __init__(self, out):
        super().__init__(daemon=True)
        self._out = out
        self._ended = threading.Event()

    def run(self):
        """Write until it is ended."""
        while not self._ended.wait(BEAT_SECONDS):
            try:
                self._out.write(b"\n")
                self._out.flush()
            except (OSError, ValueError):
                os.kill(os.getpid(), signal.SIGTERM)
                return

    def end(self):
        """Write no more."""
        self._ended.set()
        self.join()


def send(found, out):
    """Write the first line, and every part.

    Raises:
        OSError: nobody reads, or a part is not what it was.
    """
    out.write(found.first_line())
    for name, path, content, size, _ in found.parts:
        if path is None:
            out.write(content)
            continue
        left = size
        for piece in path() if callable(path) else _pieces(path, size):
            left -= len(piece)
            if left < 0:
                break
            out.write(piece)
        if left:
            raise OSError("%s became %s" % (name, "longer" if left < 0 else "shorter"))
    out.flush()


def _pieces(path, size):
    """Yield so many bytes of a file, or all that it has."""
    left = size
    with _opened(path) as stream:
        while left:
            piece = stream.read(min(left, CHUNK))
            if not piece:
                return
            left -= len(piece)
            yield piece


def ended(*_):
    """Leave by an exception, so that everything is tidied up."""
    raise SystemExit(143)


def answer(act, errors):
    """Carry out an act, with signs of life meanwhile; print what it found, as one line of JSON.

    Returns:
        The exit status: 1 after one of these errors, whose words are told.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, ended)
    out = sys.stdout.buffer
    beat = Beat(out)
    beat.start()
    try:
        found = act()
        beat.end()
        out.write(json.dumps(found).encode() + b"\n")
        out.flush()
    except errors as error:
        sys.stderr.write("%s\n" % " ".join(str(error).split()))
        return 1
    return 0


def main():
    """Gather and send what the JSON in the first argument asks for."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, ended)
    want, out = json.loads(sys.argv[1]), sys.stdout.buffer
    beat = Beat(out)
    beat.start()
    try:
        with appliance_backup_folder.working_folder(want["folder"]) as data:
            found = gather(want, data)
            beat.end()
            send(found, out)
    except (appliance_backup_folder.FolderError, OSError) as error:
        sys.stderr.write("%s\n" % error)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
