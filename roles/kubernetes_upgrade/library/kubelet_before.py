#!/usr/bin/python
"""Ansible module: the kubelet that ran before an upgrade is kept, or is put back."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from pathlib import Path

from ansible.module_utils.appliance_files import write
from ansible.module_utils.appliance_programs import runner
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: kubelet_before
short_description: Keep the kubelet that runs before an upgrade, or put it back
description:
  - "C(kept): copies the kubelet's program, its unit and its configuration into a folder of the
    upgrade and the version that it goes to. Nothing is copied where the folder is whole, or where
    the program has that version already. What was put back is kept anew."
  - "C(back): writes those files to their places again, each atomically, after their digests were
    compared. Fails where the version is there and nothing is kept. Restarts nothing."
  - "C(kept) also removes what an upgrade kept that is over: a folder of another upgrade, or of an
    earlier release of this one, whose version the kubelet on disk has or surpasses. Only the files
    that were kept go, the record last."
options:
  state: {description: What shall be, type: str, choices: [kept, back], required: true}
  version: {description: "Kubernetes of the upgrade's release, without v", type: str,
    required: true}
  upgrade: {description: "A word for the upgrade, another one for each", type: str, required: true}
  folder: {description: Where versions are kept, type: path,
    default: /var/lib/appliance/kubelet-before}
  root: {description: The folder used as / for the kubelet's files, type: path, default: /}
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Keep the kubelet that runs
  kubelet_before:
    state: kept
    version: 1.23.17
    upgrade: 20260101T000000
"""

RETURN = r"""
was: {description: "The version that is kept, as v1.23.5; empty: none", type: str,
  returned: always}
files: {description: Files that were copied, type: list, elements: str, returned: always}
removed: {description: "Folders of upgrades that are over, which are removed", type: list,
  elements: str, returned: always}
"""

PROGRAM = "usr/local/bin/kubelet"
FILES = (
    PROGRAM,
    "etc/systemd/system/kubelet.service",
    "etc/systemd/system/kubelet.service.d/10-kubeadm.conf",
    "var/lib/kubelet/config.yaml",
    "var/lib/kubelet/kubeadm-flags.env",
)
# Written last: a folder without it is not whole.
RECORD = "kept.json"
UPGRADE = re.compile(r"[0-9A-Za-z]{1,40}")
FOLDER = re.compile(r"v(\d{1,4}\.\d{1,4}\.\d{1,4})-[0-9A-Za-z]{1,40}")
VERSION = re.compile(r"\d{1,4}\.\d{1,4}\.\d{1,4}")
ANSWER = re.compile(r"Kubernetes (v\d{1,4}\.\d{1,4}\.\d{1,4})\b")
PROGRAM_SECONDS = 60


class BeforeError(Exception):
    """The kubelet is not kept, or cannot be put back; the text says what to do."""


def folder_of(want):
    """Return the folder of an upgrade: a second one never finds the kubelet of the first."""
    if not VERSION.fullmatch(want["version"]):
        raise BeforeError("%r is no version" % want["version"])
    if not UPGRADE.fullmatch(want["upgrade"]):
        raise BeforeError("%r is no word for an upgrade" % want["upgrade"])
    return Path(want["folder"]) / ("v%s-%s" % (want["version"], want["upgrade"]))


def digest_of(path):
    """Return the sha256 of a file, read in pieces."""
    found = hashlib.sha256()
    with path.open("rb") as stream:
        for piece in iter(lambda: stream.read(1 << 20), b""):
            found.update(piece)
    return found.hexdigest()


def copy(source, target):
    """Copy a file with its mode, atomically; its folder is made."""
    target.parent.mkdir(parents=True, exist_ok=True)
    new = target.with_name(".%s.new" % target.name)
    if os.path.lexists(str(new)):
        new.unlink()
    with source.open("rb") as reading, new.open("xb") as writing:
        shutil.copyfileobj(reading, writing, 1 << 20)
        writing.flush()
        os.fchmod(writing.fileno(), source.stat().st_mode & 0o7777)
        os.fsync(writing.fileno())
    new.replace(target)


def record(folder):
    """Return what a folder keeps, or None where it is not whole."""
    try:
        found = json.loads((folder / RECORD).read_text())
        files = {str(name): str(digest) for name, digest in found["files"].items()}
        return {"was": str(found["was"]), "files": files, "spent": found.get("spent") is True}
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        return None


def running(program, run):
    """Return the version of the program on disk, as v1.23.5."""
    rc, out, err = run([str(program), "--version"])
    found = ANSWER.search(out)
    if rc != 0 or found is None:
        raise BeforeError(
            "%s does not say its version (%s), expected 'Kubernetes v…'; see the node's disk, then "
            "run the same command again" % (program, (err or out).strip()[:200] or "no answer")
        )
    return found.group(1)


