#!/usr/bin/python
"""Ansible module: kernel modules are loaded, now and at every boot."""

from __future__ import annotations

import os
import re

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.host_changes import HEADER, settle

DOCUMENTATION = r"""
module: kernel_modules
short_description: Load kernel modules, now and at every boot
description:
  - Writes a file of C(/etc/modules-load.d), and loads each module that is not there.
  - A module that is built into the kernel counts as loaded.
options:
  names: {description: Kernel modules, type: list, elements: str, required: true}
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Load the kernel modules
  kernel_modules:
    names: [overlay, br_netfilter]
"""

RETURN = r"""
changes: {description: One line for each change, type: list, returned: always}
"""

MODULES_FILE = "/etc/modules-load.d/appliance.conf"


def is_loaded(host, name):
    """Return whether a module is loaded or built in."""
    plain = name.replace("-", "_")
    if host.path("/sys/module/" + plain).exists():
        return True
    builtin = host.read("/lib/modules/%s/modules.builtin" % os.uname().release)
    if any(re.search(r"/%s\.ko\b" % re.escape(form), builtin) for form in (name, plain)):
        return True
    return plain in live_without_module(host)


def live_without_module(host):
    """Return modules whose work is there although the kernel does not list them (built in)."""
    names = set()
    if host.path("/proc/sys/net/bridge/bridge-nf-call-iptables").exists():
        names.add("br_netfilter")
    if re.search(r"\boverlay$", host.read("/proc/filesystems"), re.MULTILINE):
        names.add("overlay")
    if host.path("/proc/sys/net/netfilter/nf_conntrack_max").exists():
        names.add("nf_conntrack")
    return names


def bring(host, want):
    """Load modules now and at boot."""
    names = want["names"]
    host.write(MODULES_FILE, HEADER + "".join(name + "\n" for name in names), "modules at boot")
    for name in names:
        if not is_loaded(host, name):
            host.act("module %s loaded" % name, ["modprobe", name])


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={"names": {"type": "list", "elements": "str", "required": True}},
        supports_check_mode=True,
    )
    settle(module, bring)


if __name__ == "__main__":
    main()
