#!/usr/bin/python
"""Ansible module: save a snapshot of this node's etcd, and verify it."""

from __future__ import annotations

from ansible.module_utils import appliance_etcd_snapshot
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: etcd_snapshot
short_description: Save a verified snapshot of etcd
description:
  - Saves a snapshot in C(/var/lib/appliance/etcd-snapshots), readable by root only, and verifies
    the checksum at its end. The latest five of one reason are kept.
options:
  reason: {description: Part of its name, type: str, required: true}
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Save a snapshot of etcd
  etcd_snapshot:
    reason: upgrade
"""

RETURN = r"""
path: {description: The snapshot, type: str, returned: always}
"""


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={"reason": {"type": "str", "required": True}}, supports_check_mode=True
    )
    if module.check_mode:
        module.exit_json(changed=True, path="")
    try:
        path = appliance_etcd_snapshot.snapshot(module.params["reason"])
    except appliance_etcd_snapshot.SnapshotError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=True, path=path)


if __name__ == "__main__":
    main()
