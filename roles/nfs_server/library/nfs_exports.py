#!/usr/bin/python
"""Ansible module: the kernel's NFS server exports one folder, now and after a reboot."""

from __future__ import annotations

import os
import re
from pathlib import Path

from ansible.module_utils.appliance_programs import runner
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: nfs_exports
short_description: The kernel's NFS server exports a folder
description:
  - Writes a file of its own below /etc/exports.d and has exportfs read it; running clients keep
    their mounts, because the server is not restarted.
  - Compares with what is exported at this moment, so that an export taken back by hand returns.
options:
  path: {description: The folder, type: path, required: true}
  clients: {description: Networks that may mount it, type: list, elements: str, required: true}
  options:
    description: Options of the export, the same for each network
    type: list
    elements: str
    default: [rw, sync, no_subtree_check, no_root_squash]
  file: {description: The file, type: path, default: /etc/exports.d/appliance.exports}
  table: {description: What is exported now, type: path, default: /var/lib/nfs/etab}
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Export the folder
  nfs_exports:
    path: /srv/runai
    clients: [198.51.100.0/24]
"""

RETURN = r"""
did: {description: "Any of written, exported", type: list, returned: always}
"""

# What exportfs writes in the place of the options that it knows by another name.
SAID = {"no_subtree_check", "no_root_squash", "rw", "sync"}


def content(path, clients, options):
    """Return the file's content."""
    places = " ".join("%s(%s)" % (client, ",".join(options)) for client in clients)
    return "# Written by appliance; changes are overwritten.\n%s %s\n" % (path, places)


def exported(table, path):
    """Return client -> its options, of what is exported under a path now."""
    try:
        lines = Path(table).read_text().splitlines()
    except FileNotFoundError:
        return {}
    found = {}
    for line in lines:
        place, _, rest = line.partition("\t")
        match = re.match(r"(\S+)\((.*)\)$", rest.strip())
        if place == path and match:
            found[match.group(1)] = set(match.group(2).split(","))
    return found


def is_exported(table, path, clients, options):
    """Return whether every client has every option at this moment."""
    now = exported(table, path)
    return all(set(options) & SAID <= now.get(client, set()) for client in clients)


def write(path, text):
    """Replace the file in one step."""
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text)
    os.replace(partial, path)  # noqa: PTH105


def converge(module, run):
    """Return what was done."""
    want = module.params
    file, text = Path(want["file"]), content(want["path"], want["clients"], want["options"])
    did = []
    if not file.is_file() or file.read_text() != text:
        did.append("written")
        if not module.check_mode:
            write(file, text)
    place = (want["table"], want["path"], want["clients"], want["options"])
    if did or not is_exported(*place):
        did.append("exported")
        if not module.check_mode:
            rc, out, err = run(["exportfs", "-ra"])
            if rc != 0 or not is_exported(*place):
                module.fail_json(msg="exportfs -ra did not export %s: %s" % (place[1], err or out))
    return did


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "clients": {"type": "list", "elements": "str", "required": True},
            "options": {
                "type": "list",
                "elements": "str",
                "default": ["rw", "sync", "no_subtree_check", "no_root_squash"],
            },
            "file": {"type": "path", "default": "/etc/exports.d/appliance.exports"},
            "table": {"type": "path", "default": "/var/lib/nfs/etab"},
        },
        supports_check_mode=True,
    )
    try:
        did = converge(module, runner(module))
    except OSError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=bool(did), did=did)


if __name__ == "__main__":
    main()
