"""The step ``node_roles``: the roles that the inventory's groups mean, and when they hold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from appliance.model.cluster import Cluster
from appliance.model.node_roles import GROUP_ROLES, TO_MOVE, Role, plan_inventory
from appliance.model.surroundings import CLUSTER_RELEASE

if TYPE_CHECKING:
    from appliance.model.desired import Desired
    from appliance.model.plan import Refusal
    from appliance.model.postconditions import Observed
    from appliance.model.site import Node, Site


def inventory_roles(site: Site) -> dict[str, frozenset[Role]]:
    """Member -> the roles that the inventory's groups give it."""
    system = {node.name for node in site.system_nodes}
    found: dict[str, frozenset[Role]] = {}
    for node in site.cluster_members:
        roles = {role for group, role in GROUP_ROLES.items() if group in node.groups}
        if node.name in system:
            roles.add("system")
        found[node.name] = frozenset(roles)
    return found


def unmet(node: Node, desired: Desired, observed: Observed) -> Iterator[str]:
    """The node's labels are those of its groups, and the RunaiConfig says what they mean."""
    cluster = observed.cluster
    if not isinstance(cluster, Cluster) or cluster.roles is None:
        yield "there is no cluster yet"
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
                else f"has the label {change.key}, and is in no such group"
            )
    if _comes_anew(desired, cluster) and node.name == desired.site.control_plane[0].name:
        yield "Run:ai's part of the cluster is to come, without what the roles mean"
    if plan.patch and node.name == desired.site.control_plane[0].name:
        wanted = plan.patch["spec"]["global"]["nodeAffinity"]
        for key, value in wanted.items():
            yield f"the RunaiConfig's {key} is not {str(value).lower()}"


def _comes_anew(desired: Desired, cluster: Cluster) -> bool:
    """Whether step ``runai`` is about to make a RunaiConfig that knows nothing of the roles."""
    runai = desired.site.settings.runai
    wanted = runai is not None and runai.vendor_bundle is not None
    return wanted and cluster.release("runai", CLUSTER_RELEASE) is None


def forbids(desired: Desired, observed: Observed) -> Iterator[Refusal]:
    """Stateful services that the inventory's roles would move."""
    cluster = observed.cluster
    if isinstance(cluster, Cluster) and cluster.roles is not None:
        for refusal in plan_inventory(cluster.roles, inventory_roles(desired.site)).refusals:
            # An install has no word for "all the same"; the command for roles has.
            role = f"appliance node role remove {refusal.node} --role system --allow-move"
            yield replace(refusal, hint=f"{TO_MOVE}; to go on without: {role}, then this again")
