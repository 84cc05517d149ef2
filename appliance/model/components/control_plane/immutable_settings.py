"""Settings that a living cluster cannot change: its ranges and the name of its API.

Each function returns the cluster's value where it differs from the site's. It returns nothing for
a value that could not be read, for a bare node, or while the API does not answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Network
from typing import TYPE_CHECKING, Final

from appliance.model.site.settings import Node
from appliance.model.state.cluster.cluster import Cluster
from appliance.model.state.nodes.kubeadm_state import host_and_port

if TYPE_CHECKING:
    from appliance.model.state.desired import Desired
    from appliance.model.state.facts.facts import NodeFacts
    from appliance.model.state.observed import Observed

APISERVER_CERTIFICATE: Final = "/etc/kubernetes/pki/apiserver.crt"
API_PORT: Final = 6443
KUBELET_KUBECONFIG: Final = "/etc/kubernetes/kubelet.conf"


def other_service_range(node: Node, desired: Desired, observed: Observed) -> str | None:
    """Return the service range of the node's API server, if it differs from the site's."""
    cluster = observed.cluster
    ranges = cluster.api_flags.service_ranges if isinstance(cluster, Cluster) else {}
    return _other(ranges, node, desired.site.settings.network.service_cidr)


def other_pod_range(node: Node, desired: Desired, observed: Observed) -> str | None:
    """Return the pod range of the node's controller manager, if it differs from the site's."""
    cluster = observed.cluster
    ranges = cluster.api_flags.pod_ranges if isinstance(cluster, Cluster) else {}
    return _other(ranges, node, desired.site.settings.network.pod_cidr)


def _other(ranges: Mapping[str, str], node: Node, wanted: IPv4Network) -> str | None:
    found = ranges.get(node.name)
    return found if found and str(wanted) not in found.split(",") else None


def certificate_names(facts: NodeFacts) -> tuple[str, ...]:
    """Return the names and addresses in the API server's certificate; none if not read."""
    for entry in facts.items("kubernetes.pki"):
        if entry.get("path") == APISERVER_CERTIFICATE:
            return tuple(str(name) for name in entry.get("sans") or ())
    return ()


def other_names(node: Node, desired: Desired, observed: Observed) -> tuple[str, ...]:
    """Return the names in a living member's API certificate, if they lack the site's endpoint."""
    cluster, facts = observed.cluster, observed.node_facts.get(node.name)
    member = cluster.nodes.get(node.name) if isinstance(cluster, Cluster) else None
    if facts is None or member is None or not member.control_plane:
        return ()
    names = certificate_names(facts)
    wanted = desired.site.settings.control_plane_endpoint.name.lower()
    return names if wanted not in {name.lower() for name in names} else ()


def other_endpoint(node: Node, desired: Desired, observed: Observed) -> str | None:
    """Return the host (and port) by which a member's kubelet reaches the API, if not the site's.

    Port 6443 is the API server's own and answers whatever the balancer's port is.
    """
    cluster, facts = observed.cluster, observed.node_facts.get(node.name)
    if facts is None or not isinstance(cluster, Cluster) or node.name not in cluster.nodes:
        return None
    endpoint = desired.site.settings.control_plane_endpoint
    known = {endpoint.name.lower(), str(endpoint.virtual_address)}
    known |= {member.ip for member in desired.site.control_plane}
    for config in facts.items("kubernetes.kubeconfigs"):
        if config.get("path") != KUBELET_KUBECONFIG:
            continue
        host, port = host_and_port(str(config.get("server") or ""))
        if host and host not in known:
            return host
        if host and port not in (None, API_PORT, endpoint.port):
            return f"{host}:{port}"
    return None


def other_virtual_address(node: Node, desired: Desired, observed: Observed) -> str | None:
    """Return a member's address for the endpoint's name, if it differs from keepalived's.

    A control-plane node's own address does not count: such a cluster had no balancer yet.
    """
    cluster, facts = observed.cluster, observed.node_facts.get(node.name)
    endpoint = desired.site.settings.control_plane_endpoint
    if facts is None or not isinstance(cluster, Cluster) or node.name not in cluster.nodes:
        return None
    if endpoint.balancer != "keepalived":
        return None
    mine = {str(endpoint.virtual_address), *(one.ip for one in desired.site.control_plane)}
    hosts = facts.at("resolver.hosts") or {}
    known = [address for address, names in hosts.items() if endpoint.name in names]
    return next((address for address in known if address not in mine), None)
