#!/usr/bin/python
"""Ansible module: restart what still uses replaced files, and say why the machine must boot."""

from __future__ import annotations

from pathlib import Path

from ansible.module_utils.appliance_boot import boot_faults
from ansible.module_utils.appliance_programs import runner
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.replaced_files import boot_reasons, lasting, stale_units

DOCUMENTATION = r"""
module: updates_in_effect
short_description: Restart what still uses replaced files
description:
  - Finds processes that still use a program or library that a package replaced, as needrestart
    does, and restarts their services.
  - A service that cannot be restarted on a running machine is a reason to boot, as are a newer
    kernel of the running one's series, and a request for a boot by a package.
  - Fails instead where the kernel that boots next lacks its initial RAM disk or its modules.
options:
  boot_from:
    description: Boot the machine as long as it runs in the boot of this id.
    type: str
    default: ""
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Restart services that still use a replaced file
  updates_in_effect:
"""

RETURN = r"""
restarted: {description: Services that were restarted, type: list, returned: always}
boot: {description: Why the machine must boot, type: list, returned: always}
"""


class NoBoot(Exception):
    """The machine would not come up again; the text has the reason and the next action."""


def converge(module):
    """Return the result of the module.

    Raises:
        NoBoot: the machine must boot, and would not come up again.
    """
    run, root = runner(module), Path("/")
    reasons = boot_reasons(root, module.params["boot_from"])
    stale = stale_units(root)
    # Where the machine boots, nothing is restarted before.
    due = [] if reasons else [unit for unit in stale if not lasting(unit)]
    if due and not module.check_mode:
        for unit in due:
            rc, out, err = run(["systemctl", "try-restart", unit])
            if rc != 0:
                reasons.append(
                    "%s did not restart: %s" % (unit, " ".join((err or out).split())[:200])
                )
        stale = stale_units(root)
    reasons += [
        "%s still uses a replaced file" % unit
        for unit in stale
        if lasting(unit) or (not module.check_mode and not reasons)
    ]
    faults = boot_faults(root) if reasons else []
    if faults:
        raise NoBoot(
            "this machine must boot (%s), and would not come up: %s; make it again with "
            "update-initramfs -c -k all, or install that kernel's packages again; then run the "
            "same command again" % (reasons[0], "; ".join(faults))
        )
    return {"changed": bool(due), "restarted": due, "boot": reasons}


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={"boot_from": {"type": "str", "default": ""}}, supports_check_mode=True
    )
    try:
        module.exit_json(**converge(module))
    except NoBoot as error:
        module.fail_json(msg=str(error))


if __name__ == "__main__":
    main()
