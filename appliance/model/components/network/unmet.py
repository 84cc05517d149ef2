"""The step network: pods have a network and DNS."""

from __future__ import annotations

from collections.abc import Iterator

from appliance.model.components.base.members import member_faults, without_cluster
from appliance.model.site.settings import Node
from appliance.model.state.cluster.cluster import Cluster
from appliance.model.state.desired import Desired
from appliance.model.state.nodes.maintenance import maintenance_of
from appliance.model.state.observed import Observed


def network(node: Node, desired: Desired, observed: Observed) -> Iterator[str]:
    """Flannel uses the site's pod range; the node and its system pods are Ready."""
    cluster = observed.cluster
    if not isinstance(cluster, Cluster):
        yield without_cluster(observed)
        return
    wanted = str(desired.site.settings.network.pod_cidr)
    if cluster.pod_network != wanted:
        yield f"flannel's pod range is {cluster.pod_network or 'absent'}, not {wanted}"
    yield from member_faults(node, desired, observed.node_facts[node.name], cluster)
    if node.name == desired.site.control_plane[0].name and not dns_waits_for(node.name, cluster):
        for pod in cluster.pods:
            where = cluster.nodes.get(pod.node or "")
            # A pod on an unreachable node says nothing about the network; that node's step does.
            if pod.app == "kube-dns" and not pod.ready and (where is None or where.ready):
                yield f"pod {pod.name} is not ready: {pod.why_unready}"


def dns_waits_for(name: str, cluster: Cluster) -> bool:
    """Whether CoreDNS has no place before a node is back that we took out of service.

    So it is with a cluster's only node: its DNS proves nothing before the cordon is gone.
    """
    member = cluster.nodes.get(name)
    if member is None or not member.unschedulable or maintenance_of(member.annotations) is None:
        return False
    pods = [pod for pod in cluster.pods if pod.app == "kube-dns" and not pod.ending]
    return bool(pods) and not any(pod.node for pod in pods)
