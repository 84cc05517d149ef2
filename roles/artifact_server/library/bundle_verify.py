#!/usr/bin/python
"""Ansible module: verify that the bundle on this host is complete, every byte."""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ansible.module_utils.appliance_files import write
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: bundle_verify
short_description: Verify that the bundle on this host is complete
description:
  - Compares each file with the digest in the manifest, and the manifest with C(digest).
  - A file with the same size, times and inode as at its verification is not read again.
  - A file that differs is removed, so that the next transfer copies it again.
  - Only regular files below the folders of a bundle are read or removed, never through a link; a
    manifest with any other path is refused before anything is removed.
  - The marker contains the digest exactly while everything is verified.
options:
  path: {description: Folder of the bundle, type: path, required: true}
  digest: {description: sha256 of its manifest, type: str, required: true}
  marker: {description: File that records the verified digest, type: path, required: true}
  required: {description: Whether an incomplete bundle is a failure, type: bool, default: false}
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Verify the bundle
  bundle_verify:
    path: /var/lib/appliance/bundle
    digest: "{{ artifact_server_bundle_digest }}"
    marker: /var/lib/appliance/bundle.verified
"""

RETURN = r"""
complete: {description: Whether every byte is verified, type: bool, returned: always}
faults: {description: What is missing or differs, type: list, returned: always}
"""

BLOCK = 1 << 20
FOLDERS = ("apt", "bin", "charts", "cni", "images", "wheels")
MOST_BYTES = 16 << 20
SHA256 = re.compile(r"[0-9a-f]{64}")
PART = re.compile(r"[A-Za-z0-9._+~%@:=,!-]{1,255}")


def sha256(path):
    """Return the digest of a regular file; a link, a pipe or a device is an OSError."""
    found = hashlib.sha256()
    handle = os.open(str(path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb", buffering=0) as stream:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError("%s is not a regular file" % path)
        for block in iter(lambda: stream.read(BLOCK), b""):
            found.update(block)
    return found.hexdigest()


def signature(path):
    """Return the values that change whenever a file is written, or None."""
    try:
        state = path.lstat()
    except OSError:
        return None
    return [state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino]


def is_confined(name):
    """Return whether a path stays below one of a bundle's folders."""
    parts = name.split("/")
    return (
        len(parts) > 1
        and parts[0] in FOLDERS
        and all(PART.fullmatch(part) and part not in (".", "..") for part in parts)
    )


def is_number(value):
    """Return whether a value is a number of bytes."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def files_of(text):
    """Return the files that a manifest lists.

    ValueError where it is not valid: no part of it is used then.
    """
    try:
        document = json.loads(text)
    except RecursionError:
        raise ValueError("its manifest is nested too deeply") from None
    files = document.get("files") if isinstance(document, dict) else None
    if not isinstance(files, list):
        raise ValueError("its manifest has no list of files")
    for entry in files:
        found = entry if isinstance(entry, dict) else {}
        name, digest = found.get("path"), found.get("sha256")
        if not isinstance(name, str) or not is_confined(name):
            raise ValueError("its manifest lists %r, which is not a path of a bundle" % (name,))
        if not isinstance(digest, str) or not SHA256.fullmatch(digest):
            raise ValueError("its manifest has no sha256 for %s" % name)
        if not is_number(found.get("size")):
            raise ValueError("its manifest has no size for %s" % name)
    return files


class Verification:
    """Compares the bundle on disk with its manifest."""

    def __init__(self, path, digest, marker):
        self.path = Path(path)
        self.digest = digest
        self.marker = Path(marker)
        self.record = self.marker.with_name(self.marker.name + ".files")

    def known(self):
        """Return the signatures of files that were verified for this digest."""
        try:
            record = json.loads(self.record.read_text())
        except (OSError, ValueError, RecursionError):
            return {}
        if not isinstance(record, dict) or record.get("digest") != self.digest:
            return {}
        files = record.get("files")
        return files if isinstance(files, dict) else {}

    def is_marked(self):
        """Return whether the marker has the digest of this bundle."""
        try:
            return self.marker.read_text().strip() == self.digest
        except OSError:
            return False

    def look(self):
        """Return (faults, paths that differ, signatures of verified files)."""
        manifest = self.path / "manifest.json"
        if manifest.is_symlink() or not manifest.is_file():
            return ["manifest.json is missing"], [], {}
        if sha256(manifest) != self.digest:
            return ["manifest.json is that of another bundle"], [], {}
        if manifest.stat().st_size > MOST_BYTES:
            raise ValueError("its manifest is larger than %d bytes" % MOST_BYTES)
        files = files_of(manifest.read_text())
        known = self.known()
        with ThreadPoolExecutor(max_workers=min(8, os.cpu_count() or 1)) as pool:
            seen = dict(pool.map(lambda entry: (entry["path"], self._fault(entry, known)), files))
        faulty = {path: fault for path, fault in seen.items() if fault}
        told = ["%s %s" % item for item in sorted(faulty.items())]
        differing = [path for path, fault in faulty.items() if fault == "differs"]
        verified = {path: signature(self.path / path) for path in seen if path not in faulty}
        return told, differing, verified

    def _fault(self, entry, known):
        path = self.path / entry["path"]
        if path.parent.resolve() != self.path.resolve() / Path(entry["path"]).parent:
            return "is below a link"
        now = signature(path)
        if now is None:
            return "is absent"
        if not stat.S_ISREG(path.lstat().st_mode):
            return "is not a regular file"
        if now == known.get(entry["path"]):
            return None
        if now[0] != entry["size"] or sha256(path) != entry["sha256"]:
            return "differs"
        return None

    def settle(self, differing, verified, complete):
        """Record the result; remove files that differ, so that they are copied again."""
        for name in differing:
            # A regular file below the bundle's own folders, because the manifest was checked.
            (self.path / name).unlink()
        if complete:
            write(self.record, json.dumps({"digest": self.digest, "files": verified}))
            write(self.marker, self.digest + "\n")
        elif self.marker.exists():
            self.marker.unlink()


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "digest": {"type": "str", "required": True},
            "marker": {"type": "path", "required": True},
            "required": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    want = module.params
    verification = Verification(want["path"], want["digest"], want["marker"])
    marked = verification.is_marked()
    try:
        faults, differing, verified = verification.look()
        complete = not faults
        changed = bool(differing) or complete != marked
        if not module.check_mode and (changed or (complete and verification.known() != verified)):
            verification.settle(differing, verified, complete)
    except (OSError, ValueError, KeyError) as error:
        module.fail_json(msg="the bundle in %s cannot be read: %s" % (want["path"], error))
    result = {"complete": complete, "faults": faults, "changed": changed}
    if faults and want["required"] and not module.check_mode:
        result["msg"] = "%d faults in the bundle in %s: %s" % (
            len(faults),
            want["path"],
            "; ".join(faults[:10]),
        )
        module.fail_json(**result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
