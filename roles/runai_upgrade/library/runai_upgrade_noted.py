#!/usr/bin/python
"""Ansible module: how far an upgrade of Run:ai came is noted on this node."""

from __future__ import annotations

from ansible.module_utils import runai_rollouts
from ansible.module_utils import runai_upgrade_record as records
from ansible.module_utils.appliance_kubectl import ARGUMENTS, Kubectl, KubectlError
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.runai_upgrade_record import UpgradeError

DOCUMENTATION = r"""
module: runai_upgrade_noted
short_description: Note how far an upgrade of Run:ai came
description:
  - Sets entries of the record that C(runai_saved_state) made. The probe reads it.
  - Before C(verified), each claim of Run:ai must be bound to the volume from before, and every
    workload must run in its new form. That is waited for, as long as something changes.
options:
  merged: {description: The values of both releases are merged, type: bool}
  verified: {description: The new version was seen to work, type: bool}
  kubeconfig: {description: Whose rights are used, type: path, default: /etc/kubernetes/admin.conf}
  kubectl: {description: The program, type: path, default: /usr/local/bin/kubectl}
  patience_seconds: {description: How long an unready server is waited for, type: int, default: 60}
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Note that the new version works
  runai_upgrade_noted:
    verified: true
"""

RETURN = r"""# """


def note(changes, kubectl):
    """Change the record; return whether that changed anything.

    Raises:
        UpgradeError: there is none, a claim has another volume, or new pods do not start.
    """
    if changes.get("verified"):
        records.require_claims(kubectl, records.read().get("claims") or {})
        runai_rollouts.require(kubectl)
    return records.update(changes)


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec=dict(ARGUMENTS, merged={"type": "bool"}, verified={"type": "bool"}),
        supports_check_mode=True,
    )
    given = {key: module.params[key] for key in ("merged", "verified")}
    changes = {key: value for key, value in given.items() if value is not None}
    try:
        changed = bool(changes) if module.check_mode else note(changes, Kubectl.of(module))
    except (KubectlError, OSError, UpgradeError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=changed)


if __name__ == "__main__":
    main()
