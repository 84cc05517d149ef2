"""What on a machine speaks of a cluster: the evidence that forbids a fresh ``kubeadm init``."""

from __future__ import annotations

from typing import TYPE_CHECKING

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


def is_member(photograph: Photograph) -> bool:
    """Whether the kubelet has an identity of its own: ``/etc/kubernetes/kubelet.conf`` exists."""
    return any(
        str(config.get("path", "")).endswith("kubelet.conf")
        and "bootstrap" not in str(config.get("path", ""))
        for config in photograph.at("kubernetes.kubeconfigs") or ()
    )
