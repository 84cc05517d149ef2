"""The component Run:ai."""

from __future__ import annotations

from appliance.model.components.base.component import Component, Step
from appliance.model.components.runai import (
    address,
    checks,
    unmet,
    variables,
)
from appliance.model.site.settings import Node, Site


def nodes(site: Site) -> tuple[Node, ...]:
    """Who answers for the backend's name, and the cluster: its vendor node, who has the address."""
    runai = site.settings.runai
    if runai is None or runai.vendor_bundle is None:
        return ()
    # The services host answers for the backend's name, whether or not it is in the cluster.
    serves = {site.services_node.name} if runai.own_dns else set()
    # Whoever does not carry the backend's address now may have carried it.
    named = {node.name for node in site.cluster_members} | serves
    return tuple(node for node in site.nodes if node.name in named)


RUNAI = Component(
    "runai",
    steps=(
        Step(
            "runai",
            "Run:ai's backend answers, and this cluster is connected to it",
            nodes,
            unmet.runai,
            patience_seconds=120,
        ),
    ),
    checks=checks.CHECKS,
    variables=variables.variables,
    node_variables=address.node_variables,
    groups=variables.groups,
)
COMPONENTS = (RUNAI,)
