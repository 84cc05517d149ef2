#!/usr/bin/python
"""Ansible module: run kubeadm as a transient unit, and report why it failed or timed out."""

from __future__ import annotations

import functools
import json
import re
import socket
import sys
from contextlib import nullcontext

from ansible.module_utils.appliance_api_ending import EndingServers
from ansible.module_utils.appliance_job import JobError, NodeJob, explain
from ansible.module_utils.appliance_programs import run
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: kubeadm_run
short_description: Run kubeadm init or join
description:
  - Runs kubeadm as the unit C(appliance-kubeadm.service), or attaches to the one that runs (see
    C(node_job)).
  - kubeadm reports that it timed out, but not the cause. When it fails or times out, this checks
    the API's endpoint, the kubelet and the containers of Kubernetes, and fails with their faults.
  - While kubeadm upgrades, an API server that was told to end, and has answered for ten seconds,
    is told a second time, so that the kubelet need not wait half a minute for its watches.
options:
  arguments:
    description: Arguments of kubeadm. Never a secret.
    type: list
    elements: str
    required: true
  endpoint: {description: "NAME:PORT of the API", type: str, required: true}
  kubeadm: {description: The program, type: path, default: /usr/local/bin/kubeadm}
  deadline_seconds: {description: How long to wait for it, type: int, default: 600}
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Make the cluster
  kubeadm_run:
    arguments: [init, --config=/etc/kubernetes/appliance-kubeadm.yaml]
    endpoint: api.rack.example:6443
"""

RETURN = r"""
rc: {description: Return code of kubeadm, type: int, returned: when it ran}
attached: {description: Whether it waited for a running kubeadm, type: bool, returned: when it ran}
"""

ERROR = re.compile(r"^E\d{4} \S+ +\d+ (\S+?:\d+)\] (.*)$")
CONTAINER = re.compile(r"^k8s_([a-z-]+)_([a-z0-9.-]+)_([a-z-]+)_")
WORDS = 200
LOOK_SECONDS = 10


def endpoint_fault(endpoint, seconds=3):
    """Return why the endpoint does not accept a connection, or None."""
    name, _, port = endpoint.rpartition(":")
    try:
        socket.create_connection((name, int(port)), seconds).close()
    except socket.gaierror as error:
        return "the name %s does not resolve here: %s" % (name, error.strerror)
    except OSError as error:
        return "%s does not answer: %s" % (endpoint, error)
    return None


def kubelet_faults(run):
    """Return the kubelet's state, and its last two different errors."""
    state = run(["systemctl", "is-active", "kubelet.service"])[1].strip()
    faults = [] if state == "active" else ["the kubelet is %s" % (state or "unknown")]
    lines = run(["journalctl", "--unit=kubelet", "--lines=300", "--no-pager", "--output=cat"])[1]
    found = {}
    for line in lines.splitlines():
        match = ERROR.match(line)
        if match:
            found[match.group(1)] = match.group(2)
    return faults + ["kubelet: %s" % text[:WORDS] for text in list(found.values())[-2:]]


def container_faults(run):
    """Return the ended containers of Kubernetes, with their last line."""
    argv = ["docker", "ps", "--all", "--filter=name=k8s_", "--filter=status=exited"]
    rc, out, err = run([*argv, "--format={{.ID}} {{.Names}} {{.Status}}"])
    if rc != 0:
        ended = ended_faults(run)
        return ["Docker does not answer: %s" % err.strip()] if ended is None else ended
    faults = []
    for line in out.splitlines()[:4]:
        identity, name, status = line.split(" ", 2)
        match = CONTAINER.match(name)
        if match is None or match.group(1) == "POD":
            continue
        _, printed, said = run(["docker", "logs", "--tail=1", identity])
        last = (said or printed).strip()[-WORDS:]
        faults.append("container %s: %s: %s" % (match.group(1), status, last))
    return faults


def ended_faults(run):
    """Return containerd's containers of Kubernetes that ended; None where it does not list them."""
    rc, out, _ = run(["crictl", "ps", "--all", "--output", "json"])
    if rc != 0:
        return None
    try:
        found = json.loads(out)["containers"]
        ended = [one for one in found if one["state"] == "CONTAINER_EXITED"]
        names = sorted({str(one["metadata"]["name"]) for one in ended})
    except (ValueError, LookupError, TypeError):
        return None
    return ["container %s ended: see /var/log/pods" % name[:WORDS] for name in names[:4]]


def reasons(endpoint, run):
    """Return one sentence for each fault on this node."""
    fault = endpoint_fault(endpoint)
    return ([fault] if fault else []) + kubelet_faults(run) + container_faults(run)


def explained(endpoint, words, seconds=LOOK_SECONDS):
    """Return how kubeadm failed, after one sentence for each fault on this node.

    The checks may hang for the same reason as kubeadm; its own message is reported anyway.
    """
    return "; ".join([*reasons(endpoint, functools.partial(run, seconds=seconds)), words])


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "arguments": {"type": "list", "elements": "str", "required": True},
            "endpoint": {"type": "str", "required": True},
            "kubeadm": {"type": "path", "default": "/usr/local/bin/kubeadm"},
            "deadline_seconds": {"type": "int", "default": 600},
        },
        supports_check_mode=True,
    )
    want = module.params
    if module.check_mode:
        module.exit_json(changed=True)
    try:
        job = NodeJob("kubeadm", run, python=sys.executable)
        argv = [want["kubeadm"], *want["arguments"]]
        with EndingServers() if want["arguments"][0] == "upgrade" else nullcontext():
            result, attached = job.run(argv, deadline_seconds=want["deadline_seconds"])
    except JobError as error:
        module.fail_json(msg=explained(want["endpoint"], str(error)))
    if result["rc"] != 0:
        module.fail_json(msg=explained(want["endpoint"], explain(result)), rc=result["rc"])
    module.exit_json(changed=True, rc=0, attached=attached)


if __name__ == "__main__":
    main()
