#!/usr/bin/python
"""Ansible module: verify that the bundle on this host is complete, every byte."""

from __future__ import annotations

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.bundles_on_disk import Verification

DOCUMENTATION = r"""
module: bundle_verify
short_description: Verify that the bundle on this host is complete
description:
  - Compares each file with the digest in the manifest, and the manifest with C(digest).
  - A file with the same size, times and inode as at its verification is not read again.
  - A file that differs is removed, so that the next transfer copies it again.
  - Only regular files below the folders of a bundle are read or removed, never through a link; a
    manifest with any other path is refused before anything is removed.
  - With C(required), what the manifest does not list is removed from the bundle's folders.
  - The marker lists the digest exactly while everything is verified.
options:
  path: {description: Folder of the bundle, type: path, required: true}
  digest: {description: sha256 of its manifest, type: str, required: true}
  marker: {description: File that lists the verified digests, type: path, required: true}
  required: {description: Whether an incomplete bundle is a failure, type: bool, default: false}
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Verify the bundle
  bundle_verify:
    path: "/var/lib/appliance/bundles/{{ artifact_server_bundle_digest }}"
    digest: "{{ artifact_server_bundle_digest }}"
    marker: /var/lib/appliance/bundle.verified
"""

RETURN = r"""
complete: {description: Whether every byte is verified, type: bool, returned: always}
removed: {description: What the manifest does not list, type: list, returned: always}
faults: {description: What is missing or differs, type: list, returned: always}
"""


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
        removed = []
        if want["required"] and complete:
            removed = verification.prune(check=module.check_mode)
            changed = changed or bool(removed)
        if not module.check_mode and (changed or (complete and verification.known() != verified)):
            verification.settle(differing, verified, complete)
    except (OSError, ValueError, KeyError) as error:
        module.fail_json(msg="the bundle in %s cannot be read: %s" % (want["path"], error))
    result = {"complete": complete, "faults": faults, "removed": removed, "changed": changed}
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
