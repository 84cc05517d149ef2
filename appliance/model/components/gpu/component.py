"""The component GPU."""

from __future__ import annotations

from appliance.model.components.base.component import Component, Step
from appliance.model.components.gpu import checks, unmet, variables
from appliance.model.components.gpu.operator import gpu_nodes
from appliance.model.site.settings import Node, Site


def nodes(site: Site) -> tuple[Node, ...]:
    """The workers with GPUs, and the control plane, from which the operator is installed."""
    if site.settings.gpu is None:
        return ()
    return (*site.control_plane, *gpu_nodes(site))


GPU = Component(
    "gpu",
    steps=(
        Step(
            "gpu",
            "pods can request every GPU",
            nodes,
            unmet.gpu,
            # A driver in a container is compiled on the node.
            patience_seconds=900,
            together=True,
            needs_leader=True,
            untested=unmet.gpu_untested,
            tests="gpus",
            in_service=True,
            disturbs="Docker restarts on a worker whose driver is new: containers on it stop",
        ),
    ),
    checks=checks.CHECKS,
    site_checks=checks.SITE_CHECKS,
    variables=variables.variables,
    node_variables=variables.node_variables,
    groups=variables.groups,
)
COMPONENTS = (GPU,)
