#!/usr/bin/python
"""Ansible module: write the backend's values with the vendor's runai-adm."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import tarfile
from pathlib import Path

from ansible.module_utils.appliance_files import put_aside
from ansible.module_utils.appliance_job import JobError, NodeJob, explain
from ansible.module_utils.appliance_programs import run
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: runai_values
short_description: Run runai-adm generate-values and keep its output
description:
  - Extracts C(runai-adm) from the vendor's archive (or uses it as it is), installs it for people,
    and runs it as the unit C(appliance-runai-adm.service) in C(run_in), the folder C(deploy) of the
    vendor bundle, where the vendor's pages run it.
  - Moves its output to a folder that only root can read.
  - Runs it again only when the program, its arguments, or an input file changed.
  - Does not read the values file.
options:
  program: {description: runai-adm itself or the archive it is in, type: path, required: true}
  arguments:
    description: Its arguments. Never a secret.
    type: list
    elements: str
    required: true
  environment: {description: Additional environment variables, type: dict, default: {}}
  inputs: {description: Files in the arguments, type: list, elements: path, default: []}
  run_in: {description: Where it runs, type: path, required: true}
  install: {description: Where people find it, type: path, default: /usr/local/bin/runai-adm}
  directory: {description: Where its output is kept, type: path, required: true}
  output: {description: The file that it writes, type: str, required: true}
  deadline_seconds: {description: How long to wait for it, type: int, default: 120}
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Write the values of the backend
  runai_values:
    program: /var/lib/appliance/runai/2.7.14/deploy/runai-admin-cli-2.7.14-linux-amd64.tar.gz
    arguments: [generate-values, --domain, runai.rack.example, --airgapped]
    run_in: /var/lib/appliance/runai/2.7.14/deploy
    directory: /etc/appliance/runai
    output: runai-backend-values.yaml
"""

RETURN = r"""
path: {description: The file, type: str, returned: always}
digest: {description: sha256 of it, type: str, returned: when it is there}
"""

NAME = "runai-adm"
STAMPS = "/etc/appliance/runai"


class ValuesError(Exception):
    """There is no runai-adm, or it did not write the values."""


def sha256(path):
    """Return the sha256 of a file, in hex."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        for part in iter(lambda: stream.read(1 << 20), b""):
            digest.update(part)
    return digest.hexdigest()


def request_digest(program, arguments, inputs):
    """Return the digest that identifies a request."""
    parts = [sha256(program), list(arguments), [sha256(path) for path in inputs]]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def take_program(source, target):
    """Put runai-adm at ``target``.

    Raises:
        ValuesError: the archive has none.
    """
    new = target.with_name(target.name + ".new")
    if tarfile.is_tarfile(str(source)):
        with tarfile.open(str(source)) as archive:
            member = next(
                (m for m in archive if m.isfile() and Path(m.name).name == NAME),
                None,
            )
            if member is None:
                raise ValuesError("%s does not contain %s" % (source, NAME))
            with new.open("wb") as stream:
                shutil.copyfileobj(archive.extractfile(member), stream)
    else:
        shutil.copyfile(str(source), str(new))
    new.chmod(0o755)
    new.replace(target)


def installed(source, target):
    """Whether the program at ``target`` is the one of ``source``, unchanged, and can be run."""
    if not target.is_file() or not os.access(str(target), os.X_OK):
        return False
    return noted(target) == [sha256(source), sha256(target)]


def noted(target):
    """Return the digests of the archive that we installed from and of the program, or less."""
    note = stamp_of(target)
    return note.read_text().split() if note.is_file() else []


def is_theirs(target):
    """Whether somebody else put the program there."""
    if not os.path.lexists(str(target)):
        return False
    if not target.is_file():
        return True
    digests = noted(target)
    # An earlier release noted the archive alone.
    return not digests or (len(digests) > 1 and digests[1] != sha256(target))


def stamp_of(target):
    """The file that says which archive the installed program is from, and its own digest."""
    return Path(STAMPS) / (target.name + ".source")


def install(source, target):
    """Bring the program to where people find it; return whether that was needed.

    A program that somebody else put there is kept beside it.

    Raises:
        ValuesError: the archive has none.
    """
    if installed(source, target):
        return False
    if is_theirs(target):
        put_aside(target)
    take_program(source, target)
    private(Path(STAMPS))
    stamp_of(target).write_text("%s %s\n" % (sha256(source), sha256(target)))
    return True


def keep(written, output):
    """Move what the program wrote to where only root reads it, at once and whole."""
    new = output.with_name(output.name + ".new")
    handle = os.open(str(new), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as stream:
        stream.write(written.read_bytes())
    new.chmod(0o600)
    new.replace(output)
    written.unlink()


def private(directory):
    """Create the folder, readable only by root."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    directory.chmod(0o700)


def generate(want, run):
    """Write the values; return whether that was needed.

    Raises:
        ValuesError, JobError: it could not be done.
    """
    directory = Path(want["directory"])
    output, stamp = directory / want["output"], directory / (want["output"] + ".request")
    digest = request_digest(
        Path(want["program"]),
        [*want["arguments"], want["environment"]],
        [Path(path) for path in want["inputs"]],
    )
    program = Path(want["install"])
    brought = install(Path(want["program"]), program)
    if output.is_file() and stamp.is_file() and stamp.read_text() == digest:
        return brought
    private(directory)
    if stamp.exists():
        stamp.unlink()
    written = Path(want["run_in"]) / want["output"]
    if written.exists():
        # Of a run that was cut off: what is moved afterwards must be of this one.
        written.replace(written.with_name(written.name + ".before"))
    job = NodeJob(NAME, run, python=sys.executable)
    command = [str(program), *want["arguments"]]
    result, _ = job.run(command, want["environment"], want["run_in"], want["deadline_seconds"])
    if result["rc"] != 0:
        raise ValuesError(explain(result))
    if not written.is_file():
        said = (result["stdout"] + result["stderr"]).strip()[-300:]
        raise ValuesError("%s succeeded but wrote no %s: %s" % (NAME, output.name, said))
    keep(written, output)
    handle = os.open(str(stamp), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w") as stream:
        stream.write(digest)
    return True


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "program": {"type": "path", "required": True},
            "arguments": {"type": "list", "elements": "str", "required": True},
            "environment": {"type": "dict", "default": {}},
            "inputs": {"type": "list", "elements": "path", "default": []},
            "run_in": {"type": "path", "required": True},
            "install": {"type": "path", "default": "/usr/local/bin/runai-adm"},
            "directory": {"type": "path", "required": True},
            "output": {"type": "str", "required": True},
            "deadline_seconds": {"type": "int", "default": 120},
        },
        supports_check_mode=True,
    )
    want = module.params
    path = Path(want["directory"]) / want["output"]
    if module.check_mode:
        absent = not (path.exists() and Path(want["install"]).exists())
        module.exit_json(changed=absent, path=str(path))
    try:
        changed = generate(want, run)
    except (ValuesError, JobError, OSError, tarfile.TarError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=changed, path=str(path), digest=sha256(path))


if __name__ == "__main__":
    main()
