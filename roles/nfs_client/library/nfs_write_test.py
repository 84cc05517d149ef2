#!/usr/bin/python
"""Ansible module: test a mount of shared storage: who may write, and how long an fsync takes."""

from __future__ import annotations

import ctypes
import fcntl
import functools
import json
import os
import select
import signal
import statistics
import tempfile
import time
import traceback
from pathlib import Path

from ansible.module_utils.appliance_programs import run
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: nfs_write_test
short_description: Test whether an NFS export can be used
description:
  - Mounts the export by mount.nfs in a mount namespace of its own, which ends with the test, so
    nothing stays mounted. Creates folders, locks a file and writes with fsync as the databases'
    user, checks which user root becomes there, and unmounts it.
  - Before the first use it also checks the free space, and creates nothing where that is too low.
  - Records the result on this node with the export's name, options and folders. So the test runs
    once, and again when one of these changes.
options:
  server: {description: Address or name of the server, type: str, required: true}
  path: {description: The exported folder, type: str, required: true}
  folders: {description: Folders to create in it, type: list, elements: str, default: []}
  options:
    description: Mount options of nfs(5) that the nodes use, such as C(nfsvers=3)
    type: list
    elements: str
    default: []
  minimum_free_bytes: {description: Free space asked for before first use, type: int, default: 0}
  user: {description: The user that must be able to write, type: int, default: 1001}
  root_squash_allowed: {description: Whether root may be another user, type: bool, default: true}
  record:
    description: Where to record the result
    type: path
    default: /var/lib/appliance/storage-proof.json
  mount_seconds: {description: How long a mount may take, type: int, default: 30}
  test_seconds: {description: How long the whole test may take, type: int, default: 180}
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Test the shared storage
  nfs_write_test:
    server: 198.51.100.4
    path: /srv/runai
"""

RETURN = r"""
proof: {description: The result, type: dict, returned: success}
"""

# A database writes its log in blocks of 8 KiB and waits for each commit.
BLOCK, WRITES = 8192, 20
# On a soft mount a lost server is an error here, not a process that never ends.
OPTIONS = ("proto=tcp", "soft", "timeo=50", "retrans=2")
# From <sched.h> and <sys/mount.h>.
CLONE_NEWNS, MS_REC, MS_PRIVATE = 0x20000, 0x4000, 0x40000
GB = 1000**3


class WriteTestError(Exception):
    """The export cannot be used; the text has the reason."""


class Mount:
    """The export, mounted for the duration of a block."""

    def __init__(self, run, source, want):
        self._run = run
        self._source = source
        self._options = [*want["options"], *OPTIONS]
        self._seconds = want["mount_seconds"]
        self.folder = None

    def __enter__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="appliance-nfs-", dir="/run"))
        mount = ["mount", "-t", "nfs", "-o", ",".join(self._options), self._source]
        rc, out, err = self._run(["timeout", str(self._seconds), *mount, str(self.folder)])
        if rc != 0:
            self.folder.rmdir()
            why = " ".join((err or out).split()) or "no answer in %d s" % self._seconds
            raise WriteTestError(
                "%s cannot be mounted with %s: %s. The server may offer another version: see "
                "nfs.version in site.yml" % (self._source, ",".join(self._options), why)
            )
        return self.folder

    def __exit__(self, *_):
        rc, _, _ = self._run(["umount", str(self.folder)])
        if rc != 0:
            self._run(["umount", "--lazy", str(self.folder)])
        self.folder.rmdir()


def private_mounts():
    """Give this process mounts of its own: they end with it, and nothing else sees them."""
    library = ctypes.CDLL(None, use_errno=True)
    if library.unshare(CLONE_NEWNS) or library.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, 0):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), "a mount namespace")


def apart(prepare, action, seconds):
    """Run an action in a process of its own; return its result, or raise its fault."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            prepare()
            answer = {"value": action()}
        except WriteTestError as error:
            answer = {"error": str(error)}
        except OSError as error:
            answer = {"error": "%s: %s" % (error.strerror, error.filename or "")}
        except BaseException:
            answer = {"error": traceback.format_exc().splitlines()[-1]}
        with os.fdopen(writer, "w") as stream:
            stream.write(json.dumps(answer) + "\n")
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as stream:
        if not select.select([stream], [], [], seconds)[0]:
            # It may be in the kernel and end later; nobody waits for it.
            os.kill(child, signal.SIGKILL)
            raise WriteTestError("no end within %d s" % seconds)
        # A line, not all: a process that hangs in the kernel may hold the other end for ever.
        answer = json.loads(stream.readline() or '{"error": "it was killed"}')
    os.waitpid(child, 0)
    if "error" in answer:
        raise WriteTestError(answer["error"])
    return answer["value"]


def as_user(user, action, seconds=60):
    """Run an action in another process as that user; return its result."""

    def become():
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)

    return apart(become, action, seconds)


def version_of(folder, mounts="/proc/self/mounts"):
    """Return the version of NFS that server and node agreed on; None for another kind of mount."""
    for line in Path(mounts).read_text().splitlines():
        words = line.split()
        if words[1] == str(folder):
            versions = [word[5:] for word in words[3].split(",") if word.startswith("vers=")]
            return versions[0] if versions else None
    return None


