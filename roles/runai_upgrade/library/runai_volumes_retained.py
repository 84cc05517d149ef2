#!/usr/bin/python
"""Ansible module: the volumes of Run:ai's claims outlive the claims."""

from __future__ import annotations

import json

from ansible.module_utils.appliance_kubectl import ARGUMENTS, Kubectl, KubectlError
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: runai_volumes_retained
short_description: Set the reclaim policy of Run:ai's PersistentVolumes to Retain
description:
  - Every PersistentVolume that is bound to a claim of the namespaces gets the reclaim policy
    C(Retain), and is read again. Before 2.12 they belong to the Helm release of the backend, so
    removing that would delete the database.
options:
  namespaces: {description: Whose claims are meant, type: list, elements: str, required: true}
  kubeconfig: {description: Whose rights are used, type: path, default: /etc/kubernetes/admin.conf}
  kubectl: {description: The program, type: path, default: /usr/local/bin/kubectl}
  patience_seconds: {description: How long an unready server is waited for, type: int, default: 60}
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Keep the volumes
  runai_volumes_retained:
    namespaces: [runai-backend, runai]
"""

RETURN = r"""
volumes: {description: Volumes whose policy was changed, type: list, returned: success}
"""

RETAIN = "Retain"
PATCH = json.dumps({"spec": {"persistentVolumeReclaimPolicy": RETAIN}})


def not_retained(kubectl, namespaces):
    """Return the names of bound volumes with another policy."""
    found = (kubectl.get("persistentvolumes") or {}).get("items", [])
    return sorted(
        item["metadata"]["name"]
        for item in found
        if (item["spec"].get("claimRef") or {}).get("namespace") in namespaces
        and item["spec"].get("persistentVolumeReclaimPolicy") != RETAIN
    )


def retain(kubectl, namespaces):
    """Set the policy, and verify it; return the volumes that were changed.

    Raises:
        KubectlError: the API refused, or a volume has another policy still.
    """
    names = not_retained(kubectl, namespaces)
    for name in names:
        kubectl.call(["patch", "persistentvolume", name, "--type=merge", "--patch=" + PATCH])
    left = not_retained(kubectl, namespaces) if names else []
    if left:
        raise KubectlError("volume %s does not keep the policy %s" % (left[0], RETAIN))
    return names


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec=dict(
            ARGUMENTS, namespaces={"type": "list", "elements": "str", "required": True}
        ),
        supports_check_mode=True,
    )
    kubectl, namespaces = Kubectl.of(module), module.params["namespaces"]
    try:
        act = not_retained if module.check_mode else retain
        names = act(kubectl, namespaces)
    except KubectlError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=bool(names), volumes=names)


if __name__ == "__main__":
    main()
