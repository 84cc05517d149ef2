"""What on a machine speaks of a cluster: the evidence that forbids a fresh ``kubeadm init``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from appliance.model.photograph import watching

if TYPE_CHECKING:
    from appliance.model.photograph import Photograph


def cluster_traces(photograph: Photograph) -> str | None:
    """Say what a control-plane node carries of a cluster; None when there is nothing."""
    found = []
    if photograph.at("kubernetes.etcd_data.present"):
        found.append("etcd data")
    if photograph.at("kubernetes.manifests"):
        found.append("static pod manifests")
    if photograph.at("kubernetes.pki"):
        found.append("PKI")
    return ", ".join(found) or None


def pod_containers(photograph: Photograph) -> int:
    """How many containers of pods run on a machine; 0 where an old document does not tell."""
    return int(photograph.at("runtime.docker.containers_of_pods") or 0)


def containers_untold(photograph: Photograph) -> bool:
    """Whether its Docker did not answer when it was asked for them."""
    with watching() as missed:
        pod_containers(photograph)
    return bool(missed)


def is_member(photograph: Photograph) -> bool:
    """Whether the kubelet has an identity of its own: ``/etc/kubernetes/kubelet.conf`` exists."""
    return any(
        str(config.get("path", "")).endswith("kubelet.conf")
        and "bootstrap" not in str(config.get("path", ""))
        for config in photograph.at("kubernetes.kubeconfigs") or ()
    )
