#!/usr/bin/python
"""Ansible module: merge options into Docker's daemon.json, keeping foreign settings."""

from __future__ import annotations

import json
from pathlib import Path

from ansible.module_utils.appliance_files import write
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: docker_configuration
short_description: Merge options into daemon.json
description:
  - Keeps foreign keys, merges maps, and replaces one entry of C(exec-opts) by its name.
  - Refuses a file that is not a JSON object, and never overwrites it.
options:
  options: {description: What must be in it, type: dict, required: true}
  path: {description: The file, type: path, default: /etc/docker/daemon.json}
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Use the systemd cgroup driver
  docker_configuration:
    options: {exec-opts: [native.cgroupdriver=systemd]}
"""

RETURN = r"""
configuration: {description: The file's content, type: dict, returned: always}
"""


def merged_list(have, want):
    """Return a list with every new entry once; "name=value" entries replace by name."""
    names = {str(entry).partition("=")[0] for entry in want if "=" in str(entry)}
    kept = [
        entry
        for entry in have
        if entry not in want and not ("=" in str(entry) and str(entry).partition("=")[0] in names)
    ]
    return kept + [entry for entry in want if entry not in kept]


def merged(have, want):
    """Return the configuration merged with the new options."""
    result = dict(have)
    for key, value in want.items():
        old = result.get(key)
        if isinstance(old, dict) and isinstance(value, dict):
            result[key] = merged(old, value)
        elif isinstance(old, list) and isinstance(value, list):
            new = merged_list(old, value)
            result[key] = old if sorted(map(str, new)) == sorted(map(str, old)) else new
        else:
            result[key] = value
    return result


def load(path):
    """Return the file's content; empty for an empty or missing file."""
    try:
        text = path.read_text()
    except FileNotFoundError:
        return {}
    found = json.loads(text) if text.strip() else {}
    if not isinstance(found, dict):
        raise ValueError("it is not a JSON object")
    return found


def save(path, configuration):
    """Replace the file atomically, keeping its mode."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path, json.dumps(configuration, indent=2) + "\n")


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "options": {"type": "dict", "required": True},
            "path": {"type": "path", "default": "/etc/docker/daemon.json"},
        },
        supports_check_mode=True,
    )
    path = Path(module.params["path"])
    try:
        have = load(path)
    except ValueError as error:
        module.fail_json(
            msg="Docker cannot read %s (%s); it was not changed: fix or remove it, then run again"
            % (path, error)
        )
    want = merged(have, module.params["options"])
    if want != have and not module.check_mode:
        save(path, want)
    shown = [json.dumps(one, indent=2, sort_keys=True) + "\n" for one in (have, want)]
    module.exit_json(
        changed=want != have,
        configuration=want,
        diff={"before": shown[0], "after": shown[1]},
    )


if __name__ == "__main__":
    main()
