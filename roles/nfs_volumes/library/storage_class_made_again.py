#!/usr/bin/python
"""Ansible module: a StorageClass of ours whose fixed fields must change is made again."""

from __future__ import annotations

import json
import tempfile

from ansible.module_utils.appliance_kubectl import ARGUMENTS, end_by
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: storage_class_made_again
short_description: Make a StorageClass again whose fixed fields differ from the wanted ones
description:
  - Kubernetes forbids to change the provisioner, the parameters and the mount options of a class.
    So a class of ours that differs is deleted and made again, with the labels, annotations and
    other settings that somebody gave it.
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
- name: Give the class its provisioner
  storage_class_made_again:
    name: appliance-nfs
    provisioner: appliance.dev/nfs
    ours: [appliance.dev/nfs, kubernetes.io/no-provisioner]
"""

RETURN = r"""
differences: {description: The fields that differ, type: list, elements: str, returned: success}
"""

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class ClassError(Exception):
    """The class is not ours; the text has the reason."""


def fixed_fields(want):
    """Return the fields that cannot be changed in place, as they are wanted."""
    return {
        "provisioner": want["provisioner"],
        "parameters": want["parameters"],
        "mountOptions": want["mount_options"],
        "reclaimPolicy": "Retain",
        "volumeBindingMode": "Immediate",
    }


def differences(held, want):
    """Return the names of the fixed fields in which a class differs from what is wanted."""
    return [
        name
        for name, value in sorted(fixed_fields(want).items())
        if (held.get(name) or type(value)()) != value
    ]


def as_wanted(held, want):
    """Return the class with the wanted fixed fields; what else it had stays."""
    had = held.get("metadata") or {}
    metadata = {key: had[key] for key in ("labels", "annotations") if had.get(key)}
    metadata.get("annotations", {}).pop(LAST_APPLIED, None)
    of_server = ("metadata", "apiVersion", "kind")
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        **{key: value for key, value in held.items() if key not in of_server},
        **fixed_fields(want),
        "metadata": {"name": want["name"], **metadata},
    }


def converge(kubectl, want, check_mode):
    """Make the class again where it differs; return the fields that differ."""
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
        with tempfile.NamedTemporaryFile("w", suffix=".json", dir="/run") as manifest:
            json.dump(as_wanted(held, want), manifest)
            manifest.flush()
            kubectl.call(["delete", "--ignore-not-found", "storageclass", want["name"]])
            kubectl.call(["apply", "--filename=" + manifest.name])
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
    end_by(module, converge, "differences", (ClassError,), unseen_changes=False)


if __name__ == "__main__":
    main()
