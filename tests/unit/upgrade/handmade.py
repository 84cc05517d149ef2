"""A cluster as kubeadm left it, to be changed by hand in one place for a case."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from appliance.model.upgrade.handmade.kubelet_units import DROP_IN, UNIT
from appliance.model.upgrade.handmade.static_pods import COMPONENTS
from appliance.model.upgrade.losses import Documents

ROOT = Path(__file__).parents[3]
DATA = Path(__file__).parents[2] / "data/upgrade/kubeadm-1.23.5"
NODES = ("cp1", "cp2")
KUBELET: dict[str, Any] = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "authentication": {"anonymous": {"enabled": False}, "webhook": {"cacheTTL": "0s"}},
    "cgroupDriver": "systemd",
    "clusterDNS": ["10.96.0.10"],
    "kind": "KubeletConfiguration",
    "maxPods": 110,
    "rotateCertificates": True,
}
CLUSTER: dict[str, Any] = {
    "apiServer": {"certSANs": ["api.rack.test"], "timeoutForControlPlane": "4m0s"},
    "clusterName": "kubernetes",
    "controllerManager": {},
    "etcd": {"local": {"dataDir": "/var/lib/etcd"}},
    "imageRepository": "registry.rack.test:5000",
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


@cache
def _written(template: str, runtime: str) -> str:
    role = ROOT / "roles/kubernetes_node"
    folder = yaml.safe_load((role / "vars/main.yml").read_text())["__kubernetes_node_bin_dir"]
    text = (role / f"templates/{template}.j2").read_text()
    for variable, value in (
        ("ansible_managed | comment", "#\n# Ansible managed\n#"),
        ("__kubernetes_node_bin_dir", folder),
        ("kubernetes_node_runtime", runtime),
    ):
        text = text.replace(f"{{{{ {variable} }}}}", value)
    assert "{{" not in text
    return text


def units(runtime: str = "docker") -> dict[str, Any]:
    """The files of the kubelet's unit as role kubernetes_node writes them."""
    files = {UNIT: "kubelet.service", DROP_IN: "10-kubeadm.conf"}
    return {part: _written(template, runtime) for part, template in files.items()}


def untouched() -> dict[str, Any]:
    """All documents of a cluster that nobody touched."""
    return {
        "cluster_configuration": copy.deepcopy(CLUSTER),
        "kubelet_configuration": copy.deepcopy(KUBELET),
        "coredns": recorded("coredns"),
        "kube_proxy": recorded("kube-proxy"),
        "manifests": {node: {name: recorded(name) for name in COMPONENTS} for node in NODES},
        "kubelet_files": {node: copy.deepcopy(KUBELET) for node in (*NODES, "w1")},
        "kubelet_units": {node: units() for node in (*NODES, "w1")},
    }


def documents(changed: dict[str, Any] | None = None) -> Documents:
    """The documents as the model takes them."""
    return Documents(**(changed or untouched()))


def container(document: dict[str, Any]) -> dict[str, Any]:
    """The container of a workload or of a pod."""
    spec = document["spec"]
    found: dict[str, Any] = spec.get("template", document)["spec"]["containers"][0]
    return found


Change = Callable[[dict[str, Any]], None]


def changed(*changes: Change) -> Documents:
    found = untouched()
    for change in changes:
        change(found)
    return documents(found)


def arguments(component: str, *words: str, node: str = "cp1") -> Change:
    """Arguments are added to a static pod."""

    def change(found: dict[str, Any]) -> None:
        container(found["manifests"][node][component])["command"] += words

    return change


def without(component: str, flag: str) -> Change:
    def change(found: dict[str, Any]) -> None:
        pod = container(found["manifests"]["cp1"][component])
        kept = [word for word in pod["command"] if not word.startswith(f"--{flag}=")]
        assert len(kept) < len(pod["command"])
        pod["command"] = kept

    return change


def replaced(component: str, flag: str, value: str) -> Change:
    def change(found: dict[str, Any]) -> None:
        without(component, flag)(found)
        arguments(component, f"--{flag}={value}")(found)

    return change


def configured(*path: str, value: object) -> Change:
    """ClusterConfiguration has a value."""

    def change(found: dict[str, Any]) -> None:
        here = found["cluster_configuration"]
        for key in path[:-1]:
            here = here.setdefault(key, {})
        here[path[-1]] = value

    return change


def kubelet(key: str, value: object, *nodes: str) -> Change:
    def change(found: dict[str, Any]) -> None:
        for node in nodes or ("w1",):
            found["kubelet_files"][node][key] = value

    return change


def of_container(document: str, key: str, value: object) -> Change:
    def change(found: dict[str, Any]) -> None:
        container(found[document])[key] = value

    return change


def of_pod(document: str, key: str, value: object) -> Change:
    def change(found: dict[str, Any]) -> None:
        found[document]["spec"]["template"]["spec"][key] = value

    return change


def of_static_pod(key: str, value: object) -> Change:
    def change(found: dict[str, Any]) -> None:
        container(found["manifests"]["cp2"]["etcd"])[key] = value

    return change


def volume(found: dict[str, Any]) -> None:
    found["manifests"]["cp1"]["kube-apiserver"]["spec"]["volumes"].append(
        {"name": "audit", "hostPath": {"path": "/var/log/audit", "type": "DirectoryOrCreate"}}
    )


def sidecar(found: dict[str, Any]) -> None:
    found["coredns"]["spec"]["template"]["spec"]["containers"].append({"name": "cache"})


def proxy_env(found: dict[str, Any]) -> None:
    container(found["kube_proxy"])["env"].append({"name": "GODEBUG", "value": "x"})


def replicas(found: dict[str, Any]) -> None:
    found["coredns"]["spec"]["replicas"] = 5


def image(found: dict[str, Any]) -> None:
    container(found["coredns"])["image"] = "elsewhere/coredns:v1.9"


def at(*keys: str | int, value: object) -> Change:
    """One value is put somewhere into the documents; a list takes it where the index is its end."""

    def change(found: dict[str, Any]) -> None:
        here: Any = found
        for key in keys[:-1]:
            here = here.setdefault(key, {}) if isinstance(here, dict) else here[key]
        last = keys[-1]
        if isinstance(here, list) and last == len(here):
            here.append(value)
        else:
            here[last] = value

    return change
