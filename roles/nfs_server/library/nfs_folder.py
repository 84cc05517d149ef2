#!/usr/bin/python
"""Ansible module: the folder that is exported, made by us or proved to be ours."""

from __future__ import annotations

import json
import os
import pwd
import re
import shlex
import stat
import tempfile
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: nfs_folder
short_description: Have the folder that is exported
description:
  - Makes the folder, with owner and mode, and writes down inside (the marker) and outside (the
    mark) that it is ours, with one id in both.
  - Refuses folders of the system and of the appliance, homes of users, and a folder that is there,
    is not empty, and neither written down as ours nor owned by the owner. Nothing is changed then.
  - Refuses a path whose folder is absent or is not the one that the mark tells of, as when the
    disk with it is not mounted. The mark is never given to another folder; a person removes it.
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
did: {description: "Any of made, marked, owner, mode", type: list, returned: success}
"""

# As model/site/export_path.py has them: nothing of these, or below them, is ever exported.
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


# Inside the export, beside the folders of volumes, so that it goes wherever the data go. The probe
# judges by the same (appliance/probe/services/shared_storage.py).
MARKER = "appliance-export.json"
UNFINISHED = ".appliance-export."
OUR_FOLDERS = ("appliance-proof", "appliance-volume-")
SMALL = 4096
ID = re.compile(r"[0-9a-f]{32}\Z")


class Refused(Exception):
    """The folder is not ours to export."""

    hint = (
        "name a folder of its own in site.yml (nfs: path), or give this one to user {owner} by hand"
    )


class Lost(Refused):
    """At the path is not the folder that was exported before."""

    hint = (
        "mount its disk (lsblk -f shows which are mounted, and where) and run the same command "
        "again. Only where its data may be given up, or were copied to this folder: "
        "sudo install -d -o {owner} -g {owner} {path}; sudo rm {mark}"
    )


def read_small(path):
    """Return the JSON object in a small file of ours; None if absent, {} if it is none."""
    try:
        # The marker lies where others may write: no link is followed, and no pipe is waited for.
        descriptor = os.open(str(path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError:
        return {}
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return {}
        found = json.loads(os.read(descriptor, SMALL).decode())
    except (OSError, ValueError, RecursionError):
        return {}
    finally:
        os.close(descriptor)
    return found if isinstance(found, dict) else {}


def id_of(document):
    """Return the id in a mark or marker, if it is one of ours."""
    found = (document or {}).get("id")
    return found if isinstance(found, str) and ID.match(found) else None


def is_same(mark, marker, state, names):
    """Say whether a folder is the one that a mark tells of.

    The id decides. Numbers of devices change at a boot, and inodes repeat on other disks; they
    count beside our folders alone, where somebody removed the marker. Marks of earlier versions
    have no id.
    """
    inside, outside = id_of(marker), id_of(mark)
    if inside and outside:
        return inside == outside
    ours = any(name.startswith(OUR_FOLDERS) for name in names)
    here = (mark.get("device"), mark.get("inode")) == (state.st_dev, state.st_ino)
    return (here and ours) if outside else (here or ours or bool(inside))


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
        self._refuse_place(real, where)
        mark = self._mark_of_this_path()
        if not os.path.lexists(real):
            if mark is not None:
                raise Lost("%s is absent, and the appliance exported it before" % where)
            return
        if not self.path.is_dir():
            raise Refused("%s is no folder" % where)
        names = os.listdir(real)  # noqa: PTH208 - names alone
        there = sorted(name for name in names if not _counts_as_empty(name))
        state = self.path.stat()
        known = mark is not None and is_same(mark, self._marker(), state, names)
        if there and state.st_uid != owner and not known:
            raise Refused(
                "%s is not empty (%s) and belongs to user %d, and nothing says that the appliance "
                "made it" % (where, ", ".join(there[:3]), state.st_uid)
            )
        if mark is not None and not known:
            raise Lost(
                "%s is not the folder that the appliance exported before (%s)"
                % (where, "this one holds " + ", ".join(there[:3]) if there else "this is empty")
            )

    def _refuse_place(self, real, where):
        """Refuse folders of the system and of users, whatever is there."""
        system = forbidden(real)
        if system:
            raise Refused("%s is, or lies in, the system's folder %s" % (where, system))
        for home, user in self._users().items():
            if (real + "/").startswith(home + "/") or (home + "/").startswith(real + "/"):
                raise Refused(
                    "%s is, holds or lies in the home of user %s (%s)" % (where, user, home)
                )

    def _mark_of_this_path(self):
        """Return the mark; None without one, or where it tells of another path of the site."""
        mark = read_small(self._mark)
        if mark and mark.get("path") and str(self.path) != mark["path"]:
            return mark if mark.get("asked") == os.path.normpath(self.asked) else None
        return mark

    def _marker(self):
        return read_small(self.path / MARKER)

    def converge(self, owner, mode, act):
        """Bring folder, owner, mode, marker and mark; return what was done."""
        did = []
        if not self.path.is_dir():
            did.append("made")
            if not act:
                return did
            self.path.mkdir(mode=0o755, parents=True)
        state = self.path.stat()
        # First, so that what follows can be done again after it was interrupted.
        if self._write_down(state, act):
            did.append("marked")
        if (state.st_uid, state.st_gid) != (owner, owner):
            did.append("owner")
            if act:
                os.chown(str(self.path), owner, owner)
        if stat.S_IMODE(state.st_mode) != mode:
            did.append("mode")
            if act:
                self.path.chmod(mode)
        return did

    def _write_down(self, state, act):
        """Have the same id inside and outside; say whether it was to be written.

        A mark that says so already keeps the numbers that it has.
        """
        mark, inside = self._mark_of_this_path() or {}, id_of(self._marker())
        number = inside or id_of(mark) or os.urandom(16).hex()
        want = {"path": str(self.path), "asked": os.path.normpath(self.asked), "id": number}
        told = all(mark.get(key) == value for key, value in want.items())
        if told and inside:
            return False
        if act:
            if not inside:
                _write(self.path / MARKER, {"id": number})
            self._mark.parent.mkdir(parents=True, exist_ok=True)
            _write(self._mark, dict(want, device=state.st_dev, inode=state.st_ino))
        return True


def _counts_as_empty(name):
    return name in OF_FILE_SYSTEM or name == MARKER or name.startswith(UNFINISHED)


def _write(path, document):
    """Write a file in one step, whole even after a power cut."""
    descriptor, new = tempfile.mkstemp(prefix=UNFINISHED, dir=str(path.parent))
    try:
        with os.fdopen(descriptor, "w") as stream:
            json.dump(document, stream)
            stream.flush()
            os.fchmod(descriptor, 0o644)
            os.fsync(descriptor)
        os.replace(new, str(path))  # noqa: PTH105
    except BaseException:
        os.unlink(new)  # noqa: PTH108
        raise
    folder = os.open(str(path.parent), os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


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
        hint = error.hint.format(
            owner=want["owner"], path=shlex.quote(want["path"]), mark=shlex.quote(want["mark"])
        )
        module.fail_json(msg="%s. Nothing was changed: %s" % (error, hint))
    except (OSError, ValueError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=bool(did), did=did)


if __name__ == "__main__":
    main()
