#!/usr/bin/python
"""Ansible module: Run:ai's releases are as they were before an upgrade."""

from __future__ import annotations

import functools
import json
import sys
from pathlib import Path

from ansible.module_utils import runai_dump as dumps
from ansible.module_utils import runai_upgrade_record as records
from ansible.module_utils.appliance_files import write
from ansible.module_utils.appliance_helm import Releases
from ansible.module_utils.appliance_job import JobError, NodeJob, explain
from ansible.module_utils.appliance_kubectl import ARGUMENTS, Kubectl, KubectlError
from ansible.module_utils.appliance_programs import run
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.runai_upgrade_record import UpgradeError, remove_nginx

DOCUMENTATION = r"""
module: runai_rolled_back
short_description: Take the two Helm releases of Run:ai back to their revisions before an upgrade
description:
  - Runs C(helm rollback) for a release that has a newer revision than the record tells, the cluster
    part first. What its revision was made from is noted on the new one again.
  - A revision that a helm which died left pending is taken away before. No other secret of Helm is
    deleted, because helm knows a release by them alone.
  - Nothing is taken back that was verified. Nor is a backend whose database has another form than
    in the dump from before, because the version before does not know it. Migrations show in
    definitions and in the tables in which they are written down.
  - The record of the installed bundle, and the kept values, become those from before.
options:
  values: {description: Release and the file of its kept values, type: dict, required: true}
  removes_nginx:
    description: Whether the Deployment of the backend's nginx is deleted before, as in the upgrade.
    type: bool
    default: false
  only_unchanged:
    description: Refuses where helm made a revision, or definitions of the new version were applied.
    type: bool
    default: false
  timeout_seconds: {description: How long helm may take, type: int, default: 600}
  helm: {description: The program, type: path, default: /usr/local/bin/helm}
  kubeconfig: {description: Whose rights are used, type: path, default: /etc/kubernetes/admin.conf}
  kubectl: {description: The program, type: path, default: /usr/local/bin/kubectl}
  patience_seconds: {description: How long an unready server is waited for, type: int, default: 60}
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Take the releases back
  runai_rolled_back:
    values: {runai-backend: /etc/appliance/runai/runai-backend-kept.yaml}
"""

RETURN = r"""
releases: {description: The releases that were taken back, type: list, returned: success}
"""

RELEASES = (("runai-cluster", "runai"), ("runai-backend", "runai-backend"))
BUNDLE = Path("/var/lib/appliance/runai/bundle.json")


def is_as_before(releases, latest, revision):
    """Return whether a release is deployed from its revision before, and all of it is there."""
    if latest.revision != revision or latest.status != "deployed":
        return False
    # The Deployment of nginx may have been deleted before helm made a revision.
    return not releases.missing_objects(latest)


def roll_back(want, job, releases, make_way, target):
    """Take one release back; return whether that was needed.

    The target is the name of the release and its revision before; ``make_way`` is called before
    helm is.

    Raises:
        UpgradeError: its revision before is gone, or helm failed.
    """
    name, revision = target
    if job.is_running():
        job.wait_until_idle(want["timeout_seconds"] + 60)
    died = releases.pending()
    for one in died:
        releases.remove(one)
    latest = releases.latest()
    if latest is None:
        raise UpgradeError("the release %s is gone: helm knows no revision of it" % name)
    if not died and is_as_before(releases, latest, revision):
        return False
    before = next((one for one in releases.all() if one.revision == revision), None)
    if before is None:
        raise UpgradeError("helm does not know revision %d of %s any more" % (revision, name))
    namespace = dict(RELEASES)[name]
    make_way()
    argv = [want["helm"], "rollback", name, str(revision), "--namespace=" + namespace]
    argv += ["--kubeconfig=" + want["kubeconfig"], "--timeout=%ds" % want["timeout_seconds"]]
    argv += ["--history-max=5"]
    result, _ = job.run(argv, {"HELM_NO_PLUGINS": "1"}, "/", want["timeout_seconds"] + 60)
    if result["rc"] != 0:
        raise UpgradeError("helm rollback %s %d: %s" % (name, revision, explain(result)))
    notes = {what: digest for what, digest in before.digests.items() if digest}
    if notes:
        releases.note(releases.latest(), notes)
    return True


def may_have_started(releases, revision):
    """Return whether helm made anything of a newer revision."""
    latest = releases.latest()
    return latest is not None and (latest.revision != revision or latest.status != "deployed")


