#!/usr/bin/python
"""Ansible module: sysctls have their values, now and at every boot."""

from __future__ import annotations

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.host_changes import HEADER, SYSCTL_FILE, SettingsError, settle

DOCUMENTATION = r"""
module: kernel_sysctls
short_description: Set sysctls, now and at every boot
description:
  - Writes a file of C(/etc/sysctl.d), and sets each live value that differs.
options:
  values: {description: Keys and values, type: dict, required: true}
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Set the sysctls
  kernel_sysctls:
    values: {net.ipv4.ip_forward: 1}
"""

RETURN = r"""
changes: {description: One line for each change, type: list, returned: always}
"""


def bring(host, want):
    """Set sysctls now and at boot."""
    values = {key: str(value) for key, value in want["values"].items()}
    text = HEADER + "".join("%s = %s\n" % item for item in sorted(values.items()))
    host.write(SYSCTL_FILE, text, "sysctls at boot")
    for key, value in sorted(values.items()):
        name = "/proc/sys/" + key.replace(".", "/")
        live = " ".join(host.read(name).split())
        if live == value:
            continue
        host.note("sysctl %s: %s -> %s" % (key, live or "absent", value))
        if not host.check_mode:
            try:
                with host.path(name).open("w") as stream:
                    stream.write(value)
            except OSError as error:
                raise SettingsError("sysctl %s cannot be set: %s" % (key, error)) from error


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={"values": {"type": "dict", "required": True}},
        supports_check_mode=True,
    )
    settle(module, bring)


if __name__ == "__main__":
    main()
