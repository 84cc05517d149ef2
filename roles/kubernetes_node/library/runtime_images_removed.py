#!/usr/bin/python
"""Ansible module: remove images of earlier bundles that no container of this node uses."""

from __future__ import annotations

from ansible.module_utils import appliance_node_images
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: runtime_images_removed
short_description: Remove images of earlier bundles from this node
description:
  - An image goes only if its name is below the registry of the site, its digest is the one of that
    bundle, and no container here uses it, running or not.
  - What is not there any more is no failure. Any other image stays.
options:
  runtime:
    description: What runs the pods here
    type: str
    choices: [docker, containerd]
    required: true
  registry: {description: "NAME:PORT of the registry, with a project", type: str, required: true}
  images: {description: "name:tag and the digest of what goes", type: dict, required: true}
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Remove the images of the release before the last
  runtime_images_removed:
    runtime: docker
    registry: registry.rack.example:5000
    images: {"pause:3.5": "sha256:0123..."}
"""

RETURN = r"""
removed: {description: The images that were removed, type: list, elements: str, returned: always}
"""


def due(runtime, registry, images):
    """Return (name, digest) of what is here, is asked to go, and is not in use."""
    used = runtime.used()
    asked = {"%s/%s" % (registry, name): digest for name, digest in images.items()}
    return sorted(
        (entry["name"], entry["digest"])
        for entry in runtime.images()
        if asked.get(entry["name"]) == entry["digest"] and not {entry["id"], entry["name"]} & used
    )


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "runtime": {"type": "str", "choices": ["docker", "containerd"], "required": True},
            "registry": {"type": "str", "required": True},
            "images": {"type": "dict", "required": True},
        },
        supports_check_mode=True,
    )
    want = module.params
    runtime = appliance_node_images.runtime_of(want["runtime"])
    try:
        going = due(runtime, want["registry"], want["images"])
        for name, digest in going if not module.check_mode else ():
            runtime.remove(name, digest)
    except (appliance_node_images.ImagesError, ValueError, LookupError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=bool(going), removed=[name for name, _ in going])


if __name__ == "__main__":
    main()
