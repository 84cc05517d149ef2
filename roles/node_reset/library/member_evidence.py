#!/usr/bin/python
"""Ansible module: verify that this machine is the node to empty, or fail."""

from __future__ import annotations

from pathlib import Path

from ansible.module_utils.appliance_mounts import require_local
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.member_folders import FOLDERS, KUBELET, require_own, resolved
from ansible.module_utils.reset_evidence import ARGUMENTS, Evidence, refusal

DOCUMENTATION = r"""
module: member_evidence
short_description: Refuse to empty a machine that is not verified to be the node
description:
  - Compares the machine-id, the API server in the kubeconfigs and the cluster's CA with the
    expected values; fails where they differ, or where nothing shows whose member the machine is.
  - Records the membership of the machine, so that an interrupted reset can continue.
options:
  node_name: {description: The node's name in the cluster, type: str, required: true}
  machine_id: {description: Machine-id of the probed machine, type: str, required: true}
  api_hosts: {description: Names and addresses of the cluster's API, type: list, elements: str,
    required: true}
  ca_sha256: {description: sha256 of the cluster's CA; empty where unknown, type: str, default: ""}
  vouched: {description: The caller's evidence besides the CA, type: str, default: "",
    choices: ["", ca, serial, machine, removal, operator]}
  root: {description: The folder used as /, type: path, default: /}
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Refuse another machine
  member_evidence:
    node_name: w2
    machine_id: 0123456789abcdef0123456789abcdef
    api_hosts: [k8s.example.com]
    ca_sha256: "{{ ca }}"
"""

RETURN = r"""
begun: {description: Whether the mark was written now, type: bool, returned: success}
"""


def main():
    """Run the module."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    want = module.params
    try:
        root = Path(want["root"])
        evidence = Evidence(root)
        why = refusal(evidence, want)
        if why:
            module.fail_json(msg="%s. Nothing was changed" % why)
        # A mark without a CA is no evidence for the next run.
        require_own(root, FOLDERS)
        # Later, kubeadm or this role unmounts the pods' mounts below the kubelet's folder.
        require_local(root, resolved(root, [name for name in FOLDERS if name != KUBELET]))
        mark = (want["node_name"], want["ca_sha256"])
        begin = bool(want["ca_sha256"]) and evidence.traces() and evidence.begun() != mark
        if begin and not module.check_mode:
            evidence.begin(want["node_name"], want["ca_sha256"])
    except OSError as error:
        module.fail_json(msg="%s. Nothing was changed" % error)
    module.exit_json(changed=False, begun=begin)


if __name__ == "__main__":
    main()
