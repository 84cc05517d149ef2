"""Bring images of a backup back into the registry on this node: only those that it lacks.

Their blobs come on standard input, become an OCI layout in a folder of the run's own, and are
pushed as those of a bundle are. A tag that names another image by now is left alone. Python 3.8,
standard library. What must not be here: which backup is restored, and whether it may be.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import sys
from pathlib import Path

from ansible.module_utils import (
    appliance_backup,
    appliance_backup_cluster,
    appliance_backup_folder,
    appliance_image_backup,
    appliance_registry_push,
)
from ansible.module_utils.appliance_job import JobError
from ansible.module_utils.appliance_registry import login_in

CONFIGURATION = Path("/etc/docker/registry/config.yml")
CRANE = "/var/lib/appliance/bundle/bin/crane"
SECONDS = 12 * 3600
# Left free for the node; its registry needs as much again as comes.
RESERVE, CHUNK = 2 << 30, 1 << 20
MOST_LINE_BYTES = 64 << 20
_HEX = re.compile(r"[0-9a-f]{64}")
_STORAGE = re.compile(r"^\s*rootdirectory:\s*(/\S+)\s*$", re.MULTILINE)
ERRORS = (
    *appliance_image_backup.ERRORS,
    JobError,
    appliance_backup_folder.FolderError,
)


class RestoreError(ValueError):
    """Images were not brought back; the text has the reason."""


def registry_of(want):
    """Return the registry, as the push of a bundle sees it."""
    login = login_in(appliance_backup_cluster.LOGIN, want["registry"])
    return appliance_registry_push.Registry(want["registry"], appliance_backup_cluster.CA, login)


def storage():
    """Return the folder of the registry's data, as its configuration has it.

    Raises:
        OSError, RestoreError: it does not say.
    """
    found = _STORAGE.search(CONFIGURATION.read_text())
    if not found:
        raise RestoreError("%s names no rootdirectory" % CONFIGURATION)
    return found.group(1)


def look(want):
    """Return what the registry has otherwise, and how much may come."""
    faults = registry_of(want).faults(want["images"])
    return {"faults": faults, "free_bytes": free_bytes()}


def free_bytes():
    """Return how many bytes of blobs may come: they are here, and then in the registry, too."""
    appliance_backup_folder.tidy()
    free = shutil.disk_usage(str(appliance_backup_folder.PLACE)).free
    there = shutil.disk_usage(storage()).free
    return max(0, min(free, there) - RESERVE) // 2


def load(want, stream):
    """Take the blobs, push the images that are lacking, and compare; return what was pushed.

    Raises:
        RestoreError: what comes is not what was announced, or there is no room.
        RegistryError: the registry lacks something after the push.
    """
    needed = sum(size for _, size in want["blobs"])
    if needed > free_bytes():
        raise RestoreError("it has room for %d bytes of %d" % (free_bytes(), needed))
    with appliance_backup_folder.working_folder(want["folder"]) as data:
        layout = data / "layout"
        blobs = layout / "blobs" / "sha256"
        blobs.mkdir(mode=0o700, parents=True)
        for name, size in want["blobs"]:
            receive(blobs, name, size, stream)
        (layout / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
        (layout / "index.json").write_text(json.dumps(index_of(want["listed"])))
        return pushed(want, layout)


def receive(folder, name, size, stream):
    """Write one blob, and compare its digest.

    Raises:
        RestoreError: it ends early, or is another one.
    """
    if not _HEX.fullmatch(name):
        raise RestoreError("%r is no digest" % name[:100])
    digest, left = hashlib.sha256(), size
    with (folder / name).open("xb") as file:
        while left:
            piece = stream.read(min(left, CHUNK))
            if not piece:
                raise RestoreError("sha256:%s ended early" % name)
            digest.update(piece)
            file.write(piece)
            left -= len(piece)
    if digest.hexdigest() != name:
        raise RestoreError("sha256:%s came with another content" % name)


def index_of(listed):
    """Return the index of a layout with these images."""
    manifests = [
        {"mediaType": one["media_type"], "digest": one["digest"], "size": one["size"]}
        for one in listed
    ]
    return {"schemaVersion": 2, "manifests": manifests}


def pushed(want, layout):
    """Push what is lacking still; return the names, and those of other images that stay."""
    names = {one["name"]: one["digest"] for one in want["listed"]}
    faults = registry_of(want).faults(names)
    others = sorted(n for n, why in faults.items() if why == appliance_registry_push.ANOTHER)
    options = {
        "layout": str(layout),
        "registry": want["registry"],
        "login_dir": appliance_backup_cluster.LOGIN,
        "project": "",
        "images": {name: digest for name, digest in names.items() if name not in others},
        "storage": storage(),
        "ca_path": appliance_backup_cluster.CA,
        "crane": CRANE,
        "at_once": 4,
        "deadline_seconds": SECONDS,
    }
    return {"pushed": appliance_registry_push.converge(options), "others": others}


def act_of(want, stream):
    """Carry out one act; a list of images is too long for an argument, and is the first line.

    Raises:
        RestoreError: it is longer than any.
    """
    line = stream.readline(MOST_LINE_BYTES + 1)
    if len(line) > MOST_LINE_BYTES:
        raise RestoreError("the list of images is longer than any")
    want = dict(want, **json.loads(line))
    return load(want, stream) if want["act"] == "load" else look(want)


def main():
    """Carry out the act that the JSON in the first argument describes."""
    want = json.loads(sys.argv[1])
    return appliance_backup.answer(lambda: act_of(want, sys.stdin.buffer), ERRORS)


if __name__ == "__main__":
    raise SystemExit(main())
