#!/usr/bin/python
"""Ansible module: the projects of Run:ai are written down, or are still those written down."""

from __future__ import annotations

import json
from pathlib import Path

from ansible.module_utils.appliance_files import write
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.runai_backend_api import ARGUMENTS, BackendError, answer

DOCUMENTATION = r"""
module: runai_projects
short_description: Write down the projects of Run:ai, or compare them with those written down
description:
  - Logs in to the backend, and reads the projects that it lists for this cluster, and the
    namespaces of projects (label C(runai/queue)).
  - C(saved) writes them into the file. C(compared) waits until none of those in the file is
    missing, and a backend that lists its projects at last knows one of the namespaces'.
options:
  domain: {description: The backend's name, type: str, required: true}
  authority: {description: The CA (PEM file) that vouches for it, type: path, required: true}
  username: {description: Who logs in, type: str, required: true}
  password_path: {description: A file that holds the password alone, type: path, required: true}
  cluster: {description: What the backend calls the cluster, type: str, required: true}
  path: {description: The file, type: path, required: true}
  state: {description: What is done, type: str, choices: [saved, compared], required: true}
  timeout_seconds:
    description: How long the backend may take to answer as it should.
    type: int
    default: 120
  kubeconfig: {description: Whose rights are used, type: path, default: /etc/kubernetes/admin.conf}
  kubectl: {description: The program, type: path, default: /usr/local/bin/kubectl}
  patience_seconds:
    description: How long an API server that is not ready is waited for.
    type: int
    default: 60
notes:
  - "C(GET /v1/k8s/clusters/UUID/projects) is in scripts of 2.8 and later. A backend that does not
    know it is compared by the namespaces alone."
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Write down the projects
  runai_projects:
    domain: runai.rack.example
    authority: /etc/appliance/runai/backend-ca.crt
    username: test@run.ai
    password_path: /run/appliance/runai-password
    cluster: rack
    path: /var/lib/appliance/runai/projects.json
    state: saved
"""

RETURN = r"""
projects: {description: Names by where they were found, type: dict, returned: success}
"""

LABEL = "runai/queue"


def found_now(backend, record, want):
    """Return where -> the names of the projects; None where the backend does not list them.

    Raises:
        BackendError: no answer, or the login is refused.
    """
    backend.log_in(want["username"], want["password"])
    uuid = record.read().get("uuid")
    listed = backend.projects(uuid) if uuid else None
    labelled = record.labelled("namespaces", LABEL)
    queues = sorted({queue for queue in labelled.values() if queue})
    return {"backend": listed, "namespaces": sorted(labelled), "queues": queues}


def missing(before, now):
    """Return the projects that were there before and are not now, as ``name (where)``."""
    return [
        "%s (%s)" % (printable(name), where)
        for where in ("backend", "namespaces")
        for name in before.get(where) or ()
        if name not in (now.get(where) or ())
    ]


def printable(name):
    """Return a name without what a terminal would act on."""
    return "".join(c if c.isprintable() else "?" for c in name)[:100]


def is_empty(before, now):
    """Return whether a backend that lists its projects at last knows none of the namespaces'.

    Namespaces stay, whatever became of the database; up to 2.7 no backend lists its projects.
    """
    queues, listed = before.get("queues") or [], now.get("backend")
    is_first = before.get("backend") is None and listed is not None
    return bool(is_first and queues and not set(queues) & set(listed))


def projects(backend, record, want):
    """Return (the projects, whether the file was written).

    Raises:
        BackendError: no answer, or a project is missing.
    """
    now, path = found_now(backend, record, want), Path(want["path"])
    if want["state"] == "saved":
        text = json.dumps(now, sort_keys=True)
        if path.exists() and path.read_text() == text:
            return now, False
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write(path, text, 0o600)
        return now, True
    before = json.loads(path.read_text())
    if is_empty(before, now):
        raise BackendError(
            "the backend lists none of the %d projects from before: its database may be an empty "
            "one. Look at its web page, Projects" % len(before["queues"])
        )
    lost = missing(before, now)
    if lost:
        raise BackendError(
            "%d projects from before are missing, first %s. Look at the web page of the backend, "
            "Projects" % (len(lost), lost[0])
        )
    return now, False


def main():
    """Run the module."""
    state = {"type": "str", "choices": ["saved", "compared"], "required": True}
    module = AnsibleModule(
        argument_spec=dict(ARGUMENTS, path={"type": "path", "required": True}, state=state),
        supports_check_mode=True,
    )
    if module.check_mode:
        module.exit_json(changed=False, projects={})
    now, changed = answer(module, projects)
    module.exit_json(changed=changed, projects=now)


if __name__ == "__main__":
    main()
