#!/usr/bin/python
"""Ansible module: researchers' kubeconfigs in their own homes, none of somebody else's lost."""

from __future__ import annotations

import os
import pwd
import tempfile
from pathlib import Path

from ansible.module_utils.appliance_files import put_aside
from ansible.module_utils.appliance_jumpbox import as_user, config_path, researcher
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: researcher_kubeconfigs
short_description: Give users the kubeconfig of a researcher
description:
  - Writes ~/.kube/config of each user, mode 0600, with that user's own rights.
  - One that a login has put tokens into, or whose namespace was changed, is left as it is.
  - One that is not from this tool is refused, before any is written, or put aside with O(replace).
options:
  users:
    description: The users.
    type: list
    elements: dict
    required: true
    suboptions:
      name: {description: Name of the user on this node, type: str, required: true}
      content: {description: The whole kubeconfig, type: str, required: true}
      expected: {description: The keys that make it current, type: dict, required: true}
  replace: {description: Whether a foreign one is put aside, type: bool, default: false}
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Let ada work
  researcher_kubeconfigs:
    users:
      - {name: ada, content: "{{ kubeconfig }}", expected: {server: "https://api.example:6443"}}
"""

RETURN = r"""
changes: {description: One line for each change, type: list, returned: always}
"""

REFUSED = ("no user", "no home")


def write_config(path, content):
    """Write a kubeconfig atomically, mode 0600; the caller has the user's rights."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    handle, new = tempfile.mkstemp(prefix=".config.", dir=str(path.parent))
    try:
        with os.fdopen(handle, "w") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        Path(new).chmod(0o600)
        Path(new).replace(path)
    finally:
        if Path(new).exists():
            Path(new).unlink()


def refusals(states, replace):
    """Return why nothing may be written; empty when all may."""
    refused = REFUSED if replace else (*REFUSED, "foreign")
    return [text for state, text in states.values() if state in refused]


def bring(user, state, text, check_mode):
    """Bring one user's file; return the changes."""
    if state == "current":
        return []
    if check_mode:
        return [text]
    entry = pwd.getpwnam(user["name"])
    path = config_path(entry)
    changes = [text]
    with as_user(entry):
        if state == "loose":
            path.chmod(0o600)
            return changes
        if state == "foreign":
            changes.append("the former file is %s" % put_aside(path))
        write_config(path, user["content"])
    return changes


def main():
    """Run the module."""
    user = {
        "name": {"type": "str", "required": True},
        "content": {"type": "str", "required": True},
        "expected": {"type": "dict", "required": True},
    }
    module = AnsibleModule(
        argument_spec={
            "users": {"type": "list", "elements": "dict", "required": True, "options": user},
            "replace": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    want = module.params
    states = {user["name"]: researcher(user["name"], user["expected"]) for user in want["users"]}
    refused = refusals(states, want["replace"])
    if refused:
        module.fail_json(msg="; ".join(refused), changes=[])
    changes = []
    for user in want["users"]:
        try:
            changes += bring(user, *states[user["name"]], check_mode=module.check_mode)
        except OSError as error:
            module.fail_json(
                msg="the kubeconfig of %s cannot be written: %s" % (user["name"], error),
                changes=changes,
            )
    module.exit_json(changed=bool(changes), changes=changes)


if __name__ == "__main__":
    main()
