"""Claim a new machine for the restore of one backup, and give it the authorities of its cluster.

A machine is claimed only while nothing of a cluster is on it. The claim is a mark with the word of
the restore; later runs, and what a restore may overwrite, rest on it. Python 3.8, standard library,
self-contained: only this file runs. What must not be here: kubeadm, and etcd (other programs).
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path("/")
RESTORES, MARK = "var/lib/appliance/restore", "mark.json"
KEY = re.compile(r"new-[0-9A-Za-z][0-9A-Za-z._-]{0,120}\Z")
ACTS = ("claim", "pki", "made", "known")
LINKS, SUBNET = ("cni0", "flannel.1"), "run/flannel/subnet.env"
NETWORK, IP_SECONDS = "sys/class/net", 30
PATHS = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PKI = "etc/kubernetes/pki"
AUTHORITIES = (
    "ca.crt",
    "ca.key",
    "etcd/ca.crt",
    "etcd/ca.key",
    "front-proxy-ca.crt",
    "front-proxy-ca.key",
    "sa.key",
    "sa.pub",
)
# Every member has it, also while its etcd is restored.
MEMBER = "etc/kubernetes/kubelet.conf"
# Whatever of these is there belongs to a cluster, or to a site that had this machine before.
TRACES = (
    PKI,
    "etc/kubernetes/manifests",
    "etc/kubernetes/admin.conf",
    "etc/kubernetes/kubelet.conf",
    "etc/kubernetes/bootstrap-kubelet.conf",
    "var/lib/etcd",
    "var/lib/kubelet/pki",
    "var/lib/appliance/archive/passports",
    "var/lib/appliance/archive/members",
)
MOST_BYTES, MOST_MARK_BYTES = 1 << 20, 65536


class ClaimError(Exception):
    """Nothing was changed; the text has the reason."""


def folder_of(key):
    """Return the folder of a restore's mark.

    Raises:
        ClaimError: the word is none of a restore onto new machines.
    """
    if not KEY.match(key):
        raise ClaimError("no word for a restore onto new machines: %r" % key[:100])
    return ROOT / RESTORES / key


def acts(key):
    """Return the acts that ended here; empty: the machine is not claimed.

    A machine that was made a member, and is none, was reset since: what is marked is over.

    Raises:
        ClaimError: the mark cannot be read, or is no file of ours.
    """
    path = folder_of(key) / MARK
    try:
        handle = os.open(str(path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return {}
    with os.fdopen(handle, "rb") as stream:
        text = stream.read(MOST_MARK_BYTES)
    try:
        mark = json.loads(text.decode())
        found = dict(mark["acts"])
    except (ValueError, LookupError, TypeError) as error:
        raise ClaimError("%s cannot be read: %s" % (path, error)) from error
    if mark.get("key") != key:
        raise ClaimError("%s is of another restore" % path)
    return {} if "made" in found and not _holds(ROOT / MEMBER) else found


def traces():
    """Return what says that this machine was in a cluster, or was accepted by a site."""
    return ["/" + name for name in TRACES if _holds(ROOT / name)]


def _holds(path):
    if path.is_dir() and not path.is_symlink():
        return any(path.iterdir())
    return path.is_symlink() or path.exists()


def look(key):
    """Return the acts that ended here, traces of a cluster, and sums of the authorities."""
    return {"acts": sorted(acts(key)), "traces": traces(), "authorities": sums()}


def sums():
    """Return {name: sha256} of the authorities that are there."""
    found = {}
    for name in AUTHORITIES:
        content = _content(ROOT / PKI / name)
        if content is not None:
            found[name] = hashlib.sha256(content).hexdigest()
    return found


def _content(path):
    try:
        with path.open("rb") as stream:
            return stream.read(MOST_BYTES)
    except OSError:
        return None


def claim(key):
    """Mark this machine for one backup; it is asked for again whether it is bare.

    Raises:
        ClaimError: something of a cluster is here, and it is not claimed for this backup.
    """
    if acts(key):
        return
    found = traces()
    if found:
        raise ClaimError("this machine is not new: %s is here" % ", ".join(found))
    others = [path.parent.name for path in (ROOT / RESTORES).glob("new-*/" + MARK)]
    others = sorted(name for name in others if acts(name))
    if others:
        raise ClaimError(
            "this machine is claimed for %s; to give that restore up: rm -r /%s/%s"
            % (", ".join(others), RESTORES, others[0])
        )
    note(key, "claim")


def note(key, act):
    """Write that an act ended here.

    Raises:
        ClaimError: the machine is not claimed.
    """
    if act not in ACTS:
        raise ClaimError("no such act: %s" % act)
    done = acts(key)
    if act != "claim" and "claim" not in done:
        raise ClaimError("this machine is not claimed for %s" % key)
    if act in done:
        return
    folder = folder_of(key)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.is_symlink() or folder.lstat().st_uid != os.geteuid():
        raise ClaimError("%s is no folder of ours: move it away, then run again" % folder)
    done[act] = int(time.time())
    text = json.dumps({"schema": 1, "key": key, "acts": done})
    _write(folder / MARK, text.encode(), 0o600)


def pki(key, text):
    """Put the authorities in their place, all of them at once; what is the same stays.

    Args:
        key: the word of the restore.
        text: {name: content in base 64} as JSON, of all authorities.

    Raises:
        ClaimError: the machine is not claimed, or has others.
    """
    if "claim" not in acts(key):
        raise ClaimError("this machine is not claimed for %s" % key)
    given = {name: base64.b64decode(content) for name, content in json.loads(text).items()}
    if sorted(given) != sorted(AUTHORITIES):
        raise ClaimError("these are not the authorities of a cluster")
    target = ROOT / PKI
    if _holds(target):
        other = [name for name in AUTHORITIES if _content(target / name) != given[name]]
        if other:
            raise ClaimError(
                "/%s has another %s than the backup; wipe this machine, then run again"
                % (PKI, ", ".join(other))
            )
    else:
        _place(target.with_name("pki." + key), target, given)
    note(key, "pki")


def made(key):
    """Note that the machine is a member, and forget the range of addresses that its pods had.

    The cluster of the backup gives each node its own range again; the links would keep this one.

    Raises:
        ClaimError: the machine is not claimed, or a link stays.
    """
    done = acts(key)
    if "claim" not in done:
        raise ClaimError("this machine is not claimed for %s" % key)
    if "made" in done:
        return
    (ROOT / SUBNET).unlink(missing_ok=True)
    for link in LINKS:
        if (ROOT / NETWORK / link).exists():
            _delete_link(link)
    note(key, "made")


def _delete_link(name):
    argv = ["ip", "link", "delete", "dev", name]
    ended = subprocess.run(  # noqa: S603  (fixed words)
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={"PATH": PATHS},
        timeout=IP_SECONDS,
        check=False,
    )
    if ended.returncode != 0:
        raise ClaimError("the link %s stays: %s" % (name, ended.stderr.decode()[-200:]))


def _place(beside, target, given):
    """Write the files beside, and give the folder its name: kubeadm sees all or none."""
    target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    beside.mkdir(mode=0o700, exist_ok=True)
    if beside.is_symlink() or beside.lstat().st_uid != os.geteuid():
        raise ClaimError("%s is no folder of ours: move it away, then run again" % beside)
    (beside / "etcd").mkdir(mode=0o700, exist_ok=True)
    for name, content in sorted(given.items()):
        _write(beside / name, content, 0o600 if name.endswith(".key") else 0o644)
    beside.chmod(0o755)
    (beside / "etcd").chmod(0o755)
    beside.rename(target)


def _write(path, content, mode):
    new = path.with_name(path.name + ".new")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    with os.fdopen(os.open(str(new), flags, mode), "wb") as stream:
        os.fchmod(stream.fileno(), mode)
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    new.replace(path)


def main(words):
    """Carry out one word; print what it answers as JSON."""
    verb, rest = words[0], words[1:]
    try:
        answer = {}
        if verb == "look":
            answer = look(*rest)
        elif verb == "claim":
            claim(*rest)
        elif verb == "pki":
            pki(rest[0], sys.stdin.buffer.read(MOST_BYTES))
        elif verb == "made":
            made(*rest)
        elif verb == "known":
            note(rest[0], "known")
        else:
            raise ClaimError("no such word: %s" % verb)
    except (
        ClaimError,
        subprocess.SubprocessError,
        OSError,
        ValueError,
        TypeError,
        AttributeError,
    ) as error:
        sys.stderr.write("%s\n" % error)
        return 1
    sys.stdout.write(json.dumps(answer) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
