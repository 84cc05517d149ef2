#!/usr/bin/python
"""Ansible module: Docker's configuration files have a login to a registry, or none."""

from __future__ import annotations

import base64
import json
from pathlib import Path

from ansible.module_utils.appliance_files import write
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: registry_login
short_description: Log in to a registry in configuration files of Docker
description:
  - Sets the login to one registry in each file, which only root can read then. Everything else in
    the files stays. Without a user it removes the login, and a file that has nothing else.
options:
  registry: {description: "NAME:PORT", type: str, required: true}
  user: {description: Who logs in; empty for no login, type: str, default: ""}
  password: {description: The password, type: str, default: ""}
  paths: {description: The files, type: list, elements: path, required: true}
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Let the kubelet pull with a login
  registry_login:
    registry: registry.example:5000
    user: robot
    password: "{{ secret }}"
    paths: [/var/lib/kubelet/config.json]
"""

RETURN = r"""
paths: {description: The files that differed, type: list, returned: always}
"""

PRIVATE = 0o600
LARGEST = 1 << 20


class LoginError(Exception):
    """A file cannot be understood, so it is not replaced."""


def held_in(path):
    """Return a file's content; {} where there is none.

    Raises:
        LoginError: it is no JSON object, or its logins are none.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return {}
    try:
        held = json.loads(data) if len(data) <= LARGEST else None
    except (ValueError, RecursionError):
        held = None
    if not isinstance(held, dict) or not isinstance(held.get("auths", {}), dict):
        raise LoginError("%s is not a configuration of Docker; move it away" % path)
    return held


def wanted(held, registry, login):
    """Return what the file should hold."""
    auths = dict(held.get("auths", {}))
    if login is None:
        auths.pop(registry, None)
    else:
        auths[registry] = {"auth": login}
    found = dict(held, auths=auths)
    if not auths:
        del found["auths"]
    return found


def settle(path, registry, login, check_mode):
    """Change one file; return whether it differed."""
    held = held_in(path)
    want = wanted(held, registry, login)
    private = not path.exists() or path.stat().st_mode & 0o777 == PRIVATE
    if want == held and (private or login is None):
        return False
    if check_mode:
        return True
    if not want:
        path.unlink()
        return True
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    write(path, json.dumps(want, sort_keys=True) + "\n", mode=PRIVATE)
    return True


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "registry": {"type": "str", "required": True},
            "user": {"type": "str", "default": ""},
            "password": {"type": "str", "default": "", "no_log": True},
            "paths": {"type": "list", "elements": "path", "required": True},
        },
        supports_check_mode=True,
    )
    want = module.params
    login = None
    if want["user"]:
        login = base64.b64encode(("%(user)s:%(password)s" % want).encode()).decode()
    try:
        paths = [
            path
            for path in want["paths"]
            if settle(Path(path), want["registry"], login, module.check_mode)
        ]
    except (LoginError, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=bool(paths), paths=paths)


if __name__ == "__main__":
    main()
