#!/usr/bin/python
"""Ansible module: etcd has no member whose data are gone; run on a control-plane node."""

from __future__ import annotations

import json
import time

from ansible.module_utils import appliance_etcd_snapshot
from ansible.module_utils.appliance_kubectl import ARGUMENTS, Kubectl, KubectlError
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: etcd_member
short_description: Remove an etcd member whose data are gone
description:
  - A member that lost its data may not come back under its old identity, and one that was announced
    and never started stands in the way of the next.
  - Refuses to remove a member that answers, or of which etcdctl does not say that it is dead.
  - Saves a snapshot of etcd on this node before it removes one.
options:
  address: {description: Address of the member's node, type: str, required: true}
  kubeconfig: {description: Whose rights are used, type: path, default: /etc/kubernetes/admin.conf}
  kubectl: {description: The program, type: path, default: /usr/local/bin/kubectl}
  patience_seconds: {description: How long an unready server is waited for, type: int, default: 60}
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Forget the member of the node that was wiped
  etcd_member:
    address: 198.51.100.13
  delegate_to: rack-cp1
"""

RETURN = r"""
removed: {description: Identity of the member that was removed, type: str, returned: always}
"""

PKI = "/etc/kubernetes/pki/etcd/"
ENDPOINT = "https://%s:2379"
OWN = ENDPOINT % "127.0.0.1"


def healths(report):
    """Return endpoint -> whether it is well, as etcdctl reports; empty when it is no report."""
    try:
        return {entry["endpoint"]: entry["health"] for entry in json.loads(report)}
    except (ValueError, TypeError, KeyError):
        return {}


class Etcd:
    """etcdctl inside the etcd pod of another, living member."""

    clock = staticmethod(time.monotonic)
    sleep = staticmethod(time.sleep)

    def __init__(self, kubectl, address, patience_seconds=60):
        self._kubectl = kubectl
        self._address = address
        self._patience = patience_seconds
        self._pod = None

    def _living(self):
        """Return the name of a living member's pod; one that just started is waited for."""
        until = self.clock() + self._patience
        while True:
            name = self._ready_pod()
            if name is not None:
                return name
            if self.clock() >= until:
                raise KubectlError(
                    "no etcd pod but the one on %s is ready after %d s"
                    % (self._address, self._patience)
                )
            self.sleep(1)

    def _ready_pod(self):
        """Return the name of an etcd pod that is ready and not on the node in question."""
        pods = self._kubectl.get("--namespace=kube-system", "pods", "--selector=component=etcd")
        for pod in (pods or {}).get("items", []):
            status = pod.get("status", {})
            ready = any(
                entry.get("type") == "Ready" and entry.get("status") == "True"
                for entry in status.get("conditions", [])
            )
            if ready and status.get("hostIP") != self._address:
                return pod["metadata"]["name"]
        return None

    def _etcdctl(self, arguments, endpoints=(OWN,), success_codes=(0,)):
        self._pod = self._pod or self._living()
        head = ["exec", "--namespace=kube-system", self._pod, "--container=etcd", "--", "etcdctl"]
        options = [
            "--endpoints=" + ",".join(endpoints),
            "--cacert=" + PKI + "ca.crt",
            "--cert=" + PKI + "server.crt",
            "--key=" + PKI + "server.key",
            "--command-timeout=5s",
        ]
        return self._kubectl.call(head + options + arguments, success_codes=success_codes)

    def member(self):
        """Return the member of the address, or None."""
        _, out = self._etcdctl(["member", "list", "--write-out=json"])
        wanted = "https://%s:2380" % self._address
        for member in json.loads(out).get("members", []):
            if wanted in member.get("peerURLs", []):
                return member
        return None

    def answers(self):
        """Return whether the member of the address lives; what is not sure is asked again.

        kubectl ends with 1 for its own faults too, and no shell is sure to be in the image that
        could tell them apart. So etcdctl's report counts alone, and its no beside the yes of the
        member that it runs with: what ails all of them does not make one dead.
        """
        wanted, until = ENDPOINT % self._address, self.clock() + self._patience
        ask = ["endpoint", "health", "--write-out=json"]
        while True:
            _, report = self._etcdctl(ask, (OWN, wanted), (0, 1))
            well = healths(report)
            if well.get(wanted):
                return True
            if well.get(OWN) and wanted in well:
                return False
            if self.clock() >= until:
                raise KubectlError(
                    "whether the etcd member on %s lives could not be learnt in %s (%s); nothing "
                    "was removed: see that etcd and the API server are well there, then run again"
                    % (self._address, self._pod, report.strip() or "kubectl exec gave no report")
                )
            self._pod = None
            self.sleep(1)

    def remove(self, member):
        """Remove a member."""
        self._etcdctl(["member", "remove", "%x" % member["ID"]])


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec=dict(ARGUMENTS, address={"type": "str", "required": True}),
        supports_check_mode=True,
    )
    address = module.params["address"]
    kubectl = Kubectl.of(module)
    if module.check_mode and not kubectl.is_possible():
        module.exit_json(changed=False, removed="")
    etcd = Etcd(kubectl, address, module.params["patience_seconds"])
    try:
        member = etcd.member()
        if member is None:
            module.exit_json(changed=False, removed="")
        if etcd.answers():
            module.fail_json(
                msg="the etcd member on %s answers, so its data are not gone; its node was probed "
                "without any: look at /var/lib/etcd there, nothing was removed" % address
            )
        if not module.check_mode:
            appliance_etcd_snapshot.snapshot("member")
            etcd.remove(member)
    except (KubectlError, appliance_etcd_snapshot.SnapshotError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=True, removed="%x" % member["ID"])


if __name__ == "__main__":
    main()
