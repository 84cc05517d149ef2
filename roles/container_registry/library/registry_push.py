#!/usr/bin/python
"""Ansible module: push images that a registry lacks, or of which it lacks a blob."""

from __future__ import annotations

from ansible.module_utils.appliance_job import JobError
from ansible.module_utils.appliance_registry import RegistryError
from ansible.module_utils.appliance_registry_push import converge
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: registry_push
short_description: Push missing images from an OCI layout to a registry
description:
  - Asks the registry for each image by tag, and for every blob of it.
  - Pushes images that are missing, incomplete or have another digest, with crane in the
    transient unit C(appliance-registry-push.service). Then checks everything again.
  - Reads without a login where the registry allows it; pushes and deletes with it.
  - Without C(storage) the registry is the organisation's. Nothing of it is deleted, and no tag that
    names another image is replaced.
options:
  layout: {description: Folder of the OCI layout, type: path, required: true}
  registry: {description: "NAME:PORT", type: str, required: true}
  login_dir: {description: Folder of the login (config.json of Docker), type: path, required: true}
  project: {description: What precedes each image's name there, type: str, default: ""}
  images: {description: "name:tag and the digest of its manifest", type: dict, required: true}
  storage: {description: "Folder of the registry's data, if it is ours", type: path}
  ca_path: {description: Certificate authority of the registry, type: path, required: true}
  crane: {description: Path of crane, type: path, required: true}
  at_once: {description: How many images are pushed at the same time, type: int, default: 4}
  deadline_seconds: {description: How long to wait for the push, type: int, default: 3600}
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Hold every image
  registry_push:
    layout: /var/lib/appliance/bundle/images
    registry: registry.example:5000
    login_dir: /etc/appliance/registry/login
    images: {"pause:3.6": "sha256:..."}
    storage: /var/lib/docker-registry
    ca_path: /etc/appliance/ca.crt
    crane: /var/lib/appliance/bundle/bin/crane
"""

RETURN = r"""
pushed: {description: Images that were pushed, type: list, returned: always}
"""


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "layout": {"type": "path", "required": True},
            "registry": {"type": "str", "required": True},
            "login_dir": {"type": "path", "required": True},
            "project": {"type": "str", "default": ""},
            "images": {"type": "dict", "required": True},
            "storage": {"type": "path"},
            "ca_path": {"type": "path", "required": True},
            "crane": {"type": "path", "required": True},
            "at_once": {"type": "int", "default": 4},
            "deadline_seconds": {"type": "int", "default": 3600},
        },
        supports_check_mode=True,
    )
    try:
        pushed = converge(module.params, check=module.check_mode)
    except (RegistryError, JobError, OSError, ValueError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=bool(pushed), pushed=pushed)


if __name__ == "__main__":
    main()
