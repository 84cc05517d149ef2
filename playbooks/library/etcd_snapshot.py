#!/usr/bin/python
"""Ansible module: a snapshot of this node's etcd that was restored once."""

from __future__ import annotations

from ansible.module_utils import appliance_etcd_proof, appliance_etcd_trial
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: etcd_snapshot
short_description: Save a snapshot of etcd, and restore it once
description:
  - Runs on a control-plane node with a healthy etcd.
  - Saves it, 0600, in /var/lib/appliance/etcd-snapshots, and keeps the latest of a reason.
  - Restores it into a scratch etcd of its own folder and ports of the loopback, and compares
    revision, number of keys and a digest over them with what the file holds.
  - Ends the scratch etcd and removes what it wrote; never touches the data of the node's etcd.
options:
  reason: {description: A word for its name, type: str, required: true}
  seconds: {description: The limit for the restore, type: int, default: 180}
  memory_mb: {description: The limit for the memory of the scratch etcd, type: int, default: 1024}
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Save etcd before the upgrade
  etcd_snapshot:
    reason: upgrade
"""

RETURN = r"""
path: {description: The snapshot, type: str, returned: always}
snapshot: {description: "Path, sha256, revision, keys, digest", type: dict, returned: always}
"""


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "reason": {"type": "str", "required": True},
            "seconds": {"type": "int", "default": 180},
            "memory_mb": {"type": "int", "default": 1024},
        },
        supports_check_mode=True,
    )
    if module.check_mode:
        module.exit_json(changed=True, path="", snapshot={})
    options = module.params
    if not options["reason"].replace("-", "").isalnum():
        module.fail_json(msg="the reason %r is no word" % options["reason"])
    limits = appliance_etcd_trial.Limits(options["seconds"], options["memory_mb"])
    try:
        known = appliance_etcd_proof.prove(options["reason"], limits)
    except appliance_etcd_proof.ERRORS as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=True, path=known["path"], snapshot=known)


if __name__ == "__main__":
    main()
