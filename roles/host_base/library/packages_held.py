#!/usr/bin/python
"""Ansible module: installed packages whose names match are on hold."""

from __future__ import annotations

import fnmatch

from ansible.module_utils import appliance_brought as brought
from ansible.module_utils import appliance_packages as packages
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.host_changes import SettingsError, settle

DOCUMENTATION = r"""
module: packages_held
short_description: Hold the installed packages that match
description:
  - Puts packages on hold with apt-mark; one that is not installed is left alone.
options:
  patterns: {description: Patterns as of a shell, type: list, elements: str, required: true}
  lock_wait_seconds: {description: How long to wait for dpkg's lock, type: int, default: 120}
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Hold the kernel
  packages_held:
    patterns: [linux-image-*]
"""

RETURN = r"""
changes: {description: One line for each change, type: list, returned: always}
"""


def bring(host, want):
    """Hold what matches and is installed."""
    query = ["dpkg-query", "-W", "-f", "${Package} ${db:Status-Abbrev}\\n"]
    rows = [line.split() for line in host.run(query)[1].splitlines()]
    loose = sorted(
        row[0]
        for row in rows
        if len(row) > 1
        and row[1] == "ii"
        and any(fnmatch.fnmatchcase(row[0], pattern) for pattern in want["patterns"])
    )
    if loose:
        host.note("on hold: " + ", ".join(loose))
        if not host.check_mode:
            try:
                packages.hold(host.run, loose, want["lock_wait_seconds"])
                brought.held(loose)
            except (packages.PackagesError, ValueError) as error:
                raise SettingsError(str(error)) from error


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "patterns": {"type": "list", "elements": "str", "required": True},
            "lock_wait_seconds": {"type": "int", "default": 120},
        },
        supports_check_mode=True,
    )
    settle(module, bring)


if __name__ == "__main__":
    main()
