"""A cluster as kubeadm left it, to be changed by hand in one place for a case."""

from __future__ import annotations

import copy
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from appliance.model.upgrade.losses import Documents
from appliance.model.upgrade.static_pods import COMPONENTS

DATA = Path(__file__).parents[2] / "data/upgrade/kubeadm-1.23.5"
NODES = ("cp1", "cp2")
KUBELET = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "authentication": {"anonymous": {"enabled": False}, "webhook": {"cacheTTL": "0s"}},
    "cgroupDriver": "systemd",
    "clusterDNS": ["10.96.0.10"],
    "kind": "KubeletConfiguration",
    "maxPods": 110,
    "rotateCertificates": True,
}
CLUSTER = {
    "apiServer": {"certSANs": ["api.rack.test"], "timeoutForControlPlane": "4m0s"},
    "clusterName": "kubernetes",
    "controllerManager": {},
    "etcd": {"local": {"dataDir": "/var/lib/etcd"}},
    "kind": "ClusterConfiguration",
    "kubernetesVersion": "v1.23.5",
    "networking": {"dnsDomain": "cluster.local", "podSubnet": "10.244.0.0/16"},
    "scheduler": {},
}


@cache
def _recorded(name: str) -> Any:
    return yaml.safe_load((DATA / f"{name}.yml").read_text())


def recorded(name: str) -> Any:
    """A document as kubeadm renders it, to be changed freely."""
    return copy.deepcopy(_recorded(name))


def untouched() -> dict[str, Any]:
    """All documents of a cluster that nobody touched."""
    return {
        "cluster_configuration": copy.deepcopy(CLUSTER),
        "kubelet_configuration": copy.deepcopy(KUBELET),
        "coredns": recorded("coredns"),
        "kube_proxy": recorded("kube-proxy"),
        "manifests": {node: {name: recorded(name) for name in COMPONENTS} for node in NODES},
        "kubelet_files": {node: copy.deepcopy(KUBELET) for node in (*NODES, "w1")},
    }


def documents(changed: dict[str, Any] | None = None) -> Documents:
    """The documents as the model takes them."""
    return Documents(**(changed or untouched()))


def container(document: dict[str, Any]) -> dict[str, Any]:
    """The container of a workload or of a pod."""
    spec = document["spec"]
    found: dict[str, Any] = spec.get("template", document)["spec"]["containers"][0]
    return found
