#!/usr/bin/python
"""Ansible module: a StorageClass of ours that must change is deleted, to be made again."""

from __future__ import annotations

from ansible.module_utils.appliance_kubectl import ARGUMENTS, Kubectl, KubectlError
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: storage_class_made_again
short_description: Delete a StorageClass whose fixed fields differ from the wanted ones
description:
  - Kubernetes forbids to change the provisioner, the parameters and the mount options of a class.
    So a class of ours that differs is deleted here, and the next task makes it again from its
    manifest.
  - Volumes and claims name their class and do not depend on the object. None of them changes.
  - Refuses a class of that name with a provisioner that is not ours.
options:
  name: {description: Name of the StorageClass, type: str, required: true}
  provisioner: {description: Its provisioner, type: str, required: true}
  parameters: {description: Its parameters, type: dict, default: {}}
  mount_options: {description: Its mount options, type: list, elements: str, default: []}
  ours: {description: Provisioners that our classes had, type: list, elements: str, required: true}
  kubeconfig: {description: Whose rights are used, type: path, default: /etc/kubernetes/admin.conf}
  kubectl: {description: The program, type: path, default: /usr/local/bin/kubectl}
  patience_seconds: {description: How long to wait for an unready server, type: int, default: 60}
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Make way for a class with a provisioner
  storage_class_made_again:
    name: appliance-nfs
    provisioner: appliance.dev/nfs
    ours: [appliance.dev/nfs, kubernetes.io/no-provisioner]
"""

RETURN = r"""
differences: {description: The fields that differ, type: list, elements: str, returned: success}
"""


class ClassError(Exception):
    """The class is not ours; the text has the reason."""


def differences(held, want):
    """Return the names of the fixed fields in which a class differs from what is wanted."""
    wanted = {
        "provisioner": want["provisioner"],
        "parameters": want["parameters"],
        "mountOptions": want["mount_options"],
        "reclaimPolicy": "Retain",
        "volumeBindingMode": "Immediate",
    }
    return [
        name for name, value in sorted(wanted.items()) if (held.get(name) or type(value)()) != value
    ]


def converge(kubectl, want, check_mode):
    """Delete the class where it differs; return the fields that differ."""
    held = kubectl.get("storageclass", want["name"])
    if held is None:
        return []
    if held.get("provisioner") not in want["ours"]:
        raise ClassError(
            "StorageClass %s has the provisioner %s, expected one of ours (%s): it was not "
            "changed; rename or remove it"
            % (want["name"], held.get("provisioner"), ", ".join(want["ours"]))
        )
    found = differences(held, want)
    if found and not check_mode:
        kubectl.call(["delete", "--ignore-not-found", "storageclass", want["name"]])
    return found


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec=dict(
            ARGUMENTS,
            name={"type": "str", "required": True},
            provisioner={"type": "str", "required": True},
            parameters={"type": "dict", "default": {}},
            mount_options={"type": "list", "elements": "str", "default": []},
            ours={"type": "list", "elements": "str", "required": True},
        ),
        supports_check_mode=True,
    )
    kubectl = Kubectl.of(module)
    if module.check_mode and not kubectl.is_possible():
        module.exit_json(changed=False, differences=[])
    try:
        found = converge(kubectl, module.params, module.check_mode)
    except (KubectlError, ClassError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=bool(found), differences=found)


if __name__ == "__main__":
    main()
