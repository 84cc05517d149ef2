"""The step ``node_roles``: the roles set by the inventory's groups, and its post-condition."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from appliance.model.components.base.members import without_cluster
from appliance.model.components.node_metadata.node_roles import TO_MOVE, plan_inventory
from appliance.model.site.settings import Node
from appliance.model.state.cluster.cluster import Cluster
from appliance.model.state.cluster.prerequisites import CLUSTER_RELEASE
from appliance.model.state.nodes.roles import inventory_roles
from appliance.model.state.plan import Refusal

if TYPE_CHECKING:
    from appliance.model.state.desired import Desired
    from appliance.model.state.observed import Observed


def unmet(node: Node, desired: Desired, observed: Observed) -> Iterator[str]:
    """The node has the labels of its groups, and the RunaiConfig uses them."""
    cluster = observed.cluster
    if not isinstance(cluster, Cluster) or cluster.roles is None:
        yield without_cluster(observed)
        return
    if node.name not in cluster.roles.labels:
        yield "is not a member of the cluster"
        return
    plan = plan_inventory(cluster.roles, inventory_roles(desired.site), allow_move=True)
    for change in plan.changes:
        if change.node == node.name:
            yield (
                f"has no label {change.key}"
                if change.present
                else f"has label {change.key}, but is not in that group"
            )
    if _comes_anew(desired, cluster) and node.name == desired.site.control_plane[0].name:
        yield "the step runai will create a RunaiConfig without the node roles"
    if plan.patch and node.name == desired.site.control_plane[0].name:
        wanted = plan.patch["spec"]["global"]["nodeAffinity"]
        for key, value in wanted.items():
            yield f"the RunaiConfig's {key} is not {str(value).lower()}"


def _comes_anew(desired: Desired, cluster: Cluster) -> bool:
    """Whether step ``runai`` will create a RunaiConfig, which then lacks the roles."""
    runai = desired.site.settings.runai
    wanted = runai is not None and runai.vendor_bundle is not None
    return wanted and cluster.release("runai", CLUSTER_RELEASE) is None


def forbids(desired: Desired, observed: Observed) -> Iterator[Refusal]:
    """Stateful services that the inventory's roles would move."""
    cluster = observed.cluster
    if isinstance(cluster, Cluster) and cluster.roles is not None:
        for refusal in plan_inventory(cluster.roles, inventory_roles(desired.site)).refusals:
            # An install has no option to allow the move; the command for roles has one.
            role = f"appliance node role remove {refusal.node} --role system --allow-move"
            yield replace(
                refusal,
                hint=f"{TO_MOVE}; or remove the role: {role}, then run the same command again",
            )
