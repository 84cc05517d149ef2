#!/usr/bin/python
"""Ansible module: how far an upgrade of Run:ai came is noted on this node."""

from __future__ import annotations

from ansible.module_utils import runai_upgrade_record as records
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.runai_upgrade_record import UpgradeError

DOCUMENTATION = r"""
module: runai_upgrade_noted
short_description: Note how far an upgrade of Run:ai came
description:
  - Sets entries of the record that C(runai_saved_state) made. The probe reads it.
options:
  merged: {description: The values of both releases are merged, type: bool}
  verified: {description: The new version was seen to work, type: bool}
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Note that the new version works
  runai_upgrade_noted:
    verified: true
"""

RETURN = r"""# """


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={"merged": {"type": "bool"}, "verified": {"type": "bool"}},
        supports_check_mode=True,
    )
    changes = {key: value for key, value in module.params.items() if value is not None}
    try:
        changed = bool(changes) if module.check_mode else records.update(changes)
    except (OSError, UpgradeError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=changed)


if __name__ == "__main__":
    main()
