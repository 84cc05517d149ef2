#!/usr/bin/python
"""Ansible module: keep the kernel's own driver nouveau from loading, now and at boot."""

from __future__ import annotations

import shutil
from pathlib import Path

from ansible.module_utils.appliance_files import write
from ansible.module_utils.appliance_programs import runner
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: nouveau_blocked
short_description: Keep nouveau off the GPUs
description:
  - Writes a drop-in for modprobe, and updates the initial RAM file systems where there is a program
    for it, because their modules are loaded before the drop-in is read.
  - Unloads nouveau when it is loaded; if it is in use, fails and asks for a reboot.
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Keep nouveau off the GPUs, now and at every boot
  nouveau_blocked:
"""

RETURN = r"""
changes: {description: One line for each change, type: list, returned: always}
"""

DROP_IN = "/etc/modprobe.d/appliance-nouveau.conf"
LOADED = "/sys/module/nouveau"
HEADER = "# Written by appliance; changes are overwritten.\n"
TEXT = HEADER + "blacklist nouveau\noptions nouveau modeset=0\n"

# One initial RAM file system for each installed kernel.
PROGRAM_SECONDS = 900


class InUse(Exception):
    """Nouveau cannot be unloaded."""


def block(run, root, check_mode):
    """Write the drop-in and update the initial RAM file systems; return the changes."""
    path = Path(root + DROP_IN)
    if path.is_file() and path.read_text() == TEXT:
        return []
    if not check_mode:
        # Under another name until the end, so that the run after a killed one repeats all of it.
        unfinished = path.with_name("appliance-nouveau-unfinished.conf")
        unfinished.parent.mkdir(parents=True, exist_ok=True)
        write(unfinished, TEXT, 0o644)
        renew_ram_disks(run)
        unfinished.replace(path)
    return ["%s: nouveau is blocked at boot" % DROP_IN]


def renew_ram_disks(run):
    """Update every initial RAM file system with the drop-in."""
    program = shutil.which("update-initramfs")
    if not program:
        return
    rc, out, err = run([program, "-u", "-k", "all"])
    if rc != 0:
        raise InUse("update-initramfs failed: %s" % (err or out).strip()[-300:])


def unload(run, root, check_mode):
    """Unload the module; return the changes."""
    if not Path(root + LOADED).exists():
        return []
    if not check_mode:
        rc, out, err = run(["modprobe", "-r", "nouveau"])
        if rc != 0:
            raise InUse(
                "nouveau is in use and stays loaded (%s); it is blocked after the next boot: "
                "reboot this node, then run the same command again" % (err or out).strip()
            )
    return ["nouveau is unloaded"]


def main():
    """Run the module."""
    module = AnsibleModule(argument_spec={}, supports_check_mode=True)
    changes, run = [], runner(module, PROGRAM_SECONDS)
    try:
        changes += block(run, "", module.check_mode)
        changes += unload(run, "", module.check_mode)
    except (InUse, OSError) as error:
        module.fail_json(msg=str(error), changes=changes)
    module.exit_json(changed=bool(changes), changes=changes)


if __name__ == "__main__":
    main()
