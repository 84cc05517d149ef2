#!/usr/bin/python
"""Ansible module: Docker's configuration files have a login to a registry, or none."""

from __future__ import annotations

import base64
import hashlib
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
  - A login to that registry which this module did not set, of a person for example, is copied to a
    file beside, C(NAME.before-appliance), before it is replaced or removed.
  - Beside each file C(NAME.appliance) has the digest of the login that was set.
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
OURS, BEFORE = ".appliance", ".before-appliance"
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


def is_ours(path, registry, entry, login):
    """Return whether a login was set by this module, or is of the user that logs in now.

    A file of an earlier version of this module has no digest beside it.
    """
    auth = str(entry.get("auth") or "") if isinstance(entry, dict) else ""
    known = held_in(beside(path, OURS)).get(registry)
    if known is not None:
        return known == hashlib.sha256(auth.encode()).hexdigest()
    return login is not None and user_of(auth) == user_of(login)


def user_of(auth):
    """Return the user of a login; the login itself where it is not readable."""
    try:
        return base64.b64decode(auth, validate=True).decode().partition(":")[0]
    except ValueError:
        return auth


def beside(path, end):
    """Return the path of a file beside another one."""
    return path.with_name(path.name + end)


def keep(path, registry, entry):
    """Copy a login that is not ours to the file beside; one that was copied before stays there."""
    copy = beside(path, BEFORE)
    held = held_in(copy)
    kept = held.get("auths", {})
    name, number = registry, 1
    while name in kept and kept[name] != entry:
        number += 1
        name = "%s (%d)" % (registry, number)
    text = json.dumps({"auths": dict(kept, **{name: entry})}, sort_keys=True)
    write(copy, text + "\n", mode=PRIVATE)


def note(path, registry, login):
    """Write down the digest of the login that was set; none where it was removed."""
    mark = beside(path, OURS)
    known = dict(held_in(mark))
    known.pop(registry, None)
    if login is not None:
        known[registry] = hashlib.sha256(login.encode()).hexdigest()
    if known:
        write(mark, json.dumps(known, sort_keys=True) + "\n", mode=PRIVATE)
    elif mark.exists():
        mark.unlink()


def settle(path, registry, login, check_mode):
    """Change one file; return whether it differed."""
    held = held_in(path)
    want = wanted(held, registry, login)
    private = not path.exists() or path.stat().st_mode & 0o777 == PRIVATE
    if want == held and (private or login is None):
        return False
    if check_mode:
        return True
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    before = held.get("auths", {}).get(registry)
    differs = before not in (None, want.get("auths", {}).get(registry))
    if differs and not is_ours(path, registry, before, login):
        keep(path, registry, before)
    if want:
        # The digest comes first: a login without one counts as a person's.
        note(path, registry, login)
        write(path, json.dumps(want, sort_keys=True) + "\n", mode=PRIVATE)
        return True
    path.unlink()
    note(path, registry, None)
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
