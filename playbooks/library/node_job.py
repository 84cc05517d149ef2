#!/usr/bin/python
"""Ansible module: run a command as a named transient systemd unit and wait for its result."""

from __future__ import annotations

import sys
from pathlib import Path

from ansible.module_utils.appliance_job import JobError, NodeJob, explain
from ansible.module_utils.appliance_programs import run
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: node_job
short_description: Run a long command as a named transient unit
description:
  - Starts C(appliance-<job>.service) with systemd-run, waits for its result file
    C(/var/lib/appliance/jobs/<job>.json) and returns it.
  - When that unit already runs the same command, attaches to it instead of starting a second one;
    when it runs another command, waits for its end first.
  - A command that exceeds its deadline keeps running, so that the next run attaches to it.
options:
  job:
    description: Name of the job; lower-case letters, digits and dashes.
    type: str
    required: true
  command:
    description: The command as a list. Never a secret, the argv of a process is public.
    type: list
    elements: str
    required: true
  environment:
    description: Variables added to the environment of the command. Never a secret.
    type: dict
    default: {}
  directory:
    description: The directory the command runs in.
    type: str
    default: /
  deadline_seconds:
    description: How long to wait for the result.
    type: int
    default: 600
  success_codes:
    description: Return codes that count as success.
    type: list
    elements: int
    default: [0]
  creates:
    description: A path; when it exists the command does not run (a running unit is still awaited).
    type: path
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Initialise the control plane
  node_job:
    job: kubeadm-init
    command: [/usr/local/bin/kubeadm, init, --config=/etc/kubernetes/appliance-kubeadm.yaml]
    deadline_seconds: 300
"""

RETURN = r"""
rc: {description: Return code of the command, type: int, returned: when it ran}
stdout: {description: The last 16000 characters, type: str, returned: when it ran}
stderr: {description: The last 16000 characters, type: str, returned: when it ran}
started: {description: When it started (epoch), type: float, returned: when it ran}
ended: {description: When it ended (epoch), type: float, returned: when it ran}
attached: {description: Whether it waited for a running unit, type: bool, returned: when it ran}
unit: {description: Name of the unit, type: str, returned: always}
"""


def outcome(job, want, created):
    """Return (result, attached) of the job; no start if its outcome exists already."""
    if created:
        return job.attach(want["deadline_seconds"]), True
    environment = {key: str(value) for key, value in want["environment"].items()}
    return job.run(want["command"], environment, want["directory"], want["deadline_seconds"])


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "job": {"type": "str", "required": True},
            "command": {"type": "list", "elements": "str", "required": True},
            "environment": {"type": "dict", "default": {}},
            "directory": {"type": "str", "default": "/"},
            "deadline_seconds": {"type": "int", "default": 600},
            "success_codes": {"type": "list", "elements": "int", "default": [0]},
            "creates": {"type": "path"},
        },
        supports_check_mode=True,
    )
    want = module.params
    try:
        job = NodeJob(want["job"], run, python=sys.executable)
        created = bool(want["creates"]) and Path(want["creates"]).exists()
        if module.check_mode or (created and not job.is_running()):
            module.exit_json(changed=not created, unit=job.unit)
        result, attached = outcome(job, want, created)
    except JobError as error:
        module.fail_json(msg=str(error), unit="appliance-%s.service" % want["job"])
    told = {key: result[key] for key in ("rc", "stdout", "stderr", "started", "ended")}
    told.update(unit=job.unit, attached=attached, command_digest=result["command_digest"])
    if result["rc"] not in want["success_codes"]:
        module.fail_json(msg=explain(result), **told)
    module.exit_json(changed=True, **told)


if __name__ == "__main__":
    main()
