#!/usr/bin/python
"""Ansible module: Run:ai's database, values and RunaiConfig are saved before an upgrade."""

from __future__ import annotations

import functools
import hashlib
import json
import sys
from pathlib import Path

from ansible.module_utils import runai_upgrade_record as records
from ansible.module_utils.appliance_files import write
from ansible.module_utils.appliance_job import JobError, NodeJob, explain
from ansible.module_utils.appliance_kubectl import ARGUMENTS, Kubectl, KubectlError
from ansible.module_utils.appliance_programs import run
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.runai_upgrade_record import UpgradeError

DOCUMENTATION = r"""
module: runai_saved_state
short_description: Save what an upgrade of Run:ai may need again
description:
  - Dumps the backend's database by C(pg_dump) in its own pod, as the vendor's page of disaster
    recovery says, to a file of mode 0600. The unit C(appliance-runai-dump.service) does it. A dump
    counts when it begins and ends as PostgreSQL's do, and creates a table.
  - Saves C(helm get values) of both releases, and the RunaiConfig, as files of mode 0600.
  - Writes the record of the upgrade last, so that a run that was killed begins again.
options:
  folder: {description: Where it is saved, type: path, required: true}
  source: {description: Record of the bundle that is installed, type: dict, required: true}
  target_sha256: {description: Digest of the bundle of the new version, type: str, required: true}
  target_version: {description: The new version, type: str, required: true}
  revisions: {description: Release and its revision before, type: dict, required: true}
  database: {description: Name of the database, type: str, default: backend}
  pod: {description: Name of its pod, type: str, default: runai-backend-postgresql-0}
  deadline_seconds: {description: How long the dump may take, type: int, default: 3600}
  helm: {description: The program, type: path, default: /usr/local/bin/helm}
  kubeconfig: {description: Whose rights are used, type: path, default: /etc/kubernetes/admin.conf}
  kubectl: {description: The program, type: path, default: /usr/local/bin/kubectl}
  patience_seconds: {description: How long an unready server is waited for, type: int, default: 60}
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Save the database and the values
  runai_saved_state:
    folder: /var/lib/appliance/runai/before-2.8.12-3
    source: "{{ runai_upgrade_source }}"
    target_sha256: "{{ runai_upgrade_target_sha256 }}"
    target_version: 2.8.12
    revisions: {runai-backend: 3, runai-cluster: 2}
"""

RETURN = r"""
dump: {description: "Path, bytes, sha256 and tables of the dump", type: dict, returned: success}
"""

NAMESPACES = {"runai-backend": "runai-backend", "runai-cluster": "runai"}
# The password stays in the pod: its image gets it by one of these two names.
IN_POD = (
    'PGPASSWORD="${POSTGRES_POSTGRES_PASSWORD:-$POSTGRES_PASSWORD}" exec pg_dump -U postgres "$1"'
)
TO_FILE = """\
set -eu
umask 077
file=$1
shift
"$@" > "$file.new"
sync "$file.new"
mv "$file.new" "$file"
"""
BEGIN, END = b"PostgreSQL database dump", b"PostgreSQL database dump complete"
TABLE = b"CREATE TABLE "
HELM_SECONDS = 60
MARGIN = 4096


def examined(path):
    """Return the description of a dump.

    Raises:
        UpgradeError: it is none, or its end is missing.
    """
    digest, tables, size, head, tail = hashlib.sha256(), 0, 0, b"", b""
    with path.open("rb") as stream:
        for line in stream:
            digest.update(line)
            size += len(line)
            tables += line.startswith(TABLE)
            head += line if len(head) < MARGIN else b""
            tail = (tail + line)[-MARGIN:]
    if BEGIN not in head or END not in tail:
        what = "end" if BEGIN in head else "beginning"
        raise UpgradeError("the dump %s lacks the %s that pg_dump writes" % (path, what))
    if not tables:
        raise UpgradeError("the dump %s creates no table" % path)
    return {"path": str(path), "bytes": size, "sha256": digest.hexdigest(), "tables": tables}


def dump(want, job):
    """Dump the database; return its description.

    Raises:
        UpgradeError, JobError: it failed.
    """
    path = Path(want["folder"]) / "database.sql"
    pod = [want["kubectl"], "--kubeconfig=" + want["kubeconfig"], "--namespace=runai-backend"]
    pod += ["exec", want["pod"], "--", "/bin/sh", "-c", IN_POD, "dump", want["database"]]
    command = ["/bin/sh", "-c", TO_FILE, "to-file", str(path), *pod]
    result, _ = job.run(command, {}, "/", want["deadline_seconds"])
    if result["rc"] != 0:
        raise UpgradeError("the database was not dumped: " + explain(result))
    return examined(path)


def save_values(want, kubectl, run_helm):
    """Write the values of both releases, and the RunaiConfig.

    Raises:
        UpgradeError: helm does not tell them.
    """
    folder = Path(want["folder"])
    for name, namespace in sorted(NAMESPACES.items()):
        argv = [want["helm"], "get", "values", name, "--namespace=" + namespace, "--output=json"]
        rc, out, err = run_helm([*argv, "--kubeconfig=" + want["kubeconfig"]])
        if rc != 0:
            raise UpgradeError("helm get values %s: %s" % (name, err.strip() or "no answer"))
        values = json.loads(out) or {}
        write(folder / (name + "-values.json"), json.dumps(values, sort_keys=True), 0o600)
    found = kubectl.get("--namespace=runai", "runaiconfigs.run.ai", "runai")
    spec = (found or {}).get("spec") or {}
    write(folder / "runaiconfig.json", json.dumps(spec, sort_keys=True), 0o600)


def is_saved(want, record):
    """Return whether all of it was saved for this upgrade already."""
    if not records.is_open(record, want["target_sha256"]):
        return False
    described = record.get("dump") or {}
    path = Path(str(described.get("path") or ""))
    return path.is_file() and path.stat().st_size == described.get("bytes")


def save(want, kubectl, job, run_helm):
    """Save everything; return the description of the dump."""
    folder = Path(want["folder"])
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    save_values(want, kubectl, run_helm)
    described = dump(want, job)
    keys = ("source", "target_sha256", "target_version", "revisions", "folder")
    record = {key: want[key] for key in keys}
    record["revisions"] = {name: int(number) for name, number in want["revisions"].items()}
    state = {"merged": False, "differences": [], "verified": False, "rolled_back": False}
    records.keep(dict(record, dump=described, **state))
    return described


def main():
    """Run the module."""
    required = {"type": "str", "required": True}
    module = AnsibleModule(
        argument_spec=dict(
            ARGUMENTS,
            folder={"type": "path", "required": True},
            source={"type": "dict", "required": True},
            target_sha256=required,
            target_version=required,
            revisions={"type": "dict", "required": True},
            database={"type": "str", "default": "backend"},
            pod={"type": "str", "default": "runai-backend-postgresql-0"},
            deadline_seconds={"type": "int", "default": 3600},
            helm={"type": "path", "default": "/usr/local/bin/helm"},
        ),
        supports_check_mode=True,
    )
    want, record = module.params, records.read()
    if is_saved(want, record) or module.check_mode:
        module.exit_json(changed=not is_saved(want, record), dump=record.get("dump") or {})
    try:
        job = NodeJob("runai-dump", run, python=sys.executable)
        run_helm = functools.partial(run, seconds=HELM_SECONDS)
        described = save(want, Kubectl.of(module), job, run_helm)
    except (JobError, KubectlError, OSError, UpgradeError, ValueError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=True, dump=described)


if __name__ == "__main__":
    main()
