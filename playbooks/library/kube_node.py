#!/usr/bin/python
"""Ansible module: one Node object, as the API has it; run on a control-plane node."""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path

from ansible.module_utils.appliance_kubectl import ARGUMENTS, Kubectl, KubectlError, condition
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: kube_node
short_description: Read, annotate or remove one Node object
description:
  - Returns whether the Node exists and is Ready; sets the annotations and labels asked for;
    waits for Ready when asked; removes the object with C(state=absent).
  - Never creates a Node, that is the kubelet's task. Without an admin.conf on this host the Node
    does not exist (the cluster is not created yet).
options:
  name: {description: Name of the Node, type: str, required: true}
  state:
    description: C(read) changes nothing and accepts an absent Node; C(present) fails without it.
    type: str
    choices: [read, present, absent]
    default: read
  annotations: {description: Annotations it must have, type: dict, default: {}}
  labels: {description: Labels it must have; null for one it must not, type: dict, default: {}}
  ready_seconds:
    description: How long to wait for Ready; 0 does not wait. Only with C(state=present).
    type: int
    default: 0
  runtime:
    description: The runtime that its kubelet must report; C(ready_seconds) waits for it, too.
    type: str
  kubelet_configuration:
    description: Return the configuration that the cluster holds for this Node's kubelet.
    type: bool
    default: false
  ca_path: {description: The cluster's CA, type: path, default: /etc/kubernetes/pki/ca.crt}
  kubeconfig: {description: Whose rights are used, type: path, default: /etc/kubernetes/admin.conf}
  kubectl: {description: The program, type: path, default: /usr/local/bin/kubectl}
  patience_seconds: {description: How long to wait for an unready server, type: int, default: 60}
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Write the accepted serial on the Node
  kube_node:
    name: rack-w1
    state: present
    annotations: {appliance.dev/dmi-serial: QTFCQ52900123}
  delegate_to: rack-cp1
"""

RETURN = r"""
exists: {description: Whether the Node exists now, type: bool, returned: always}
ready: {description: Status of its Ready condition is True, type: bool, returned: always}
reason: {description: Message of its Ready condition, type: str, returned: always}
runtime: {description: "Its containers' runtime and version, as NAME://VERSION", type: str,
  returned: always}
labels: {description: Its labels, type: dict, returned: always}
annotations: {description: Its annotations, type: dict, returned: always}
ca_hash: {description: "sha256 of the cluster's CA file, or empty", type: str, returned: always}
kubelet_configuration: {description: Text of the kubelet's configuration, type: str,
  returned: when asked for and the Node exists}
"""


def ca_hash(path):
    """Return the sha256 of the cluster's CA file, or an empty string."""
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError:
        return ""


def kubelet_configuration(kubectl, node):
    """Return the configuration that the cluster holds for a Node's kubelet, or nothing."""
    version = node["status"].get("nodeInfo", {}).get("kubeletVersion", "")
    minor = ".".join(version.lstrip("v").split(".")[:2])
    names = ["kubelet-config-" + minor, "kubelet-config"]
    found = kubectl.get("--namespace=kube-system", "configmap", *names)
    for item in found.get("items", [found]) if found else []:
        return item["data"].get("kubelet", "")
    return ""


def missing(node, want):
    """Return the metadata patch for the Node; empty when nothing differs."""
    patch = {}
    for kind in ("annotations", "labels"):
        have = node["metadata"].get(kind) or {}
        wanted = {key: None if v is None else str(v) for key, v in want[kind].items()}
        different = {key: v for key, v in wanted.items() if have.get(key) != v}
        if different:
            patch[kind] = different
    return patch


def told(node, **more):
    """Return what the module reports about a Node."""
    if node is None:
        return dict(
            exists=False, ready=False, reason="", runtime="", labels={}, annotations={}, **more
        )
    status, message = condition(node)
    metadata = node["metadata"]
    return dict(
        exists=True,
        ready=status == "True",
        reason=message,
        runtime=runtime_of(node),
        labels=metadata.get("labels") or {},
        annotations=metadata.get("annotations") or {},
        **more,
    )


def runtime_of(node):
    """Return the runtime and version that the kubelet reports."""
    return node["status"].get("nodeInfo", {}).get("containerRuntimeVersion", "")


def is_on(reported, runtime):
    """Return whether a runtime's name is the one that is wanted; any is without one."""
    return not runtime or reported.partition("://")[0] == runtime


def wait_ready(kubectl, name, seconds, runtime=None):
    """Return the Node once it is Ready on the runtime, or its state at the timeout."""
    until = time.monotonic() + seconds
    while True:
        node = kubectl.get("node", name)
        if node is None or time.monotonic() >= until:
            return node
        if condition(node)[0] == "True" and is_on(runtime_of(node), runtime):
            return node
        time.sleep(0.5)


def remove(kubectl, node, want, check_mode):
    """Remove the Node object and report."""
    if node is not None and not check_mode:
        kubectl.call(["delete", "node", want["name"], "--ignore-not-found", "--wait=true"])
    return told(None, changed=node is not None)


def bring(kubectl, node, want, check_mode):
    """Set what is missing on the Node, wait when asked, and report."""
    patch = missing(node, want)
    if patch and not check_mode:
        body = json.dumps({"metadata": patch})
        kubectl.call(["patch", "node", want["name"], "--type=merge", "--patch=" + body])
        node = kubectl.get("node", want["name"])
    if want["ready_seconds"] and not check_mode:
        node = wait_ready(kubectl, want["name"], want["ready_seconds"], want.get("runtime"))
    return told(node, changed=bool(patch))


def fault(want, report):
    """Return what is wrong with the outcome, or None."""
    if not report["exists"]:
        return (
            "Node %s does not exist: its kubelet never registered, check its journal"
            % (want["name"])
        )
    if want["ready_seconds"] and not report["ready"]:
        return "Node %s is not Ready after %d s: %s" % (
            want["name"],
            want["ready_seconds"],
            report["reason"] or "no reason given",
        )
    if not is_on(report["runtime"], want.get("runtime")):
        return "the kubelet of Node %s reports the runtime %s, not %s: see its flags in %s" % (
            want["name"],
            report["runtime"] or "unknown",
            want["runtime"],
            "/var/lib/kubelet/kubeadm-flags.env",
        )
    return None


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec=dict(
            ARGUMENTS,
            name={"type": "str", "required": True},
            state={"type": "str", "choices": ["read", "present", "absent"], "default": "read"},
            annotations={"type": "dict", "default": {}},
            labels={"type": "dict", "default": {}},
            ready_seconds={"type": "int", "default": 0},
            runtime={"type": "str"},
            kubelet_configuration={"type": "bool", "default": False},
            ca_path={"type": "path", "default": "/etc/kubernetes/pki/ca.crt"},
        ),
        supports_check_mode=True,
    )
    want = module.params
    kubectl, ca = Kubectl.of(module), ca_hash(want["ca_path"])
    if not kubectl.is_possible() and (want["state"] == "read" or module.check_mode):
        module.exit_json(ca_hash=ca, **told(None, changed=False))
    try:
        node = kubectl.get("node", want["name"])
        if want["state"] == "absent":
            module.exit_json(ca_hash=ca, **remove(kubectl, node, want, module.check_mode))
        if want["state"] == "read" or (node is None and module.check_mode):
            more = {"ca_hash": ca, "changed": False}
            if want["kubelet_configuration"] and node is not None:
                more["kubelet_configuration"] = kubelet_configuration(kubectl, node)
            module.exit_json(**told(node, **more))
        report = told(None) if node is None else bring(kubectl, node, want, module.check_mode)
    except KubectlError as error:
        module.fail_json(msg=str(error))
    wrong = None if module.check_mode else fault(want, report)
    if wrong:
        module.fail_json(msg=wrong, **report)
    module.exit_json(ca_hash=ca, **report)


if __name__ == "__main__":
    main()
