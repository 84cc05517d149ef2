"""What runs on a lab's nodes in an upgrade, beside what Kubernetes allows beside each other."""

from __future__ import annotations

import json
import re
import time
from typing import Any, Final

from tests.lab.conftest import LabSite

KUBECTL: Final = "kubectl --request-timeout=10s --kubeconfig /etc/kubernetes/admin.conf"
MANIFESTS: Final = "/etc/kubernetes/manifests"
# kubernetes.io/releases/version-skew-policy for 1.23 and 1.24: how much older than the API server.
MOST_OLDER: Final = {
    "kubelet": 2,
    "kube-proxy": 2,
    "kube-scheduler": 1,
    "kube-controller-manager": 1,
}
API_SERVER: Final = "kube-apiserver"
# Longer than kubeadm leaves a single control plane without an API on a busy machine.
PATIENCE: Final = 300.0
_CONTROL_PLANE: Final = "node-role.kubernetes.io/control-plane"


def observed(lab: LabSite) -> dict[tuple[str, str], int]:
    """(component, node) -> minor version, of what runs now or is started next.

    Kubelets and kube-proxy are what the API tells, static pods are their manifests. What may not be
    newer than the API server is read before it.
    """
    nodes = {n["metadata"]["name"]: n for n in _asked(lab, "get nodes -o json")["items"]}
    found = {
        ("kubelet", name): _minor(node["status"]["nodeInfo"]["kubeletVersion"])
        for name, node in nodes.items()
    }
    for pod in _asked(lab, "-n kube-system get pods -l k8s-app=kube-proxy -o json")["items"]:
        image = pod["spec"]["containers"][0]["image"]
        found["kube-proxy", pod["spec"]["nodeName"]] = _minor(image)
    masters = [n for n in nodes if _CONTROL_PLANE in nodes[n]["metadata"]["labels"]]
    assert masters, "no control plane is labelled as one"
    for component in ("kube-scheduler", "kube-controller-manager", API_SERVER):
        for node in masters:
            found[component, node] = _minor(_manifest_image(lab, node, component))
    return found


def skew_is_allowed(lab: LabSite) -> dict[tuple[str, str], int]:
    """Nothing is newer than any API server, or older than is allowed; return what was observed."""
    found = observed(lab)
    servers = [minor for (component, _), minor in found.items() if component == API_SERVER]
    assert max(servers) - min(servers) <= 1, found
    for (component, node), minor in found.items():
        if component != API_SERVER:
            older = max(servers) - minor
            assert minor <= min(servers), f"{component} on {node} is newer: {found}"
            assert older <= MOST_OLDER[component], f"{component} on {node} is too old: {found}"
    return found


def _minor(text: str) -> int:
    found = re.search(r"v1\.(\d+)\.\d+$", text.strip())
    assert found, f"no version in {text!r}"
    return int(found.group(1))


def _manifest_image(lab: LabSite, node: str, component: str) -> str:
    short = node.removeprefix(f"{lab.name}-")
    deadline = time.monotonic() + PATIENCE
    while True:
        # kubeadm moves a manifest away before it moves the new one in.
        words = f"sed -n 's/^ *image: *//p' {MANIFESTS}/{component}.yaml 2>/dev/null"
        if image := lab.shell(short, words, check=False).strip():
            return image
        assert time.monotonic() < deadline, f"{node}: no manifest of {component}"
        time.sleep(0.5)


def _asked(lab: LabSite, words: str) -> dict[str, Any]:
    """The API's answer, for which a single control plane in an upgrade may need minutes."""
    deadline = time.monotonic() + PATIENCE
    while True:
        # Where a server cuts its answer off, kubectl prints an empty list and ends with 1.
        asked = f'found=$({KUBECTL} {words} 2>/dev/null) && printf %s "$found"'
        text = lab.shell("cp1", asked, check=False)
        if text.strip():
            found: dict[str, Any] = json.loads(text)
            return found
        assert time.monotonic() < deadline, f"the API did not answer: {words}"
        time.sleep(1)
