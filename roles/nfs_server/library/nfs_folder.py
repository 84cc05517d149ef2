#!/usr/bin/python
"""Ansible module: the folder that is exported, made by us or proved to be ours."""

from __future__ import annotations

import json
import os
import pwd
import stat
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: nfs_folder
short_description: Have the folder that is exported
description:
  - Makes the folder, with owner and mode, and writes down outside of it that it is ours.
  - Refuses folders of the system and of the appliance, homes of users, and a folder that is there,
    is not empty, and neither written down as ours nor owned by the owner. Nothing is changed then.
options:
  path: {description: The folder, type: path, required: true}
  owner: {description: Number of the user and group that own it, type: int, required: true}
  mode: {description: Its mode, type: str, default: "0777"}
  mark: {description: Where it is written down, type: path,
    default: /var/lib/appliance/nfs-export.json}
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Have the folder
  nfs_folder:
    path: /srv/runai
    owner: 1001
"""

RETURN = r"""
did: {description: "Any of made, owner, mode", type: list, returned: success}
"""

# As model/export_path.py has them: nothing of these, or below them, is ever exported.
TREES = (
    *("/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/lost+found"),
    *("/opt/cni", "/proc", "/root", "/run", "/sbin", "/snap", "/sys", "/tmp", "/usr"),  # noqa: S108
    *("/var/backups", "/var/cache", "/var/crash", "/var/lib", "/var/lock", "/var/log"),
    *("/var/mail", "/var/run", "/var/snap", "/var/spool", "/var/tmp"),  # noqa: S108
)
# These hold what is of others; folders in them may be exported.
TOPS = ("/", "/home", "/media", "/mnt", "/opt", "/srv", "/var")
# mkfs makes it: a file system with this alone is empty.
OF_FILE_SYSTEM = {"lost+found"}
FIRST_USER, NOBODY = 1000, 65534


class Refused(Exception):
    """The folder is not ours to export."""


def forbidden(path):
    """Return which folder of the system a path is or lies in, or None."""
    if path in TOPS:
        return path
    return next((tree for tree in TREES if path == tree or path.startswith(tree + "/")), None)


def homes():
    """Return the homes of the users that people log in as."""
    users = (user for user in pwd.getpwall() if FIRST_USER <= user.pw_uid != NOBODY)
    return {os.path.realpath(user.pw_dir): user.pw_name for user in users if user.pw_dir != "/"}


class Folder:
    """The folder as it is, links followed."""

    def __init__(self, path, mark, users=homes):
        self.asked = path
        self.path = Path(os.path.realpath(path))
        self._mark = Path(mark)
        self._users = users

    def refuse(self, owner):
        """Refuse what is not ours.

        Raises:
            Refused: says what it is.
        """
        real = str(self.path)
        where = (
            self.asked if real == os.path.normpath(self.asked) else "%s (%s)" % (self.asked, real)
        )
        system = forbidden(real)
        if system:
            raise Refused("%s is, or lies in, the system's folder %s" % (where, system))
        for home, user in self._users().items():
            if (real + "/").startswith(home + "/") or (home + "/").startswith(real + "/"):
                raise Refused(
                    "%s is, holds or lies in the home of user %s (%s)" % (where, user, home)
                )
        if not os.path.lexists(real):
            return
        if not self.path.is_dir():
            raise Refused("%s is no folder" % where)
        there = sorted(set(os.listdir(real)) - OF_FILE_SYSTEM)  # noqa: PTH208 - names alone
        state = self.path.stat()
        if there and state.st_uid != owner and not self._is_marked(state):
            raise Refused(
                "%s is not empty (%s) and belongs to user %d, and nothing says that the appliance "
                "made it" % (where, ", ".join(there[:3]), state.st_uid)
            )

    def _is_marked(self, state):
        try:
            found = json.loads(self._mark.read_text())
        except (OSError, ValueError, RecursionError):
            return False
        return found == self._marked(state)

    def _marked(self, state):
        return {"path": str(self.path), "device": state.st_dev, "inode": state.st_ino}

    def converge(self, owner, mode, act):
        """Bring folder, owner, mode and mark; return what was done."""
        did = []
        if not self.path.is_dir():
            did.append("made")
            if not act:
                return did
            self.path.mkdir(mode=0o755, parents=True)
        state = self.path.stat()
        if act and not self._is_marked(state):
            # First, so that what follows can be done again after it was interrupted.
            self._write(json.dumps(self._marked(state)))
        if (state.st_uid, state.st_gid) != (owner, owner):
            did.append("owner")
            if act:
                os.chown(str(self.path), owner, owner)
        if stat.S_IMODE(state.st_mode) != mode:
            did.append("mode")
            if act:
                self.path.chmod(mode)
        return did

    def _write(self, text):
        self._mark.parent.mkdir(parents=True, exist_ok=True)
        new = self._mark.with_name(self._mark.name + ".new")
        with new.open("w") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        new.replace(self._mark)


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "owner": {"type": "int", "required": True},
            "mode": {"type": "str", "default": "0777"},
            "mark": {"type": "path", "default": "/var/lib/appliance/nfs-export.json"},
        },
        supports_check_mode=True,
    )
    want = module.params
    folder = Folder(want["path"], want["mark"])
    try:
        folder.refuse(want["owner"])
        did = folder.converge(want["owner"], int(want["mode"], 8), not module.check_mode)
    except Refused as error:
        module.fail_json(
            msg="%s. Nothing was changed: name a folder of its own in site.yml (nfs: path), or "
            "give this one to user %d by hand" % (error, want["owner"])
        )
    except (OSError, ValueError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=bool(did), did=did)


if __name__ == "__main__":
    main()
