"""Workers that an install continues without: they do not answer and have not joined yet.

One server without a cable must not stop the first install of a whole rack. Every other node that
does not answer stops it: the state of a member's pods is unknown, and nothing can be installed
without a control plane, the services host, a system node or the shared storage.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from appliance.model.site.groups import CPU_WORKERS, GPU_WORKERS
from appliance.model.site.settings import Site
from appliance.model.site.shared_storage import export_of
from appliance.model.state.cluster.cluster import Cluster, ClusterState, NoCluster

if TYPE_CHECKING:
    from appliance.model.plan.planner import Scope
    from appliance.model.state.observed import Fault


def spare_workers(site: Site) -> frozenset[str]:
    """Return the workers that run no part of the appliance itself."""
    export = export_of(site)
    return frozenset(
        node.name
        for node in site.workers
        if node.groups <= {GPU_WORKERS, CPU_WORKERS} and not (export and export.node == node)
    )


def not_joined(
    site: Site, cluster: ClusterState, faults: Sequence[Fault], scope: Scope
) -> tuple[Fault, ...]:
    """Return the faults of spare workers that are not members and were not named.

    A member that accepts the login but gives no complete answer is left out too: its answer may be
    forged, and it must not delay the others.
    """
    if not isinstance(cluster, Cluster | NoCluster):
        return ()
    members = cluster.nodes if isinstance(cluster, Cluster) else {}
    spare = spare_workers(site) - scope.nodes
    left = {fault.node for fault in faults if fault.logged_in or fault.node not in members}
    return tuple(fault for fault in faults if fault.node in spare & left)


def asked_for(site: Site, waiting: Sequence[Fault], scope: Scope) -> tuple[Fault, ...]:
    """Return the faults of workers that the command would have changed."""
    if scope.nodes:
        return ()
    concerned = {node.name for step in scope.steps() for node in step.nodes(site)}
    return tuple(fault for fault in waiting if fault.node in concerned)
