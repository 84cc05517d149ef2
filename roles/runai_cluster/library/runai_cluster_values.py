#!/usr/bin/python
"""Ansible module: log in to the backend, create the cluster there, and fetch its values."""

from __future__ import annotations

from pathlib import Path

from ansible.module_utils.appliance_files import write
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.runai_backend_api import ARGUMENTS, BackendError, answer

DOCUMENTATION = r"""
module: runai_cluster_values
short_description: Create a cluster in the backend and fetch its values file
description:
  - Verifies that a person can log in to the realm C(runai), creates the cluster once, and writes
    its values to a file that only root can read.
  - Which cluster is ours is kept in the ConfigMap C(appliance-cluster) of the backend's namespace,
    so that another run, and another control-plane node, ask for the same one again. That one is
    about to be made is written there first, so that one whose answer was lost is known for ours.
options:
  domain: {description: The backend's name, type: str, required: true}
  authority: {description: The CA (PEM file) that vouches for it, type: path, required: true}
  username: {description: Who logs in, type: str, required: true}
  password_path: {description: A file that holds the password alone, type: path, required: true}
  cluster: {description: What the backend calls the cluster, type: str, required: true}
  path: {description: Where the values are written, type: path, required: true}
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
  - "The calls are those of the guide's time: the realm's token endpoint with the password grant,
    C(POST /v1/k8s/clusters), C(GET /v1/k8s/clusters) (the vendor's page of the administrator's API)
    and C(GET /v1/k8s/clusters/UUID/installfile?cloud=op)."
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Fetch the values of the cluster
  runai_cluster_values:
    domain: runai.rack.example
    authority: /etc/appliance/ca.crt
    username: test@run.ai
    password_path: /run/appliance/runai-password
    cluster: rack
    path: /etc/appliance/runai/runai-rack.yaml
"""

RETURN = r"""
uuid: {description: The backend's name of the cluster, type: str, returned: success}
created: {description: Whether it was created now, type: bool, returned: success}
"""


def fetch(backend, record, want):
    """Return (uuid, values, created); the cluster is created when nobody knows it.

    Raises:
        BackendError: see Backend.
    """
    backend.log_in(want["username"], want["password"])
    known = record.read()
    ours = known.get("cluster") == want["cluster"]
    if ours and known.get("uuid"):
        values = backend.values(known["uuid"])
        if values is not None:
            record.write(want["cluster"], known["uuid"])
            return known["uuid"], values, False
    begun = ours and not known.get("uuid")
    if not begun:
        record.write(want["cluster"], "")
    uuid = backend.create(want["cluster"])
    if uuid is None and begun:
        # An attempt of ours was cut off before its answer came.
        same = [one for one in backend.listed() if one.get("name") == want["cluster"]]
        uuid = same[0].get("uuid") if same else None
    if uuid is None:
        record.forget()
        raise BackendError(
            "the backend has a cluster %s already, which this site did not make: choose another "
            "runai.cluster_name, or remove that one in the backend's web page" % want["cluster"],
            final=True,
        )
    record.write(want["cluster"], uuid)
    values = backend.values(uuid)
    if values is None:
        raise BackendError("the backend has no values for the cluster it has just made")
    return uuid, values, True


def save(path, content):
    """Write a root-only file atomically; return whether it was another one before."""
    if path.exists() and path.read_bytes() == content:
        return False
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write(path, content, 0o600)
    return True


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec=dict(ARGUMENTS, path={"type": "path", "required": True}),
        supports_check_mode=True,
    )
    path = Path(module.params["path"])
    if module.check_mode:
        module.exit_json(changed=not path.exists())
    uuid, values, created = answer(module, fetch)
    try:
        changed = save(path, values)
    except OSError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=changed or created, uuid=uuid, created=created)


if __name__ == "__main__":
    main()
