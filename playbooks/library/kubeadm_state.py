#!/usr/bin/python
"""Ansible module: what kubeadm has done on this node, read from the node itself."""

from __future__ import annotations

import hashlib
import ssl
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from ansible.module_utils.appliance_job import JobError, NodeJob
from ansible.module_utils.appliance_kubectl import ARGUMENTS, Kubectl, KubectlError
from ansible.module_utils.appliance_programs import run
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: kubeadm_state
short_description: Read how far kubeadm came on this node
description:
  - Waits first for a kubeadm that an earlier run left running (job C(kubeadm) of C(node_job)).
  - Changes nothing. Tells a finished node from one where C(kubeadm init) or C(kubeadm join) died.
  - With C(cluster=true) it also asks the API for everything that a finished C(kubeadm init) leaves
    in it, and names what is missing.
options:
  root: {description: The folder that stands for /, type: path, default: /}
  cluster: {description: Ask the API too, type: bool, default: false}
  ready_seconds:
    description: How long the API server of a node that has all static pods is waited for.
    type: int
    default: 20
  minor: {description: "Kubernetes minor version, such as 1.23", type: str, default: ""}
  deadline_seconds:
    description: How long a kubeadm that runs here is waited for.
    type: int
    default: 600
  kubeconfig: {description: Whose rights are used, type: path, default: /etc/kubernetes/admin.conf}
  kubectl: {description: The program, type: path, default: /usr/local/bin/kubectl}
  patience_seconds: {description: How long an unready server is waited for, type: int, default: 60}
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Read how far kubeadm came
  kubeadm_state:
    cluster: true
    minor: "1.23"
"""

RETURN = r"""
joined: {description: kubelet.conf is there and its certificate too, type: bool, returned: always}
bootstrapping: {description: bootstrap-kubelet.conf is there, type: bool, returned: always}
manifests: {description: Names of the static pods, type: list, elements: str, returned: always}
static_pods_missing: {description: Those of a control plane that are not there, type: list,
  elements: str, returned: always}
etcd_data: {description: An etcd member has data here, type: bool, returned: always}
ca_hash: {description: "sha256 of pki/ca.crt, or empty", type: str, returned: always}
api_ready: {description: The API server of this node says it is ready, type: bool, returned: always}
begun: {description: Something of kubeadm is here, type: bool, returned: always}
serving: {description: "It joined, its static pods are there, and its API server is ready",
  type: bool, returned: always}
initialised: {description: An init ran to its end here, type: bool, returned: with cluster}
missing: {description: What a finished init would have left in the API, type: list, elements: str,
  returned: with cluster}
"""

STATIC_PODS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
READY_URL = "https://127.0.0.1:6443/readyz"


def ca_digest(path):
    """Return the sha256 of a CA's file, or an empty string when it is absent or cut off."""
    try:
        ssl.create_default_context(cafile=str(path))
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except (OSError, ssl.SSLError):
        return ""


def api_ready(ca):
    """Return whether this node's own API server says it is ready."""
    try:
        context = ssl.create_default_context(cafile=str(ca))
        # The certificate names the node, not the loopback; whose CA it is decides.
        context.check_hostname = False
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        )
        with opener.open(READY_URL, timeout=3) as answer:
            return answer.status == 200
    except (OSError, ValueError, urllib.error.URLError):
        return False


def wait_api(ca, seconds):
    """Return whether this node's API server is ready, or becomes so in time."""
    until = time.monotonic() + seconds
    while not api_ready(ca):
        if time.monotonic() >= until:
            return False
        time.sleep(0.5)
    return True


def node_state(root, ready_seconds):
    """Return what the node's files say, and its API server when it should have one."""
    kubernetes = root / "etc/kubernetes"
    ca = kubernetes / "pki/ca.crt"
    manifests = sorted(path.stem for path in (kubernetes / "manifests").glob("*.yaml"))
    complete = set(STATIC_PODS) <= set(manifests)
    state = {
        "joined": (kubernetes / "kubelet.conf").is_file()
        and (root / "var/lib/kubelet/pki/kubelet-client-current.pem").exists(),
        "bootstrapping": (kubernetes / "bootstrap-kubelet.conf").is_file(),
        "manifests": manifests,
        "static_pods_missing": sorted(set(STATIC_PODS) - set(manifests)),
        "etcd_data": (root / "var/lib/etcd/member").is_dir(),
        "ca_hash": ca_digest(ca),
        "api_ready": ca.is_file() and complete and wait_api(ca, ready_seconds),
    }
    traces = ("manifests", "etcd_data", "joined", "bootstrapping", "ca_hash")
    state["begun"] = any(state[trace] for trace in traces)
    state["serving"] = state["joined"] and complete and state["api_ready"]
    return state


def initialised(state):
    """Return whether an init ran to its end: the node joined, its pods are there, and its objects.

    An init that died is repeated; one that is complete is not.
    """
    return state["joined"] and not state["static_pods_missing"] and not state["missing"]


def expected(minor):
    """Return (namespace, objects) that a finished kubeadm init leaves."""
    return (
        (
            "kube-system",
            [
                "configmap/kubeadm-config",
                "configmap/kubelet-config-" + minor,
                "configmap/kube-proxy",
                "configmap/coredns",
                "daemonset.apps/kube-proxy",
                "deployment.apps/coredns",
                "service/kube-dns",
                "role.rbac.authorization.k8s.io/kubeadm:nodes-kubeadm-config",
                "rolebinding.rbac.authorization.k8s.io/kubeadm:nodes-kubeadm-config",
                "rolebinding.rbac.authorization.k8s.io/kubeadm:kubelet-config-" + minor,
                "clusterrolebinding.rbac.authorization.k8s.io/kubeadm:kubelet-bootstrap",
                "clusterrolebinding.rbac.authorization.k8s.io/kubeadm:get-nodes",
                "clusterrolebinding.rbac.authorization.k8s.io/"
                "kubeadm:node-autoapprove-certificate-rotation",
                "clusterrolebinding.rbac.authorization.k8s.io/kubeadm:node-proxier",
            ],
        ),
        (
            "kube-public",
            [
                "configmap/cluster-info",
                "rolebinding.rbac.authorization.k8s.io/kubeadm:bootstrap-signer-clusterinfo",
            ],
        ),
    )


def missing(kubectl, minor):
    """Return what a finished kubeadm init would have left and the API does not have."""
    gone = []
    for namespace, objects in expected(minor):
        found = kubectl.names("--namespace=" + namespace, *objects)
        gone.extend(name for name in objects if name not in found)
    return gone


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec=dict(
            ARGUMENTS,
            root={"type": "path", "default": "/"},
            cluster={"type": "bool", "default": False},
            ready_seconds={"type": "int", "default": 20},
            minor={"type": "str", "default": ""},
            deadline_seconds={"type": "int", "default": 600},
        ),
        supports_check_mode=True,
    )
    want = module.params
    if not module.check_mode:
        try:
            job = NodeJob("kubeadm", run, python=sys.executable)
            job.wait_until_idle(want["deadline_seconds"])
        except JobError as error:
            module.fail_json(msg=str(error))
    state = node_state(Path(want["root"]), want["ready_seconds"])
    if want["cluster"]:
        kubectl = Kubectl.of(module)
        state["missing"] = ["the API server does not answer on this node"]
        try:
            if state["api_ready"] and kubectl.is_possible():
                state["missing"] = missing(kubectl, want["minor"])
        except KubectlError as error:
            module.fail_json(msg=str(error), **state)
        state["initialised"] = initialised(state)
    module.exit_json(changed=False, **state)


if __name__ == "__main__":
    main()
