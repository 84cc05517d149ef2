#!/usr/bin/python
"""Ansible module: the backend sees the cluster that was connected to it."""

from __future__ import annotations

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.runai_backend_api import ARGUMENTS, answer, connection, is_shown

DOCUMENTATION = r"""
module: runai_cluster_connection
short_description: Wait until the backend sees the cluster
description:
  - Asks what the backend says of the cluster that C(runai_cluster_values) made, until the backend
    no longer says that the cluster is away; notes that in the ConfigMap C(appliance-cluster).
  - Only the word C(connected) is believed. No state, or an unknown one, shows nothing, and C(shown)
    says so; M(runai_cluster_evidence) then decides from the cluster's side.
options:
  domain: {description: The backend's name, type: str, required: true}
  authority: {description: The CA (PEM file) that vouches for it, type: path, required: true}
  username: {description: Who logs in, type: str, required: true}
  password_path: {description: A file that holds the password alone, type: path, required: true}
  cluster: {description: What the backend calls the cluster, type: str, required: true}
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
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Wait until the backend sees the cluster
  runai_cluster_connection:
    domain: runai.rack.example
    authority: /etc/appliance/ca.crt
    username: test@run.ai
    password_path: /run/appliance/runai-password
    cluster: rack
"""

RETURN = r"""
uuid: {description: The backend's name of the cluster, type: str, returned: success}
connection: {description: What the backend says of it, type: str, returned: success}
shown: {description: Whether that is the word for a connection, type: bool, returned: success}
"""


def main():
    """Run the module."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    if module.check_mode:
        module.exit_json(changed=False)
    uuid, said, changed = answer(module, connection)
    module.exit_json(changed=changed, uuid=uuid, connection=said, shown=is_shown(said))


if __name__ == "__main__":
    main()
