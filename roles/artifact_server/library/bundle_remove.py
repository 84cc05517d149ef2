#!/usr/bin/python
"""Ansible module: remove a bundle that this host no longer serves."""

from __future__ import annotations

import os
import re
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.bundles_on_disk import (
    DOCUMENTS,
    Verification,
    mark,
    marked,
    record_of,
)

DOCUMENTATION = r"""
module: bundle_remove
short_description: Remove a bundle that this host no longer serves
description:
  - Removed are the files that the bundle's own manifest lists, and the manifest last. The folder is
    named by the sha256 of that manifest, which shows that the bundle is ours.
  - Refused while the bundle is served, and while no other one is verified and served.
  - What the manifest does not list stays and is returned. An interrupted removal resumes.
options:
  current: {description: Path under which the bundle is read, type: path, required: true}
  store: {description: Folder of all bundles, type: path, required: true}
  digest: {description: sha256 of the manifest of the bundle to remove, type: str, required: true}
  marker: {description: File that lists the verified digests, type: path, required: true}
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Remove the earlier bundle
  bundle_remove:
    current: /var/lib/appliance/bundle
    store: /var/lib/appliance/bundles
    digest: "{{ artifact_server_removed_digest }}"
    marker: /var/lib/appliance/bundle.verified
"""

RETURN = r"""
left: {description: Paths in the folder that no bundle of ours has, type: list, returned: always}
"""

DIGEST = re.compile(r"[0-9a-f]{64}")


class Removal:
    """One bundle of the store, and what is served meanwhile."""

    def __init__(self, current, store, digest, marker):
        self.current = Path(current)
        self.store = Path(store)
        self.digest = digest
        self.marker = Path(marker)
        self.path = self.store / digest

    def is_there(self):
        """Return whether there is anything to remove."""
        return self.path.is_symlink() or self.path.exists()

    def refusal(self):
        """Return why the bundle must stay; None where it may go."""
        if not DIGEST.fullmatch(self.digest):
            return "%r is not the digest of a bundle" % self.digest
        if self.path.is_symlink() or not self.path.is_dir() or self.store.is_symlink():
            return "%s is not a folder" % self.path
        if Verification(self.path, self.digest, self.marker).files() is None and self.names():
            return "its manifest is missing or that of another bundle"
        return self.fault_of_served()

    def fault_of_served(self):
        """Return why the bundle that is served is no replacement; None where it is one."""
        served = self.current.resolve() if self.current.is_symlink() else None
        if served is None or served.parent != self.store.resolve():
            return "%s does not lead to a bundle of %s" % (self.current, self.store)
        if served.name == self.digest:
            return "it is the bundle that is served"
        if not (served / "manifest.json").is_file():
            return "the bundle that is served, %s, is not there" % served.name[:12]
        if served.name not in marked(self.marker):
            return "the bundle that is served, %s, is not verified" % served.name[:12]
        return None

    def names(self):
        """Return every file and link in the folder."""
        found = []
        for root, names, leaves in os.walk(str(self.path)):
            links = [name for name in names if (Path(root) / name).is_symlink()]
            found += [str((Path(root) / n).relative_to(self.path)) for n in [*links, *leaves]]
        return sorted(found)

    def strangers(self):
        """Return what the bundle's manifest does not list."""
        listed = {entry["path"] for entry in self.files()}
        return [name for name in self.names() if name not in listed and name not in DOCUMENTS]

    def files(self):
        """Return the files that the manifest lists; none where it is gone already."""
        return Verification(self.path, self.digest, self.marker).files() or []

    def carry_out(self):
        """Remove the bundle; return what stays."""
        left = self.strangers()
        mark(self.marker, self.digest, complete=False)
        for entry in self.files():
            path = self.path / entry["path"]
            inside = self.path.resolve() / Path(entry["path"]).parent
            if path.parent.resolve() == inside and (path.is_symlink() or path.is_file()):
                path.unlink()
        for name in reversed(DOCUMENTS):
            path = self.path / name
            if path.is_symlink() or path.exists():
                path.unlink()
        for root, _, _ in os.walk(str(self.path), topdown=False):
            if not any(Path(root).iterdir()):
                Path(root).rmdir()
        record = record_of(self.path)
        if record.exists():
            record.unlink()
        return left


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
    removal = Removal(want["current"], want["store"], want["digest"], want["marker"])
    if not removal.is_there():
        module.exit_json(changed=False, left=[])
    try:
        reason = removal.refusal()
        if reason:
            module.fail_json(
                msg="the bundle %s was not removed: %s; see: ls -l %s"
                % (want["digest"][:12], reason, want["store"])
            )
        left = removal.strangers() if module.check_mode else removal.carry_out()
    except (OSError, ValueError, KeyError) as error:
        module.fail_json(msg="%s cannot be removed: %s" % (removal.path, error))
    module.exit_json(changed=True, left=left)


if __name__ == "__main__":
    main()
