"""Workers that an install goes on without: they do not answer, and have not joined yet.

One server that is not cabled yet must not stop the first install of a whole rack. Everything else
that does not answer does: nobody knows what a member's pods do meanwhile, and nothing can be
installed without a control plane, the services host, a system node or the shared storage.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from appliance.model.cluster import Cluster, NoCluster
from appliance.model.groups import CPU_WORKERS, GPU_WORKERS
from appliance.model.shared_storage import export_of

if TYPE_CHECKING:
    from appliance.model.cluster import ClusterState
    from appliance.model.observation import Fault
    from appliance.model.planner import Scope
    from appliance.model.site import Site


def spare_workers(site: Site) -> frozenset[str]:
    """The workers on which nothing of the appliance itself rests."""
    export = export_of(site)
    return frozenset(
        node.name
        for node in site.workers
        if node.groups <= {GPU_WORKERS, CPU_WORKERS} and not (export and export.node == node)
    )


def not_joined(
    site: Site, cluster: ClusterState, faults: Sequence[Fault], scope: Scope
) -> tuple[Fault, ...]:
    """Why each spare worker could not be seen that the cluster does not know, and nobody named.

    One that lets us in and gives no whole answer is left out although it is a member: it may be
    in somebody else's hand, and must not hold the others up.
    """
    if not isinstance(cluster, Cluster | NoCluster):
        return ()
    members = cluster.nodes if isinstance(cluster, Cluster) else {}
    spare = spare_workers(site) - scope.nodes
    left = {fault.node for fault in faults if fault.logged_in or fault.node not in members}
    return tuple(fault for fault in faults if fault.node in spare & left)


def asked_for(site: Site, waiting: Sequence[Fault], scope: Scope) -> tuple[Fault, ...]:
    """Those of them that the command was to bring something to."""
    if scope.nodes:
        return ()
    concerned = {node.name for step in scope.steps() for node in step.nodes(site)}
    return tuple(fault for fault in waiting if fault.node in concerned)
