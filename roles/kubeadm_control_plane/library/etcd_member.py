#!/usr/bin/python
"""Ansible module: remove an etcd member that lost its data; run on a control-plane node."""

from __future__ import annotations

import json
import time

from ansible.module_utils import appliance_etcd_snapshot
from ansible.module_utils.appliance_kubectl import ARGUMENTS, Kubectl, KubectlError
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: etcd_member
short_description: Remove an etcd member that lost its data
description:
  - A member that lost its data must not rejoin under its old identity, and a member that was added
    but never started blocks the next one.
  - Refuses to remove a member that answers, or that etcdctl does not report as dead.
  - Saves a snapshot of etcd on this node before it removes one.
options:
  address: {description: Address of the member's node, type: str, required: true}
  kubeconfig: {description: Whose rights are used, type: path, default: /etc/kubernetes/admin.conf}
  kubectl: {description: The program, type: path, default: /usr/local/bin/kubectl}
  patience_seconds: {description: How long to wait for an unready server, type: int, default: 60}
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
    """Return endpoint -> whether etcdctl reports it as healthy; empty without a report."""
    try:
        return {entry["endpoint"]: entry["health"] for entry in json.loads(report)}
    except (ValueError, TypeError, KeyError):
        return {}


class Etcd:
    """etcdctl inside the etcd pod of another, running member."""

    clock = staticmethod(time.monotonic)
    sleep = staticmethod(time.sleep)

    def __init__(self, kubectl, address, patience_seconds=60):
        self._kubectl = kubectl
        self._address = address
        self._patience = patience_seconds
        self._pod = None

    def _living(self):
        """Return the name of a running member's pod, waiting for one that just started."""
        until = self.clock() + self._patience
        while True:
            name = self._ready_pod()
            if name is not None:
                return name
            if self.clock() >= until:
                raise KubectlError(
                    "no etcd pod except the one on %s is ready after %d s"
                    % (self._address, self._patience)
                )
            self.sleep(1)

    def _ready_pod(self):
        """Return the name of a ready etcd pod on another node."""
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
        """Return whether the member of the address is healthy; retry while that is unclear.

        kubectl also exits with 1 for its own faults, and the image may have no shell to tell them
        apart. So only etcdctl's report counts, and only if it reports its own member as healthy: a
        fault of all members does not show that one is dead.
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
                    "the health of the etcd member on %s could not be read in %s (%s); nothing "
                    "was removed: check that etcd and the API server run there, then run again"
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
                msg="the etcd member on %s answers, so it has data, but the probe found none "
                "on its node; nothing was removed: check /var/lib/etcd there" % address
            )
        if not module.check_mode:
            appliance_etcd_snapshot.snapshot("member")
            etcd.remove(member)
    except (KubectlError, appliance_etcd_snapshot.SnapshotError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=True, removed="%x" % member["ID"])


if __name__ == "__main__":
    main()
