#!/usr/bin/python
"""Ansible module: swap is off, now and at every boot."""

from __future__ import annotations

import time

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.host_changes import settle

DOCUMENTATION = r"""
module: swap_off
short_description: Turn swap off, now and at every boot
description:
  - Turns every swap off, comments the swap lines of C(/etc/fstab) and masks units of swap.
  - Keeps the former C(/etc/fstab) beside it.
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Turn swap off
  swap_off:
"""

RETURN = r"""
changes: {description: One line for each change, type: list, returned: always}
"""

FSTAB = "/etc/fstab"
# Emptying a large swap takes minutes.
PROGRAM_SECONDS = 900


def without_swap(fstab):
    """Return fstab with its swap lines commented out."""
    lines = []
    for line in fstab.splitlines():
        fields = line.split()
        swap = len(fields) > 2 and not line.lstrip().startswith("#") and fields[2] == "swap"
        lines.append("# appliance: no swap: " + line if swap else line)
    return "".join(line + "\n" for line in lines)


def swap_units(host):
    """Return swap units that could come back at boot without fstab."""
    _, out, _ = host.run(
        ["systemctl", "list-units", "--type=swap", "--all", "--no-legend", "--plain"]
    )
    rows = [line.split() for line in out.splitlines() if line.split()]
    return [row[0] for row in rows if row[0].endswith(".swap") and row[1] != "masked"]


def bring(host, _want):
    """Turn swap off now, and keep it off at boot."""
    active = [line.split()[0] for line in host.read("/proc/swaps").splitlines()[1:]]
    units = swap_units(host)
    if active:
        host.act("swap off: " + ", ".join(active), ["swapoff", "-a"])
    before = host.read(FSTAB)
    after = without_swap(before)
    if after != before and before.rstrip("\n") + "\n" != after:
        backup = "%s.appliance-%s" % (FSTAB, time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()))
        host.save(FSTAB, backup)
        host.write(FSTAB, after, "swap lines commented out")
    for unit in units:
        host.act("%s masked" % unit, ["systemctl", "mask", unit])


def main():
    """Run the module."""
    module = AnsibleModule(argument_spec={}, supports_check_mode=True)
    settle(module, bring, PROGRAM_SECONDS)


if __name__ == "__main__":
    main()
