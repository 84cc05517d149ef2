#!/usr/bin/python
"""Ansible module: the cluster's own side shows that Run:ai's part reaches its backend."""

from __future__ import annotations

import re
import time
from fnmatch import fnmatchcase

from ansible.module_utils.appliance_kubectl import ARGUMENTS, Kubectl, KubectlError
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: runai_cluster_evidence
short_description: Wait until the cluster's side shows a connection to the backend
description:
  - Needs no login. Looks at three things and changes nothing. First, the workloads that talk to the
    backend are ready. Second, the last words of each that are about the backend tell no failure.
    Third, no condition of the RunaiConfig is False.
  - What says nothing is listed as such, and is never taken for a good sign.
options:
  domain: {description: The backend's name, type: str, required: true}
  workloads:
    description: Patterns of the names of Deployments; the first must be there.
    type: list
    elements: str
    required: true
  namespace: {description: Where they are, type: str, default: runai}
  timeout_seconds: {description: How long to wait for it, type: int, default: 120}
  kubeconfig: {description: Whose rights are used, type: path, default: /etc/kubernetes/admin.conf}
  kubectl: {description: The program, type: path, default: /usr/local/bin/kubectl}
  patience_seconds:
    description: How long an API server that is not ready is waited for.
    type: int
    default: 60
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Wait until the cluster's side shows the connection
  runai_cluster_evidence:
    domain: runai.rack.example
    workloads: [runai-agent, "*cluster-sync"]
"""

RETURN = r"""
evidence: {description: What was seen, one sentence each, type: list, returned: success}
"""

# The vendor's troubleshooting page names runai-agent and cluster-sync, and says to read their logs.
LINES = 30
FAILURE = re.compile(
    r"x509|certificate (?:signed by|verify|has expired|is not)|certificate verify failed"
    r"|no such host|connection refused|i/o timeout|timed out|unauthorized|forbidden|not connected"
    r"|unable to connect|failed to (?:connect|dial|login|authenticate)"
    r"|\b(?:status|code|https?://\S+)\W{0,3}(?:401|403|502|503)\b",
    re.IGNORECASE,
)
LONGEST = 200


class NoEvidence(Exception):
    """The cluster's side does not show a connection."""


def plain(text):
    """Return words of a log without what a terminal would act on, and not too many."""
    return "".join(c if c.isprintable() else " " for c in text).strip()[:LONGEST]


def last_failure(log, domain):
    """Return the newest line about the backend when it tells a failure, else an empty string."""
    about = [line for line in log.splitlines() if domain in line or FAILURE.search(line)]
    return plain(about[-1]) if about and FAILURE.search(about[-1]) else ""


def is_ready(workload):
    """Return whether every wanted copy of a Deployment is ready."""
    wanted = workload.get("spec", {}).get("replicas", 1)
    return workload.get("status", {}).get("readyReplicas", 0) >= max(wanted, 1)


def false_conditions(config):
    """Return the conditions of a RunaiConfig that are False, and whether it tells any at all."""
    told = ((config or {}).get("status") or {}).get("conditions")
    if not isinstance(told, list):
        return [], False
    found = [one for one in told if isinstance(one, dict) and one.get("type")]
    wrong = ["%s: %s" % (plain(str(c["type"])), plain(str(c.get("message") or c.get("reason"))))
             for c in found if c.get("status") == "False"]  # fmt: skip
    return wrong, bool(found)


def talkers(deployments, patterns):
    """Return the names of the Deployments that talk to the backend.

    Raises:
        NoEvidence: the first pattern has none, or one is not ready.
    """
    found = []
    for index, pattern in enumerate(patterns):
        fit = [d for d in deployments if fnmatchcase(d["metadata"]["name"], pattern)]
        if not fit and index == 0:
            raise NoEvidence("there is no deployment %s" % pattern)
        for one in fit:
            if not is_ready(one):
                raise NoEvidence("deployment %s is not ready" % one["metadata"]["name"])
            found.append(one["metadata"]["name"])
    return found


def look(kubectl, want):
    """Return what shows the connection.

    Raises:
        NoEvidence: something shows the contrary.
    """
    namespace = "--namespace=" + want["namespace"]
    deployments = (kubectl.get(namespace, "deployments") or {}).get("items", [])
    said = []
    for name in talkers(deployments, want["workloads"]):
        _, log = kubectl.call([namespace, "logs", "deployment/" + name, "--tail=%d" % LINES])
        failure = last_failure(log, want["domain"])
        if failure:
            raise NoEvidence("deployment %s says: %s" % (name, failure))
        known = "its last words about the backend tell no failure" if want["domain"] in log else (
            "its log does not name the backend"
        )  # fmt: skip
        said.append("deployment %s is ready; %s" % (name, known))
    wrong, tells = false_conditions(kubectl.get(namespace, "runaiconfigs.run.ai", "runai"))
    if wrong:
        raise NoEvidence("RunaiConfig runai says %s" % "; ".join(wrong))
    said.append("RunaiConfig runai: no condition is False" if tells else
                "RunaiConfig runai tells no conditions")  # fmt: skip
    return said


def wait(kubectl, want, clock=time):
    """Return the evidence, waiting for it.

    Raises:
        NoEvidence: there is none after the time limit.
    """
    until = clock.monotonic() + want["timeout_seconds"]
    while True:
        try:
            return look(kubectl, want)
        except NoEvidence:
            if clock.monotonic() >= until:
                raise
        clock.sleep(2)


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec=dict(
            ARGUMENTS,
            domain={"type": "str", "required": True},
            workloads={"type": "list", "elements": "str", "required": True},
            namespace={"type": "str", "default": "runai"},
            timeout_seconds={"type": "int", "default": 120},
        ),
        supports_check_mode=True,
    )
    want = module.params
    if module.check_mode:
        module.exit_json(changed=False, evidence=[])
    try:
        evidence = wait(Kubectl.of(module), want)
    except NoEvidence as error:
        module.fail_json(
            msg="the cluster's part of Run:ai does not show that it reaches https://%s: %s. Look "
            "at: kubectl -n %s logs deployment/runai-agent"
            % (want["domain"], error, want["namespace"])
        )
    except KubectlError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=False, evidence=evidence)


if __name__ == "__main__":
    main()
