#!/usr/bin/python
"""Ansible module: the kernel's NFS server exports a folder as the files of exports say."""

from __future__ import annotations

import re
from pathlib import Path

from ansible.module_utils.appliance_programs import runner
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: nfs_exports
short_description: The kernel's NFS server exports a folder as the files say
description:
  - Compares what is exported at this moment with C(/etc/exports) and C(/etc/exports.d), and has
    exportfs read them when a client is missing, has other options, or is in no file.
  - That withdraws a client that was exported by hand, without a file, as a reboot would; check mode
    names it. A client in a file of an administrator stays.
  - Running clients keep their mounts, because the server is not restarted.
  - Unlike a handler this holds when the run that changed a file was killed before its end, and
    when an export was taken back by hand.
options:
  path: {description: The folder, type: path, required: true}
  files:
    description: The files, or folders of files
    type: list
    elements: path
    default: [/etc/exports, /etc/exports.d]
  table: {description: What is exported now, type: path, default: /var/lib/nfs/etab}
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Export what the files say
  nfs_exports:
    path: /srv/runai
"""

RETURN = r"""
clients: {description: Who may mount it, type: list, returned: always}
exported:
  description: Addresses that were not exported as the files say
  type: list
  returned: always
withdrawn:
  description: Addresses that were exported, and are in no file
  type: list
  returned: always
"""

FILES = ("/etc/exports", "/etc/exports.d")
# Options that exportfs writes as they were given; it tells more, which were not.
SAID = {"no_subtree_check", "no_root_squash", "rw", "sync"}
CLIENT = re.compile(r"(?<!\S)([^\s()-][^\s()]*)(?:\(([^)]*)\))?")
ADDRESS = re.compile(r"[0-9a-fA-F.:]+(/[0-9.]+)?")


def lines_of(path):
    """Return the lines of a file, without comments; none when there is no file."""
    try:
        # A comment in another encoding is no fault of the exports.
        lines = path.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except FileNotFoundError:
        return []
    return [line.partition("#")[0] for line in lines]


def clients(lines, path):
    """Return client -> its options, of the lines that export a path."""
    found = {}
    for line in lines:
        words = line.split(None, 1)
        if len(words) > 1 and words[0].strip('"') == path:
            found.update((name, set(told.split(","))) for name, told in CLIENT.findall(words[1]))
    return found


def told(files, path):
    """Return client -> its options, as the files say."""
    found = {}
    for place in map(Path, files):
        for file in sorted(place.glob("[!.]*.exports")) if place.is_dir() else [place]:
            found.update(clients(lines_of(file), path))
    return found


def differences(want):
    """Return the addresses that are not exported as the files say, and those that are in no file.

    Only addresses are compared: exportfs writes a host's name as its name server does.
    """
    wanted = told(want["files"], want["path"])
    now = clients(lines_of(Path(want["table"])), want["path"])
    ours = {client: options for client, options in wanted.items() if ADDRESS.fullmatch(client)}
    missing = [
        client
        for client, options in ours.items()
        if client not in now or not options & SAID <= now[client]
    ]
    others = {client for client in now if ADDRESS.fullmatch(client)} - set(ours)
    return sorted(missing), sorted(others)


def converge(module, run):
    """Return whether something had to be exported or withdrawn."""
    want = module.params
    if not any(differences(want)):
        return False
    if not module.check_mode:
        rc, out, err = run(["exportfs", "-ra"])
        if rc != 0 or any(differences(want)):
            module.fail_json(
                msg="exportfs -ra did not export %s: %s" % (want["path"], (err or out).strip())
            )
    return True


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "files": {
                "type": "list",
                "elements": "path",
                "default": list(FILES),
            },
            "table": {"type": "path", "default": "/var/lib/nfs/etab"},
        },
        supports_check_mode=True,
    )
    try:
        exported, withdrawn = differences(module.params)
        changed = converge(module, runner(module))
        now = told(module.params["files"], module.params["path"])
    except OSError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=changed, clients=sorted(now), exported=exported, withdrawn=withdrawn)


if __name__ == "__main__":
    main()
