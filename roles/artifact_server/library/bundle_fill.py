#!/usr/bin/python
"""Ansible module: take what a bundle needs from the other bundles on this host."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.bundles_on_disk import (
    BLOCK,
    SHA256,
    Verification,
    sha256,
    signature,
)

DOCUMENTATION = r"""
module: bundle_fill
short_description: Take what a bundle needs from the other bundles on this host
description:
  - The manifest of the bundle is there already. A file that is absent is looked for in the other
    bundles of this host by its sha256, read in full, and added as a hard link, or as a copy where
    the file system has none.
  - A file that differs is removed first.
options:
  path: {description: Folder of the bundle, type: path, required: true}
  digest: {description: sha256 of its manifest, type: str, required: true}
  marker: {description: File that lists the verified digests, type: path, required: true}
  current: {description: Path under which the served bundle is read, type: path, required: true}
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Take what other bundles have
  bundle_fill:
    path: "/var/lib/appliance/bundles/{{ artifact_server_bundle_digest }}"
    digest: "{{ artifact_server_bundle_digest }}"
    marker: /var/lib/appliance/bundle.verified
    current: /var/lib/appliance/bundle
"""

RETURN = r"""
absent: {description: Paths that no bundle here has, type: list, returned: always}
taken: {description: Paths that were taken from another bundle, type: list, returned: always}
"""

NO_LINKS = (errno.EXDEV, errno.EMLINK, errno.EPERM, errno.ENOTSUP)


class Others:
    """The files of the other bundles, by their sha256."""

    def __init__(self, path, marker, current):
        self.known = {}
        self.places = {}
        folders = [entry for entry in sorted(path.parent.iterdir()) if SHA256.fullmatch(entry.name)]
        # A bundle that somebody keeps on another disk, behind the link.
        outside = Path(current).resolve()
        for folder in [*folders, outside]:
            if folder != path and folder.is_dir() and not folder.is_symlink():
                self._add(folder, marker)

    def _add(self, folder, marker):
        try:
            digest = sha256(folder / "manifest.json")
            other = Verification(folder, digest, marker)
            files, known = other.files() or [], other.known()
        except (OSError, ValueError):
            return
        for entry in files:
            found = folder / entry["path"]
            self.places.setdefault((entry["sha256"], entry["size"]), []).append(found)
            self.known[str(found)] = known.get(entry["path"])

    def take(self, entry, target):
        """Add a file from another bundle; return whether one had it."""
        for found in self.places.get((entry["sha256"], entry["size"]), ()):
            if self._is_right(found, entry) and put(found, target, entry):
                return True
        return False

    def has(self, entry):
        """Return whether another bundle has a file, without reading it."""
        return bool(self.places.get((entry["sha256"], entry["size"])))

    def _is_right(self, path, entry):
        now = signature(path)
        if now is None or not stat.S_ISREG(path.lstat().st_mode) or now[0] != entry["size"]:
            return False
        if path.parent.resolve() != path.parent:
            return False
        if now == self.known.get(str(path)):
            return True
        try:
            return sha256(path) == entry["sha256"]
        except OSError:
            return False


def put(found, target, entry):
    """Link a file to its new place, or copy it; return whether it is there."""
    make_folder(target.parent)
    partial = target.with_name("." + target.name[:200] + ".partial")
    if os.path.lexists(str(partial)):
        partial.unlink()  # of a run that was killed
    try:
        os.link(str(found), str(partial), follow_symlinks=False)
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        if copied(found, partial) != entry["sha256"]:
            partial.unlink()
            return False
    partial.replace(target)
    return True


def make_folder(folder):
    """Make a folder and its parents; the web server may read them whatever root's umask is."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir()
        folder.chmod(0o755)


def copied(source, target):
    """Copy a file with its mode and times; return the sha256 of what was written."""
    digest = hashlib.sha256()
    state = source.stat()
    with source.open("rb", buffering=0) as stream, target.open("xb") as copy:
        for block in iter(lambda: stream.read(BLOCK), b""):
            digest.update(block)
            copy.write(block)
    target.chmod(stat.S_IMODE(state.st_mode))
    os.utime(str(target), ns=(state.st_atime_ns, state.st_mtime_ns))
    return digest.hexdigest()


def fill(verification, current, check):
    """Return (absent, taken): what no bundle here has, and what another one had."""
    files = verification.files()
    if files is None:
        if check:
            return [], []
        raise ValueError("manifest.json is missing, or that of another bundle")
    faults, differing, verified = verification.look()
    if not faults:
        return [], []
    others = Others(verification.path, verification.marker, current)
    if not check:
        verification.settle(differing, verified, complete=False)
        verification.keep(verified)
    absent, taken = [], []
    for entry in files:
        if entry["path"] in verified:
            continue
        target = verification.path / entry["path"]
        below = target.parent.resolve() == verification.path.resolve() / Path(entry["path"]).parent
        had = others.has(entry) if check else below and others.take(entry, target)
        (taken if had else absent).append(entry["path"])
    return absent, taken


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "digest": {"type": "str", "required": True},
            "marker": {"type": "path", "required": True},
            "current": {"type": "path", "required": True},
        },
        supports_check_mode=True,
    )
    want = module.params
    verification = Verification(want["path"], want["digest"], want["marker"])
    try:
        absent, taken = fill(verification, want["current"], module.check_mode)
    except (OSError, ValueError, KeyError) as error:
        module.fail_json(msg="the bundle in %s cannot be filled: %s" % (want["path"], error))
    module.exit_json(changed=bool(taken), absent=absent, taken=taken)


if __name__ == "__main__":
    main()
