"""Control-plane nodes that a restore of etcd left out, and that may come back with old data.

The restored cluster does not know such a node as a member of etcd. With its old data it is no part
of it; two of three that come back would be a second cluster. The mark is on the Node object, which
goes when the node rejoins. What must not be here: the restore (:mod:`appliance.model.backup`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from appliance.model.site.settings import Site
from appliance.model.state.cluster.cluster import Cluster, ClusterState
from appliance.model.state.desired import Desired
from appliance.model.state.observed import Observed
from appliance.model.state.plan import Notice, Refusal

ANNOTATION: Final = "appliance.dev/restored-without"
CHECK: Final = "restore"


def marked(site: Site, cluster: ClusterState) -> tuple[str, ...]:
    """The control-plane nodes that a restore left out, and that have not rejoined since."""
    nodes = cluster.nodes if isinstance(cluster, Cluster) else {}
    names = [node.name for node in site.control_plane if node.name in nodes]
    return tuple(name for name in names if ANNOTATION in nodes[name].annotations)


def restored_without(
    desired: Desired, observed: Observed
) -> tuple[tuple[Notice, ...], tuple[Refusal, ...]]:
    """What a plan says of such nodes, and whether it refuses to do anything."""
    names = marked(desired.site, observed.cluster)
    notices = tuple(
        Notice(
            name,
            f"was left out by a restore of etcd: wipe it, then appliance node rejoin {name}",
        )
        for name in names
    )
    return notices, tuple(_back(names, observed))


def _back(names: tuple[str, ...], observed: Observed) -> Iterator[Refusal]:
    for name in names:
        facts = observed.node_facts.get(name)
        if facts is not None and facts.at("kubernetes.etcd_data.present"):
            yield Refusal(
                name,
                CHECK,
                "left out by a restore, and back with its old data of etcd",
                "a machine without data of etcd: it is no member of the restored cluster",
                f"appliance node remove {name}; then: appliance node rejoin {name}",
            )