def keep(folder, root, version, run, act):
    """Keep what is there; return (version that is kept, files that were copied)."""
    known = record(folder)
    if known is not None and not known["spent"]:
        return known["was"], []
    was = running(root / PROGRAM, run)
    if was == "v" + version:
        return "", []
    files = [name for name in FILES if (root / name).is_file()]
    if not act:
        return was, files
    digests = {}
    for name in files:
        copy(root / name, folder / name)
        digests[name] = digest_of(folder / name)
    folder.chmod(0o700)
    write_record(folder, {"was": was, "files": digests})
    return was, files


def write_record(folder, known):
    """Write what the folder keeps."""
    write(folder / RECORD, json.dumps(known, sort_keys=True), mode=0o600)


def put_back(folder, root, version, run, act):
    """Write the kept files to their places; return (their version, files that were copied)."""
    known = record(folder)
    if known is None or known["spent"]:
        was = running(root / PROGRAM, run)
        if was != "v" + version:
            return was, []  # it was taken out, and nothing was replaced yet
        raise BeforeError(
            "the kubelet is %s by now, and %s keeps none of before: run the upgrade again to go on"
            % (was, folder)
        )
    wanted = {name: known["files"][name] for name in FILES if name in known["files"]}
    damaged = [name for name, digest in wanted.items() if not _is(folder / name, digest)]
    if damaged or PROGRAM not in wanted:
        raise BeforeError(
            "%s is not what was kept (%s): run the upgrade again to go on"
            % (folder, ", ".join(damaged) or "no program")
        )
    changed = [name for name, digest in wanted.items() if not _is(root / name, digest)]
    if act:
        for name in changed:
            copy(folder / name, root / name)
        # From here on somebody may change what runs; it is kept anew before it is replaced.
        write_record(folder, {**known, "spent": True})
    return known["was"], changed


def prune(ours, root, run, act):
    """Remove what upgrades kept that are over; return the names of their folders.

    The next upgrade begins once the one before is over, and its next release once every node has
    the one before. What is on disk here is the evidence for this node.
    """
    found = sorted(path for path in _others(ours) if record(path) is not None)
    if not found:
        return []
    try:
        runs = _numbers(running(root / PROGRAM, run)[1:])
    except BeforeError:
        return []
    over = [path for path in found if _numbers(FOLDER.fullmatch(path.name).group(1)) <= runs]
    for path in over if act else ():
        _remove(path)
    return [path.name for path in over]


def _others(ours):
    """Return the other folders with the name of one that keeps a kubelet; none through a link."""
    if ours.parent.is_symlink() or not ours.parent.is_dir():
        return []
    found = [path for path in ours.parent.iterdir() if FOLDER.fullmatch(path.name)]
    return [path for path in found if path != ours and path.is_dir() and not path.is_symlink()]


def _remove(folder):
    """Remove the files that were kept, and the folders that are empty then."""
    parents = set()
    for name in (*FILES, RECORD):
        path = folder / name
        if Path(os.path.realpath(str(path.parent))) != Path(os.path.realpath(str(folder))) / (
            Path(name).parent
        ):
            continue  # somebody's link leads elsewhere
        for one in (path.with_name(".%s.new" % path.name), path):
            if os.path.lexists(str(one)):
                one.unlink()
        parents |= {folder / above for above in Path(name).parents}
    for path in sorted(parents, key=lambda one: -len(one.parts)):
        if path.is_dir() and not path.is_symlink() and not any(path.iterdir()):
            path.rmdir()


def _numbers(version):
    return tuple(int(part) for part in version.split("."))


def _is(path, digest):
    return path.is_file() and digest_of(path) == digest


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["kept", "back"], "required": True},
            "version": {"type": "str", "required": True},
            "upgrade": {"type": "str", "required": True},
            "folder": {"type": "path", "default": "/var/lib/appliance/kubelet-before"},
            "root": {"type": "path", "default": "/"},
        },
        supports_check_mode=True,
    )
    want, act = module.params, not module.check_mode
    root = Path(want["root"])
    try:
        folder = folder_of(want)
        change = keep if want["state"] == "kept" else put_back
        run = runner(module, PROGRAM_SECONDS)
        was, files = change(folder, root, want["version"], run, act)
        removed = prune(folder, root, run, act) if want["state"] == "kept" else []
    except (BeforeError, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=bool(files or removed), was=was, files=files, removed=removed)


if __name__ == "__main__":
    main()
