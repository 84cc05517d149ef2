#!/usr/bin/python
"""Ansible module: Run:ai's database, values and RunaiConfig are saved before an upgrade."""

from __future__ import annotations

import functools
import json
import sys
import time
from pathlib import Path

from ansible.module_utils import runai_dump as dumps
from ansible.module_utils import runai_upgrade_record as records
from ansible.module_utils.appliance_files import write
from ansible.module_utils.appliance_helm import Releases
from ansible.module_utils.appliance_job import JobError, NodeJob
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
    counts when it begins and ends as PostgreSQL's do, creates a table, and names one of the
    projects in C(projects.json) beside it.
  - Dumps every other database of the server that is no template in the same way, and by
    C(pg_dumpall --globals-only) its roles and tablespaces, where the server tells them.
  - Dumps again when the dump is older than an hour, as long as helm has not begun. Then never.
  - Saves C(helm get values) of both releases, and the RunaiConfig, as files of mode 0600.
  - Where helm began with another bundle of the same version, the record names the new one, and what
    was saved stays.
  - Writes the record of the upgrade last, so that a run that was killed begins again.
options:
  folder: {description: Where it is saved, type: path, required: true}
  source: {description: Record of the bundle that is installed, type: dict, required: true}
  target_sha256: {description: Digest of the bundle of the new version, type: str, required: true}
  target_version: {description: The new version, type: str, required: true}
  revisions: {description: Release and its revision before, type: dict, required: true}
  database: {description: Name of the database, type: str, default: backend}
  pod: {description: Name of its pod, type: str, default: runai-backend-postgresql-0}
  has_begun: {description: Whether helm has made a new revision, type: bool, default: false}
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
others: {description: The same of each other database, type: list, returned: success}
globals: {description: "Of roles and tablespaces, or why not", type: dict, returned: success}
"""

NAMESPACES = {"runai-backend": "runai-backend", "runai-cluster": "runai"}
HELM_SECONDS = 60
# Before helm begins, users still change the database.
FRESH_SECONDS = 3600
# Enough to tell the database from another one, in any order.
MOST_NAMES = 50


def require_revisions(want, kubectl):
    """Refuse where helm has made another revision: a dump of now is none of before.

    Raises:
        UpgradeError: a release has another revision than the plan was made for.
    """
    for name, number in sorted(want["revisions"].items()):
        latest = Releases(kubectl, NAMESPACES[name], name).latest()
        if latest is None or latest.revision != int(number):
            seen = "no revision" if latest is None else "revision %d" % latest.revision
            raise UpgradeError(
                "release %s has %s, not %s, as it was planned; nothing was saved. Run the same "
                "command again: it plans anew" % (name, seen, number)
            )


def project_names(folder):
    """Return some names of the projects that were written down beside the dump."""
    path = folder / "projects.json"
    found = json.loads(path.read_text()) if path.exists() else {}
    listed = found.get("backend")
    # Labels of namespaces only where the backend does not list: a deleted project may leave one.
    return (found.get("queues") or [] if listed is None else listed)[:MOST_NAMES]


def require_projects(path, names):
    """Refuse a dump of another database, or of one that lost everything.

    Raises:
        UpgradeError: it has no name of a project.
    """
    if not dumps.names_one(path, names):
        raise UpgradeError(
            "the dump %s names none of the %d projects that Run:ai has, first %s: it is of an "
            "empty or another database" % (path, len(names), names[0])
        )


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


def is_saved(want, record, now):
    """Return whether all of it was saved for this upgrade already."""
    if not records.is_open(record, want["target_sha256"]):
        return False
    if want["has_begun"]:
        return True  # nothing can be saved from before any more, and what was saved stays
    planned = {name: int(number) for name, number in want["revisions"].items()}
    if record.get("revisions") != planned:
        return False
    described = record.get("dump") or {}
    # A record of an earlier version of this tool does not know others.
    others = record.get("others")
    told = [one for one in (record.get("globals"),) if one and "error" not in one]
    is_whole = others is not None and dumps.are_there([described, *others, *told])
    # A clock that was set back makes none of last month a new one.
    return is_whole and abs(now - (described.get("taken") or 0)) <= FRESH_SECONDS


def is_of_another_file(want, record):
    """Return whether helm began this upgrade with another bundle of the same version."""
    is_same = record.get("target_version") == want["target_version"]
    open_one = records.is_open(record, record.get("target_sha256"))
    is_other = record.get("target_sha256") != want["target_sha256"]
    return bool(want["has_begun"] and record and is_same and open_one and is_other)


def name_other_file(want):
    """Let the record name the new file; nothing from before can be saved any more."""
    changes = {"target_sha256": want["target_sha256"], "merged": False, "differences": []}
    records.update(changes)


def told_of(record):
    """Return what is told of a record."""
    return {
        "dump": record.get("dump") or {},
        "others": record.get("others") or [],
        "globals": record.get("globals") or {},
    }


def save(want, kubectl, job, run_helm):
    """Save everything; return the record."""
    folder = Path(want["folder"])
    require_revisions(want, kubectl)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    save_values(want, kubectl, run_helm)
    described = dumps.take(want, job, folder / "database.sql")
    others, told = dumps.take_all(want, job, folder)
    require_projects(folder / "database.sql", project_names(folder))
    require_revisions(want, kubectl)
    keys = ("source", "target_sha256", "target_version", "revisions", "folder")
    record = {key: want[key] for key in keys}
    record["revisions"] = {name: int(number) for name, number in want["revisions"].items()}
    state = {"merged": False, "differences": [], "verified": False, "rolled_back": False}
    record.update(dump=described, others=others)
    record["globals"] = told
    records.keep(dict(record, claims=records.claims(kubectl), **state))
    return record


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
            has_begun={"type": "bool", "default": False},
            helm={"type": "path", "default": "/usr/local/bin/helm"},
        ),
        supports_check_mode=True,
    )
    want, record = module.params, records.read()
    if is_of_another_file(want, record) and not module.check_mode:
        name_other_file(want)
        module.exit_json(changed=True, **told_of(record))
    is_there = is_saved(want, record, time.time())
    if is_there or module.check_mode:
        module.exit_json(changed=not is_there, **told_of(record))
    try:
        job = NodeJob("runai-dump", run, python=sys.executable)
        run_helm = functools.partial(run, seconds=HELM_SECONDS)
        record = save(want, Kubectl.of(module), job, run_helm)
    except (JobError, KubectlError, OSError, UpgradeError, ValueError) as error:
        module.fail_json(msg=str(error))
    if "error" in record["globals"]:
        module.warn("roles and tablespaces were not saved: %s" % record["globals"]["error"])
    module.exit_json(changed=True, **told_of(record))


if __name__ == "__main__":
    main()
