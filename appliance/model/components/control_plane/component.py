"""The component control plane."""

from __future__ import annotations

from appliance.model.components.base.component import Component, Step, control_plane_nodes
from appliance.model.components.control_plane import checks, unmet, variables

CONTROL_PLANE = Component(
    "control_plane",
    steps=(
        Step(
            "control_plane",
            "the Kubernetes control plane runs",
            control_plane_nodes,
            unmet.control_plane,
            patience_seconds=180,
            disturbs="the API may be down for up to a minute",
            adds_control_plane=True,
        ),
    ),
    checks=checks.CHECKS,
    variables=variables.variables,
    node_variables=variables.node_variables,
)
COMPONENTS = (CONTROL_PLANE,)
