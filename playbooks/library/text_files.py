#!/usr/bin/python
"""Ansible module: write several small text files in one round trip."""

from __future__ import annotations

import grp
import os
import pwd
import stat
from pathlib import Path

from ansible.module_utils.appliance_files import write
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: text_files
short_description: Write several small text files
description:
  - Sets each file's content, mode and owner, atomically, and creates missing parent folders.
  - Compares each file separately, so only what differs is written and reported.
options:
  files:
    description: The files.
    type: list
    elements: dict
    required: true
    suboptions:
      path: {description: Absolute path, type: path, required: true}
      content: {description: The whole content, type: str, default: ""}
      absent: {description: Whether the file must not exist, type: bool, default: false}
      mode: {description: Octal mode, type: str, default: "0644"}
      owner: {description: Name of the owner; default is the user that runs the module, type: str}
      group: {description: Name of the group; default is that user's group, type: str}
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Write the source list
  text_files:
    files:
      - path: /etc/appliance/packages.list
        content: "deb [trusted=yes] https://artifacts.example:9443/apt ./\n"
"""

RETURN = r"""
paths: {description: The files that differed, type: list, returned: always}
"""


PRIVATE = "(only its owner may read it)\n"


def identity(name, ask, check_mode):
    """Return the id of a user or group; None in check mode if it does not exist yet."""
    try:
        return ask(name)[2]
    except KeyError:
        if check_mode:
            return None
        raise


def desired(entry, check_mode):
    """Return (path, bytes or None, (mode, uid, gid))."""
    content = None if entry["absent"] else entry["content"].rstrip("\n") + "\n"
    owner, group = entry.get("owner"), entry.get("group")
    owner = identity(owner, pwd.getpwnam, check_mode) if owner else os.geteuid()
    group = identity(group, grp.getgrnam, check_mode) if group else os.getegid()
    data = None if content is None else content.encode()
    return Path(entry["path"]), data, (int(entry["mode"], 8), owner, group)


def observed(path):
    """Return (bytes or None, (mode, uid, gid) or None); a link counts as different."""
    try:
        state = path.lstat()
    except FileNotFoundError:
        return None, None
    if not stat.S_ISREG(state.st_mode):
        return b"", None
    return path.read_bytes(), (stat.S_IMODE(state.st_mode), state.st_uid, state.st_gid)


def put(path, data, attributes):
    """Replace the file atomically; None removes it."""
    if data is None:
        path.unlink()
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    mode, *owner = attributes
    write(path, data, mode, owner)


def difference(path, before, data, modes):
    """Return the entry for --diff; content of private files is not shown."""
    private = any(mode is not None and not mode & 0o077 for mode in modes)

    def shown(content):
        text = (content or b"").decode("utf-8", "replace")
        return PRIVATE if private and text else text

    return {
        "before_header": str(path),
        "after_header": str(path),
        "before": shown(before),
        "after": shown(data),
    }


def converge(entries, check_mode):
    """Write what differs; return (paths, differences)."""
    paths, differences = [], []
    for entry in entries:
        path, data, attributes = desired(entry, check_mode)
        before, state = observed(path)
        if before == data and (data is None or state == attributes):
            continue
        if not check_mode:
            put(path, data, attributes)
        paths.append(str(path))
        modes = (state[0] if state else None, None if data is None else attributes[0])
        differences.append(difference(path, before, data, modes))
    return paths, differences


def main():
    """Run the module."""
    entry = {
        "path": {"type": "path", "required": True},
        "content": {"type": "str", "default": ""},
        "absent": {"type": "bool", "default": False},
        "mode": {"type": "str", "default": "0644"},
        "owner": {"type": "str"},
        "group": {"type": "str"},
    }
    files = {"type": "list", "elements": "dict", "required": True, "options": entry}
    module = AnsibleModule(argument_spec={"files": files}, supports_check_mode=True)
    try:
        paths, differences = converge(module.params["files"], module.check_mode)
    except (OSError, KeyError) as error:
        module.fail_json(msg="a file could not be written: %s" % error)
    module.exit_json(changed=bool(paths), paths=paths, diff=differences)


if __name__ == "__main__":
    main()
