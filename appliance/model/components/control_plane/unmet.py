"""The step control_plane: the Kubernetes control plane runs."""

from __future__ import annotations

from collections.abc import Iterator

from appliance.model.components.base.members import identity_faults, kubelet_faults
from appliance.model.components.control_plane.immutable_settings import (
    other_names,
    other_pod_range,
    other_service_range,
)
from appliance.model.site.settings import Node
from appliance.model.state.cluster.cluster import Cluster
from appliance.model.state.desired import Desired
from appliance.model.state.observed import Observed


def control_plane(node: Node, desired: Desired, observed: Observed) -> Iterator[str]:
    """The node is a control-plane member of an initialised cluster of the release's version."""
    facts = observed.node_facts[node.name]
    yield from kubelet_faults(facts)
    cluster = observed.cluster
    if not isinstance(cluster, Cluster):
        yield (
            "there is no cluster yet"
            if not facts.at("kubernetes.manifests")
            else ("the API does not answer")
        )
        return
    member = cluster.nodes.get(node.name)
    if member is None or not member.control_plane:
        yield "is not a control-plane member of the cluster"
    else:
        if not facts.at("kubernetes.api_healthz.ok"):
            yield "its API server is not healthy"
        yield from identity_faults(facts, member)
    yield from _as_it_was_made(node, desired, observed)
    for what in cluster.missing:
        yield f"the cluster has no {what}"
    if desired.site.settings.control_plane_endpoint.balancer == "keepalived":
        for unit in ("haproxy", "keepalived"):
            if facts.unit(unit).get("active") != "active":
                yield f"{unit} does not run"


def _as_it_was_made(node: Node, desired: Desired, observed: Observed) -> Iterator[str]:
    """Yield what no step can change on a living cluster: preflight refuses it (decision 62)."""
    services = other_service_range(node, desired, observed)
    if services:
        yield (
            f"the service range of its API server is {services}, not "
            f"{desired.site.settings.network.service_cidr}"
        )
    pods = other_pod_range(node, desired, observed)
    if pods:
        yield (
            f"the pod range of its controller manager is {pods}, not "
            f"{desired.site.settings.network.pod_cidr}"
        )
    if other_names(node, desired, observed):
        name = desired.site.settings.control_plane_endpoint.name
        yield f"the certificate of its API server does not name {name}"
