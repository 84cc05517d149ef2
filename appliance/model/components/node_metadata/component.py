"""The components node metadata and node roles."""

from __future__ import annotations

from appliance.model.components.base.component import Component, Step, cluster_members
from appliance.model.components.node_metadata import inventory_roles, restored
from appliance.model.site.settings import Node, Site


def with_roles(site: Site) -> tuple[Node, ...]:
    """Every member, where the site asks for Run:ai."""
    return site.cluster_members if site.settings.runai else ()


RETURNED = Component(
    "node_metadata",
    steps=(
        Step(
            "node_metadata",
            "rejoined nodes have their earlier labels, taints and annotations",
            cluster_members,
            restored.unmet,
            writes="node metadata",
        ),
    ),
)
NODE_ROLES = Component(
    "node_roles",
    steps=(
        Step(
            "node_roles",
            "nodes have the Run:ai roles of their inventory groups",
            with_roles,
            inventory_roles.unmet,
            forbids=inventory_roles.forbids,
            writes="roles",
        ),
    ),
)
COMPONENTS = (RETURNED, NODE_ROLES)
