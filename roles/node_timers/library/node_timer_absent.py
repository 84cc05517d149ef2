#!/usr/bin/python
"""Ansible module: a node has no timer of ours with this name."""

from __future__ import annotations

import functools
from pathlib import Path

from ansible.module_utils.appliance_programs import run
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: node_timer_absent
short_description: Take a timer of the appliance off a node
description:
  - Stops and disables the timer, and removes its two units and its settings. A run that is at work
    goes on to its end. What it made stays.
options:
  name: {description: Name of the timer, type: str, choices: [backup, certificates], required: true}
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Take the timer of backups off
  node_timer_absent:
    name: backup
"""

RETURN = r"""
removed: {description: Files that were removed, type: list, returned: always}
"""

NAMES = ("certificates", "backup")
UNITS, SETTINGS = Path("/etc/systemd/system"), Path("/etc/appliance/timers")
OURS = "# Written by appliance"


class AbsentError(Exception):
    """A unit of that name is not ours, or does not stop."""


def there(name):
    """Return the files of a timer that exist.

    Raises:
        AbsentError: a unit has the name of ours, and we did not write it.
    """
    units = [UNITS / ("appliance-timed-%s.%s" % (name, kind)) for kind in ("timer", "service")]
    found = [path for path in units if path.is_file() or path.is_symlink()]
    for path in found:
        if path.is_symlink() or not path.read_text(errors="replace").startswith(OURS):
            raise AbsentError("%s is not ours: see what it is, and remove it by hand" % path)
    settings = SETTINGS / (name + ".json")
    return [*found, *([settings] if settings.is_file() else [])]


def take_off(name, files, call):
    """Stop the timer and remove its files.

    Args:
        name: of the timer.
        files: as :func:`there` found them.
        call: callable(argv) -> (rc, stdout, stderr).

    Raises:
        AbsentError: the timer does not stop.
    """
    timer = UNITS / ("appliance-timed-%s.timer" % name)
    if timer in files:
        rc, out, err = call(["systemctl", "disable", "--now", timer.name])
        if rc != 0:
            raise AbsentError("%s does not stop: %s" % (timer.name, (err or out).strip()))
    for path in reversed(files):
        path.unlink()
    call(["systemctl", "daemon-reload"])


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={"name": {"type": "str", "choices": list(NAMES), "required": True}},
        supports_check_mode=True,
    )
    name = module.params["name"]
    try:
        files = there(name)
        if files and not module.check_mode:
            take_off(name, files, functools.partial(run, seconds=90))
    except (AbsentError, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=bool(files), removed=[str(path) for path in files])


if __name__ == "__main__":
    main()