def require_same_form(want, record, job):
    """Refuse to start the version before on a database that the new version changed.

    Raises:
        UpgradeError: its form is another, or cannot be told.
    """
    unknown = "it cannot be told whether the new version changed the database, so no release was "
    unknown += "taken back: %s"
    for saved in [record.get("dump") or {}, *(record.get("others") or [])]:
        before, name = Path(str(saved.get("path") or "/nowhere")), saved.get("database")
        if not before.is_file():
            raise UpgradeError(unknown % "the dump from before is gone")
        after = dumps.file_of(name, "after") if name else "database-after.sql"
        now = Path(record["folder"]) / after
        try:
            dumps.take(want, job, now, name)
        except (JobError, UpgradeError) as error:
            raise UpgradeError(unknown % error) from error
        if dumps.form(before) != dumps.form(now):
            raise UpgradeError(
                "the new version changed the form of its database, which the version before does "
                "not know, so no release was taken back; %s has the form from before, %s that of "
                "now" % (before, now)
            )


def require_unchanged(record, kubectl):
    """Refuse to drop an upgrade that changed something of Run:ai.

    Raises:
        UpgradeError: says what.
    """
    end = "; nothing was taken back. End the upgrade: appliance runai upgrade FILE"
    for name, namespace in RELEASES:
        releases = Releases(kubectl, namespace, name)
        latest, revision = releases.latest(), record["revisions"][name]
        if latest is None or not is_as_before(releases, latest, revision):
            seen = "no revision" if latest is None else "revision %d" % latest.revision
            raise UpgradeError(
                "release %s is not as it was before: found %s, or an object of it is missing, "
                "expected revision %d%s" % (name, seen, revision, end)
            )
    taken = (record.get("dump") or {}).get("taken") or 0
    # It is written before definitions of the new version are applied.
    objects = Path(record["folder"]) / "objects.json"
    if objects.exists() and objects.stat().st_mtime >= taken:
        raise UpgradeError(
            "definitions of the new version may have been applied: %s is there%s" % (objects, end)
        )


def restore_files(want, record):
    """Restore the record of the installed bundle, and the kept values."""
    write(BUNDLE, json.dumps(record["source"], sort_keys=True), 0o644)
    for name, path in sorted(want["values"].items()):
        saved = Path(record["folder"]) / (name + "-kept-before.json")
        if saved.is_file() and saved.stat().st_size:  # empty: there was none before
            write(Path(path), saved.read_bytes(), 0o600)
        elif Path(path).exists() and (saved.exists() or not want.get("only_unchanged")):
            # Without that file nothing was merged yet: what is kept is of an earlier upgrade.
            Path(path).unlink()


def take_back(want, record, kubectl):
    """Take both releases back, and the files; return the releases for which that was needed.

    Raises:
        JobError, KubectlError, KeyError, OSError, UpgradeError: it must not be, or it failed.
    """
    done = []
    if record.get("verified"):
        raise UpgradeError("the new version was verified on this node: nothing was taken back")
    backend = Releases(kubectl, "runai-backend", "runai-backend")
    helm = NodeJob("helm-runai-backend", run, python=sys.executable)
    if helm.is_running():
        helm.wait_until_idle(want["timeout_seconds"] + 60)
    if want["only_unchanged"]:
        require_unchanged(record, kubectl)
    if may_have_started(backend, record["revisions"]["runai-backend"]):
        require_same_form(want, record, NodeJob("runai-dump", run, python=sys.executable))
    for name, namespace in RELEASES:
        job = NodeJob("helm-" + name, run, python=sys.executable)
        releases = Releases(kubectl, namespace, name)
        is_due = name == "runai-backend" and want["removes_nginx"]
        make_way = functools.partial(remove_nginx, kubectl) if is_due else int
        if roll_back(want, job, releases, make_way, (name, record["revisions"][name])):
            done.append(name)
    restore_files(want, record)
    records.update({"rolled_back": True})
    return done


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec=dict(
            ARGUMENTS,
            values={"type": "dict", "required": True},
            removes_nginx={"type": "bool", "default": False},
            only_unchanged={"type": "bool", "default": False},
            timeout_seconds={"type": "int", "default": 600},
            helm={"type": "path", "default": "/usr/local/bin/helm"},
        ),
        supports_check_mode=True,
    )
    want, record, kubectl = module.params, records.read(), Kubectl.of(module)
    if module.check_mode or not record or record.get("rolled_back"):
        module.exit_json(changed=bool(record) and not record.get("rolled_back"), releases=[])
    try:
        done = take_back(want, record, kubectl)
    except (JobError, KubectlError, KeyError, OSError, UpgradeError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=True, releases=done)


if __name__ == "__main__":
    main()
