#!/usr/bin/python
"""Ansible module: kubeadm's certificates are valid for long enough, and its programs use them."""

from __future__ import annotations

import hashlib
import inspect
import json
import sys

from ansible.module_utils import appliance_programs as programs
from ansible.module_utils import certificate_renewal
from ansible.module_utils.appliance_files import write
from ansible.module_utils.appliance_job import JobError, NodeJob
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.certificate_renewal import FOLDER, PROGRAMS, Renewal, RenewalError

DOCUMENTATION = r"""
module: kubeadm_certificates
short_description: Renew the certificates of kubeadm on this control-plane node
description:
  - Runs C(kubeadm certs renew all) when a certificate has fewer days left, and restarts etcd, the
    API server, the controller manager and the scheduler, one after the other.
  - Runs as the unit C(appliance-certificates.service), so a killed control process has no effect.
    A program that is older than its files is restarted by the next run.
options:
  within_days: {description: Fewer days left are too few, type: int, required: true}
  await_ready: {description: Wait until each program is healthy, type: bool, default: true}
  api_port: {description: Port of the API server, type: int, default: 6443}
  deadline_seconds: {description: How long each program may take, type: int, default: 180}
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Renew what ends within two months
  kubeadm_certificates:
    within_days: 60
"""

RETURN = r"""
renewed: {description: Files that had too few days left, type: list, returned: when it ran}
restarted: {description: Programs that were restarted, type: list, returned: when it ran}
kept: {description: Folder with the files before, type: str, returned: when it ran}
"""


def carry_out(request):
    """Carry out the request as a unit; return its result."""
    FOLDER.mkdir(mode=0o700, parents=True, exist_ok=True)
    text = json.dumps(request, sort_keys=True)
    path = FOLDER / ("request-%s.json" % hashlib.sha256(text.encode()).hexdigest()[:12])
    write(path, text.encode(), 0o600)
    program = FOLDER / "certificate_renewal.py"
    write(program, inspect.getsource(certificate_renewal).encode(), 0o600)
    job = NodeJob("certificates", programs.run, python=sys.executable)
    seconds = len(PROGRAMS) * request["deadline_seconds"] + 180
    result, _ = job.run([sys.executable, "-I", str(program), str(path)], deadline_seconds=seconds)
    if result["rc"] != 0:
        raise RenewalError(result["stderr"].strip() or "it ended with %d" % result["rc"])
    return json.loads(result["stdout"])


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "within_days": {"type": "int", "required": True},
            "await_ready": {"type": "bool", "default": True},
            "api_port": {"type": "int", "default": 6443},
            "deadline_seconds": {"type": "int", "default": 180},
        },
        supports_check_mode=True,
    )
    request = dict(module.params)
    try:
        if module.check_mode:
            module.exit_json(changed=Renewal(request).is_due(), renewed=[], restarted=[], kept="")
        module.exit_json(**carry_out(request))
    except (RenewalError, JobError, OSError, ValueError) as error:
        module.fail_json(msg=str(error))


if __name__ == "__main__":
    main()
