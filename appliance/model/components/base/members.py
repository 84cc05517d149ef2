"""Post-conditions that every member of the cluster must meet, for several components."""

from __future__ import annotations

from collections.abc import Iterator

from appliance.model.site.groups import CONTROL_PLANE
from appliance.model.site.settings import Node
from appliance.model.state.cluster.cluster import (
    CONTROL_PLANE_PODS,
    Cluster,
    ClusterNode,
    NoCluster,
)
from appliance.model.state.desired import Desired
from appliance.model.state.facts.facts import NodeFacts
from appliance.model.state.facts.identity import identity_of
from appliance.model.state.nodes.kubeadm_state import is_member
from appliance.model.state.observed import Observed

NODE_PODS = ("flannel", "kube-proxy")


def without_cluster(observed: Observed) -> str:
    """Why a step cannot be checked against the cluster; one that does not answer is not absent."""
    if isinstance(observed.cluster, NoCluster):
        return "there is no cluster yet"
    return "not known: the API does not answer"


def identity_faults(facts: NodeFacts, member: ClusterNode) -> Iterator[str]:
    """The Node object records the accepted machine, so that a replacement is recognised."""
    if member.serial is None and facts.serial:
        yield "its Node object lacks the accepted serial"
    elif not member.identity.is_told and identity_of(facts).is_told:
        yield "its Node object lacks the machine's UUID, board and NICs"


def kubelet_faults(facts: NodeFacts) -> Iterator[str]:
    """Yield whether the kubelet is stopped."""
    if not facts.at("kubernetes.kubelet_active"):
        yield "the kubelet does not run"


def member_faults(
    node: Node, desired: Desired, facts: NodeFacts, cluster: Cluster
) -> Iterator[str]:
    """Yield why the node is not a Ready member with its own pods."""
    member = cluster.nodes.get(node.name)
    if member is None:
        yield "is not a member of the cluster"
        return
    if facts.kubernetes_untold:
        yield "the probe timed out before it read the kubeadm state"
        return
    if not is_member(facts):
        # For 40 s the API still reports the Node of a wiped machine as Ready.
        yield "is no longer a member: it has no kubeadm state, only its old Node object"
        return
    if not member.ready:
        yield f"is not Ready: {member.not_ready_reason or 'no reason given'}"
    elif member.version != desired.kubernetes_version and node.name not in desired.lagging:
        yield f"its kubelet is {member.version}, not {desired.kubernetes_version}"
    if member.internal_ip and member.internal_ip != node.ip:
        yield f"its InternalIP in the cluster is {member.internal_ip}, not {node.ip}"
    yield from _pods_on(node, cluster)


def _pods_on(node: Node, cluster: Cluster) -> Iterator[str]:
    here = cluster.pods_on(node.name)
    needed = [*NODE_PODS, *(CONTROL_PLANE_PODS if CONTROL_PLANE in node.groups else ())]
    for app in needed:
        pods = [pod for pod in here if pod.app == app]
        if not pods:
            yield f"no {app} pod runs on it"
        for pod in pods:
            if not pod.ready:
                yield f"pod {pod.name} is not ready: {pod.why_unready}"


def network_untested(node: Node, desired: Desired, observed: Observed) -> Iterator[str]:  # noqa: ARG001
    """Yield a Ready member whose network pods have not tested since it joined."""
    cluster = observed.cluster
    member = cluster.nodes.get(node.name) if isinstance(cluster, Cluster) else None
    if member and member.ready and not member.network_tested:
        yield "pods have not tested its network since it joined"
