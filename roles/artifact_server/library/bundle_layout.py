#!/usr/bin/python
"""Ansible module: give each bundle on this host a folder of its own."""

from __future__ import annotations

import ctypes
import errno
import json
import os
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.bundles_on_disk import record_of, sha256

DOCUMENTATION = r"""
module: bundle_layout
short_description: Give each bundle on this host a folder of its own
description:
  - Earlier versions of this tool had one bundle, in the folder C(current). It moves into C(store),
    under the digest of its manifest, and C(current) becomes a link to it. Where the file system
    can exchange two names, there is no moment without C(current).
  - An interrupted transfer of an earlier version moves to the folder of the bundle C(digest).
options:
  current: {description: Path under which the bundle is read, type: path, required: true}
  store: {description: Folder of all bundles, type: path, required: true}
  digest: {description: sha256 of the manifest of the wanted bundle, type: str, required: true}
  marker: {description: File that lists the verified digests, type: path, required: true}
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Give each bundle a folder
  bundle_layout:
    current: /var/lib/appliance/bundle
    store: /var/lib/appliance/bundles
    digest: "{{ artifact_server_bundle_digest }}"
    marker: /var/lib/appliance/bundle.verified
"""

RETURN = r"""
adopted: {description: Digest of the bundle that moved into the store, type: str, returned: always}
"""

AT_FDCWD = -100
RENAME_EXCHANGE = 2
UNSUPPORTED = (errno.EINVAL, errno.ENOSYS)
ELSEWHERE = (errno.EBUSY, errno.EXDEV)


def exchange(one, other):
    """Exchange two names in one step; an OSError where the file system cannot."""
    library = ctypes.CDLL(None, use_errno=True)
    if not hasattr(library, "renameat2"):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    words = (os.fsencode(str(one)), os.fsencode(str(other)))
    if library.renameat2(AT_FDCWD, words[0], AT_FDCWD, words[1], RENAME_EXCHANGE):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), str(one))


class Layout:
    """The folders of the bundles on this host."""

    def __init__(self, current, store, digest, marker):
        self.current = Path(current)
        self.store = Path(store)
        self.digest = digest
        self.marker = Path(marker)

    def to_adopt(self):
        """Return the name that a single folder of an earlier version gets; None without one."""
        if self.current.is_symlink() or not self.current.is_dir():
            return None
        try:
            return sha256(self.current / "manifest.json")
        except OSError:
            # An interrupted transfer: what is there is a part of the wanted bundle, or unlisted.
            return self.digest

    def carry_out(self):
        """Move a single folder into the store."""
        name = self.to_adopt()
        if name is None:
            return
        if self.store.is_symlink():
            raise ValueError("%s is a link, expected a folder" % self.store)
        self.store.mkdir(mode=0o755, exist_ok=True)
        self.store.chmod(0o755)
        self.adopt(self.store / name)
        self.move_record(name)

    def adopt(self, target):
        """Make the single folder ``target``, and a link to it in its place."""
        if target.is_symlink():
            target.unlink()  # of an adoption that was killed before its exchange
        elif target.is_dir() and not any(target.iterdir()):
            target.rmdir()
        elif target.exists() and not any(self.current.iterdir()):
            self.current.rmdir()  # what a disk that is now mounted in the store left
            return
        elif target.exists():
            raise ValueError(
                "%s is a folder, and %s is there as well; move one of them away: mv %s %s.aside"
                % (self.current, target, self.current, self.current)
            )
        link = os.path.relpath(str(target), str(self.current.parent))
        target.symlink_to(link)
        try:
            self.swap(target, link)
        except OSError as error:
            if target.is_symlink():
                target.unlink()
            if error.errno not in ELSEWHERE:
                raise
            raise ValueError(
                "%s is a mount point or on another disk than %s, so it was not moved; mount that "
                "disk on %s, or move the folder there: mv %s %s"
                % (self.current, self.store, target, self.current, target)
            ) from error

    def swap(self, target, link):
        """Exchange the folder and the link; where there is no exchange, one after the other."""
        try:
            exchange(self.current, target)
        except OSError as error:
            if error.errno not in UNSUPPORTED:
                raise
            target.unlink()
            self.current.rename(target)
            self.current.symlink_to(link)

    def move_record(self, name):
        """Keep what was verified, so that it is not read again."""
        before = record_of(self.marker)
        try:
            if json.loads(before.read_text())["digest"] == name:
                before.replace(record_of(self.store / name))
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "current": {"type": "path", "required": True},
            "store": {"type": "path", "required": True},
            "digest": {"type": "str", "required": True},
            "marker": {"type": "path", "required": True},
        },
        supports_check_mode=True,
    )
    want = module.params
    layout = Layout(want["current"], want["store"], want["digest"], want["marker"])
    try:
        adopted = layout.to_adopt()
        changed = adopted is not None
        if changed and not module.check_mode:
            layout.carry_out()
    except (OSError, ValueError) as error:
        module.fail_json(msg="the bundles in %s cannot be arranged: %s" % (want["store"], error))
    module.exit_json(changed=changed, adopted=adopted)


if __name__ == "__main__":
    main()