def lock(base):
    """Lock a file and release it, as the databases do."""
    try:
        with tempfile.TemporaryFile(prefix=".appliance-lock-", dir=str(base)) as stream:
            fcntl.lockf(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise WriteTestError(
            "a file cannot be locked: %s. Start the lock service of the server; or, for version 3 "
            "alone, set nfs.locks to node in site.yml" % error.strerror
        ) from error


def free_bytes(base, want, source):
    """Return the free space of the export; before the first use it must be enough."""
    state = os.statvfs(str(base))
    free = state.f_bavail * state.f_frsize
    if free < want["minimum_free_bytes"]:
        raise WriteTestError(
            "%.0f GB free for %s, expected at least %.0f GB (nfs.minimum_free_gb): use a larger "
            "disk, or set nfs.path to another folder"
            % (free / GB, source, want["minimum_free_bytes"] / GB)
        )
    return free


def make_folders(base, folders):
    """Create the missing folders, writable for every user, and return them."""
    made = []
    os.umask(0)  # in a process of its own
    for name in folders:
        if not (base / name).is_dir():
            # Another node may create the same one at this moment.
            (base / name).mkdir(mode=0o777, exist_ok=True)
            made.append(name)
    return made


def timed_writes(base, clock=time.perf_counter):
    """Write blocks with an fsync each; return the seconds of each."""
    descriptor, name = tempfile.mkstemp(prefix=".appliance-proof-", dir=str(base))
    took = []
    try:
        for index in range(WRITES):
            began = clock()
            os.pwrite(descriptor, b"\0" * BLOCK, index * BLOCK)
            os.fsync(descriptor)
            took.append(clock() - began)
    finally:
        os.close(descriptor)
        os.unlink(name)  # noqa: PTH108
    return took


def owner_of_roots_file(base):
    """Return the owner of a file that root writes there; None where root cannot write."""
    try:
        descriptor, name = tempfile.mkstemp(prefix=".appliance-root-", dir=str(base))
    except PermissionError:
        return None
    os.close(descriptor)
    try:
        return os.stat(name).st_uid  # noqa: PTH116
    finally:
        os.unlink(name)  # noqa: PTH108


def test(run, want):
    """Return the result of the test, and the folders that it created."""
    # Anything can hang on a dead server: the process with the mount is left behind then.
    return apart(private_mounts, lambda: mounted_test(run, want), want["test_seconds"])


def mounted_test(run, want):
    """Run the test in this process; return its result and the folders that it created."""
    source = "%s:%s" % (want["server"], want["path"])
    with Mount(run, source, want) as base:
        version, free = version_of(base), free_bytes(base, want, source)
        try:
            made = as_user(want["user"], lambda: make_folders(base, want["folders"]))
            took = as_user(want["user"], lambda: timed_writes(base))
        except WriteTestError as error:
            raise WriteTestError(
                "user %d cannot write to %s: %s. Give the folder to that user on the server: "
                "chown -R %d:%d %s"
                % (want["user"], source, error, *[want["user"]] * 2, want["path"])
            ) from error
        as_user(want["user"], lambda: lock(base))
        owner = owner_of_roots_file(base)
    if owner != 0 and not want["root_squash_allowed"]:
        raise WriteTestError(
            "a file that root writes to %s belongs to %s there: another export of it squashes "
            "root; check: exportfs -s" % (source, "no user" if owner is None else "user %d" % owner)
        )
    return {
        "server": want["server"],
        "path": want["path"],
        "options": want["options"],
        "folders": want["folders"],
        "version": version,
        "free_bytes": free,
        "user": want["user"],
        "root_squashed": owner != 0,
        "fsync_ms": round(1000 * statistics.median(took), 2),
        "fsync_worst_ms": round(1000 * max(took), 2),
    }, made


def known(record):
    """Return the recorded result, or an empty one."""
    try:
        return json.loads(Path(record).read_text())
    except (OSError, ValueError):
        return {}


def is_of(proof, want):
    """Return whether a record is of this export, mounted this way, with these folders."""
    same = [proof.get(key) == want[key] for key in ("server", "path")]
    # A record of an earlier release has no options: it was negotiated.
    same.append(proof.get("options", []) == want["options"])
    same.append(set(want["folders"]) <= set(proof.get("folders") or ()))
    return all(same)


def keep(record, proof):
    """Write the result atomically."""
    path = Path(record)
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    partial.write_text(json.dumps(proof, sort_keys=True) + "\n")
    os.replace(partial, path)  # noqa: PTH105


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "server": {"type": "str", "required": True},
            "path": {"type": "str", "required": True},
            "folders": {"type": "list", "elements": "str", "default": []},
            "options": {"type": "list", "elements": "str", "default": []},
            "minimum_free_bytes": {"type": "int", "default": 0},
            "user": {"type": "int", "default": 1001},
            "root_squash_allowed": {"type": "bool", "default": True},
            "record": {"type": "path", "default": "/var/lib/appliance/storage-proof.json"},
            "mount_seconds": {"type": "int", "default": 30},
            "test_seconds": {"type": "int", "default": 180},
        },
        supports_check_mode=True,
    )
    want = module.params
    before = known(want["record"])
    same = is_of(before, want)
    if (before.get("server"), before.get("path")) == (want["server"], want["path"]):
        # In use: a full disk must not keep an install from mending something else.
        want["minimum_free_bytes"] = 0
    if module.check_mode:
        module.exit_json(changed=not same, proof=before)
    try:
        proof, made = test(functools.partial(run, seconds=want["mount_seconds"] + 30), want)
        if not same:
            keep(want["record"], proof)
    except (WriteTestError, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=bool(made) or not same, proof=proof, made=made)


if __name__ == "__main__":
    main()
