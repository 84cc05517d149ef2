#!/usr/bin/python
"""Ansible module: what helm does not do by itself is done before it upgrades the backend."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

from ansible.module_utils import runai_dump as dumps
from ansible.module_utils import runai_upgrade_record as records
from ansible.module_utils.appliance_helm import Releases
from ansible.module_utils.appliance_job import JobError, NodeJob
from ansible.module_utils.appliance_kubectl import ARGUMENTS, Kubectl, KubectlError
from ansible.module_utils.appliance_programs import run
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.runai_upgrade_record import UpgradeError, remove_nginx

DOCUMENTATION = r"""
module: runai_chart_prerequisites
short_description: Delete the backend's nginx Deployment, and apply the new definitions
description:
  - The vendor's upgrade page of 2.4 and 2.5 deletes one Deployment before C(helm upgrade), which
    makes it again. That is done only while the backend is not of the new chart.
  - Applies the CustomResourceDefinitions of the bundle by server-side apply. None is deleted,
    because that would delete every object of it. The objects are saved before, to C(objects.json).
options:
  removes_nginx: {description: Whether the Deployment is deleted, type: bool, required: true}
  chart: {description: The backend's new chart on this node, type: path, required: true}
  folder: {description: Where the objects are saved, type: path, required: true}
  definitions: {description: The file of definitions on this node, type: path, required: true}
  kubeconfig: {description: Whose rights are used, type: path, default: /etc/kubernetes/admin.conf}
  kubectl: {description: The program, type: path, default: /usr/local/bin/kubectl}
  patience_seconds: {description: How long an unready server is waited for, type: int, default: 60}
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Make way for the new charts
  runai_chart_prerequisites:
    removes_nginx: true
    chart: /var/lib/appliance/runai/0123456789abcdef/deploy/runai-backend-2.6.1.tgz
    folder: /var/lib/appliance/runai/before-2.6.1-3
    definitions: /var/lib/appliance/runai/0123456789abcdef/deploy/runai-crds.yaml
"""

RETURN = r"""
removed: {description: Whether the Deployment was deleted, type: bool, returned: success}
definitions: {description: Definitions that were made or changed, type: list, returned: success}
"""

NAMESPACE = "runai-backend"
APPLY_SECONDS = 60
OBJECTS_SECONDS = 600
KIND = "CustomResourceDefinition"


def is_of_chart(releases, chart):
    """Return whether the backend was deployed from this chart already."""
    latest = releases.latest()
    if latest is None or latest.status != "deployed":
        return False
    return latest.digests["chart"] == hashlib.sha256(Path(chart).read_bytes()).hexdigest()


def existing(kubectl, path):
    """Return the objects of the file that exist: definitions, and what else a vendor put there."""
    found = kubectl.get("--filename=" + path) or {}
    return found.get("items", [found] if found else [])


def generations(kubectl, path):
    """Return definition -> its generation, of those in the file that exist."""
    items = existing(kubectl, path)
    return {item["metadata"]["name"]: item["metadata"].get("generation") for item in items}


def save_objects(kubectl, want, record, job):
    """Save the objects of the definitions that exist, once for each dump.

    Raises:
        JobError, UpgradeError: they could not be read, or written.
    """
    path = Path(want["folder"]) / "objects.json"
    found = existing(kubectl, want["definitions"])
    names = {item["metadata"]["name"] for item in found if item.get("kind") == KIND}
    taken = (record.get("dump") or {}).get("taken") or 0
    if not names or (path.exists() and path.stat().st_mtime >= taken):
        return
    argv = [want["kubectl"], "--kubeconfig=" + want["kubeconfig"], "get", ",".join(sorted(names))]
    argv += ["--all-namespaces", "--output=json", "--ignore-not-found"]
    dumps.to_file(job, path, argv, OBJECTS_SECONDS)


def apply(kubectl, path):
    """Apply the definitions; return those that were made or changed."""
    before = generations(kubectl, path)
    argv = ["apply", "--server-side", "--force-conflicts", "--filename=" + path]
    kubectl.call(argv, seconds=APPLY_SECONDS)
    after = generations(kubectl, path)
    return sorted(name for name, number in after.items() if before.get(name) != number)


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec=dict(
            ARGUMENTS,
            removes_nginx={"type": "bool", "required": True},
            chart={"type": "path", "required": True},
            definitions={"type": "path", "required": True},
            folder={"type": "path", "required": True},
        ),
        supports_check_mode=True,
    )
    want, kubectl = module.params, Kubectl.of(module)
    if module.check_mode:
        module.exit_json(changed=True, removed=False, definitions=[])
    try:
        job = NodeJob("runai-objects", run, python=sys.executable)
        save_objects(kubectl, want, records.read(), job)
        releases = Releases(kubectl, NAMESPACE, "runai-backend")
        due = want["removes_nginx"] and not is_of_chart(releases, want["chart"])
        removed = remove_nginx(kubectl) if due else False
        applied = apply(kubectl, want["definitions"])
    except (JobError, KubectlError, OSError, UpgradeError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=removed or bool(applied), removed=removed, definitions=applied)


if __name__ == "__main__":
    main()
