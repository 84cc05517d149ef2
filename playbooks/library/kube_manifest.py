#!/usr/bin/python
"""Ansible module: a manifest on a control-plane node is what the cluster has, and it runs."""

from __future__ import annotations

import re
from pathlib import Path

from ansible.module_utils.appliance_kubectl import ARGUMENTS, Kubectl, KubectlError, condition
from ansible.module_utils.appliance_pods import is_ready, pod_faults, words
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: kube_manifest
short_description: Apply a manifest when it differs, and wait until it runs
description:
  - Compares with C(kubectl diff), applies only when something differs, so that C(changed) is true
    exactly when the cluster was changed. Not by server-side apply, whose dry run in 1.23 moves the
    time of a field manager and so differs from itself.
  - Workloads read a ConfigMap at their start, so they are restarted when one of the manifest had
    been changed in the cluster.
  - Then waits for the workloads named, a DaemonSet on every node that reports, and when one does
    not come up says which of its pods are not ready and why.
options:
  path: {description: The manifest on this node, type: path, required: true}
  workloads:
    description: What must be rolled out, as namespace/kind/name.
    type: list
    elements: str
    default: []
  timeout_seconds: {description: How long the workloads are waited for, type: int, default: 180}
  kubeconfig: {description: Whose rights are used, type: path, default: /etc/kubernetes/admin.conf}
  kubectl: {description: The program, type: path, default: /usr/local/bin/kubectl}
  patience_seconds: {description: How long an unready server is waited for, type: int, default: 60}
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Apply the network
  kube_manifest:
    path: /etc/kubernetes/appliance/flannel.yaml
    workloads: [kube-flannel/daemonset/kube-flannel-ds]
"""

RETURN = r"""
differences: {description: What kubectl diff printed, type: str, returned: always}
"""

# Which template a pod was made from, as the DaemonSet controller writes it.
TEMPLATE_ANNOTATION = "deprecated.daemonset.template.generation"
TEMPLATE_LABEL = "pod-template-generation"


def differences(kubectl, want):
    """Return what differs from the manifest, or an empty string.

    The server cannot compare an object whose namespace does not exist, so absence is read first.
    """
    wanted = len(re.findall(r"^kind:", Path(want["path"]).read_text(), re.MULTILINE))
    found = kubectl.names("--filename=" + want["path"])
    if len(found) < wanted:
        return "%d of %d objects do not exist" % (wanted - len(found), wanted)
    rc, printed = kubectl.call(["diff", "--filename=" + want["path"]], success_codes=(0, 1))
    return printed or "kubectl diff ended with 1" if rc else ""


def restart(kubectl, want, different):
    """Restart the workloads when a ConfigMap was another: kubectl diff names each object."""
    if "/v1.ConfigMap." not in different:
        return
    for workload in want["workloads"]:
        namespace, kind, name = workload.split("/")
        kubectl.call(["rollout", "restart", "--namespace=" + namespace, "%s/%s" % (kind, name)])


def pod_reasons(pod):
    """Return why one pod is not ready, in words."""
    reasons = [
        "%s: %s" % (fault.container, words(fault)) if fault.container else fault.message
        for fault in pod_faults(pod)
        if fault.container or fault.message
    ]
    return reasons or ["phase %s" % pod.get("status", {}).get("phase", "unknown")]


def pods_of(kubectl, workload, namespace):
    """Return the pods that a workload selects."""
    labels = workload["spec"]["selector"].get("matchLabels", {})
    selector = ",".join("%s=%s" % pair for pair in sorted(labels.items()))
    found = kubectl.get("--namespace=" + namespace, "pods", "--selector=" + selector)
    return (found or {}).get("items", [])


def reasons(kubectl, namespace, kind, name):
    """Return one sentence for every pod of a workload that is not ready."""
    workload = kubectl.get("--namespace=" + namespace, kind, name)
    if workload is None:
        return ["%s/%s does not exist" % (kind, name)]
    told = []
    for pod in pods_of(kubectl, workload, namespace):
        if not is_ready(pod):
            where = pod["spec"].get("nodeName", "no node")
            why = "; ".join(pod_reasons(pod))
            told.append("%s on %s: %s" % (pod["metadata"]["name"], where, why))
    return told or ["no pod of it exists, look at: kubectl -n %s describe %s" % (namespace, kind)]


def lacking(kubectl, namespace, name):
    """Return the nodes that lack a ready pod of a DaemonSet's newest template.

    A node that no longer reports is left out: its pods cannot be had before it is back, and the
    others must not wait for it.
    """
    daemonset = kubectl.get("--namespace=" + namespace, "daemonset", name)
    if daemonset is None:
        return ["every node (it does not exist)"]
    newest = daemonset["metadata"].get("annotations", {}).get(TEMPLATE_ANNOTATION)
    fine = {
        pod["spec"].get("nodeName")
        for pod in pods_of(kubectl, daemonset, namespace)
        if is_ready(pod) and newest in (None, pod["metadata"].get("labels", {}).get(TEMPLATE_LABEL))
    }
    nodes = (kubectl.get("nodes") or {}).get("items", [])
    present = [node["metadata"]["name"] for node in nodes if condition(node)[0] != "Unknown"]
    return [name for name in present if name not in fine]


def rolled_out(kubectl, workload, seconds):
    """Wait for one workload; return whether it runs."""
    namespace, kind, name = workload.split("/")
    if kind != "daemonset":
        rollout = ["rollout", "status", "--namespace=" + namespace, "%s/%s" % (kind, name)]
        arguments = [*rollout, "--timeout=%ds" % max(1, int(seconds))]
        return kubectl.call(arguments, success_codes=(0, 1), seconds=0)[0] == 0
    until = kubectl.clock() + seconds
    while lacking(kubectl, namespace, name):
        if kubectl.clock() >= until:
            return False
        kubectl.sleep(1)
    return True


def wait(kubectl, want):
    """Wait for the workloads; return what is wrong, or None."""
    until = kubectl.clock() + want["timeout_seconds"]
    for workload in want["workloads"]:
        if not rolled_out(kubectl, workload, until - kubectl.clock()):
            why = " | ".join(reasons(kubectl, *workload.split("/")))
            return "%s is not rolled out after %d s: %s" % (
                workload,
                want["timeout_seconds"],
                why,
            )
    return None


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec=dict(
            ARGUMENTS,
            path={"type": "path", "required": True},
            workloads={"type": "list", "elements": "str", "default": []},
            timeout_seconds={"type": "int", "default": 180},
        ),
        supports_check_mode=True,
    )
    want = module.params
    kubectl = Kubectl.of(module)
    if module.check_mode and not (kubectl.is_possible() and Path(want["path"]).exists()):
        module.exit_json(changed=True, differences="there is no cluster or manifest yet")
    try:
        different = differences(kubectl, want)
        if different and not module.check_mode:
            kubectl.call(["apply", "--filename=" + want["path"]])
            restart(kubectl, want, different)
        fault = None if module.check_mode else wait(kubectl, want)
    except (KubectlError, OSError) as error:
        module.fail_json(msg=str(error))
    if fault:
        module.fail_json(msg=fault, differences=different)
    module.exit_json(changed=bool(different), differences=different)


if __name__ == "__main__":
    main()
