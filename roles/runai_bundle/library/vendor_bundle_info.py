#!/usr/bin/python
"""Ansible module: whether a vendor bundle is unpacked on this node."""

from __future__ import annotations

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.vendor_bundle import ARGUMENTS, settle

DOCUMENTATION = r"""
module: vendor_bundle_info
short_description: Say whether a vendor bundle is unpacked here
description:
  - Compares the digest of the bundle that was unpacked to its end; changes nothing.
options:
  record: {description: What the bundle is and holds, type: dict, required: true}
  folder: {description: Where bundles are, type: path, required: true}
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Look whether the bundle is unpacked
  vendor_bundle_info:
    record: "{{ runai_bundle_record }}"
    folder: /var/lib/appliance/runai
  register: __bundle
"""

RETURN = r"""
unpacked: {description: Whether this bundle is unpacked here, type: bool, returned: always}
path: {description: The folder it is unpacked in, type: str, returned: always}
"""


def look(_module, bundle):
    """Return what is here."""
    return {"changed": False, "unpacked": bundle.is_unpacked(), "path": str(bundle.path)}


def main():
    """Run the module."""
    settle(AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True), look)


if __name__ == "__main__":
    main()
