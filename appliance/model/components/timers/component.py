"""The component timers."""

from __future__ import annotations

from appliance.model.components.base.component import Component, Step, control_plane_nodes
from appliance.model.components.timers import unmet, variables, wanted

TIMERS = Component(
    "timers",
    steps=(
        Step(
            "timers",
            "the timers that the site asks for run on the control plane, and no others of ours",
            control_plane_nodes,
            unmet.timers,
            needs=("control_plane",),
            asked=wanted.is_asked,
        ),
    ),
    variables=variables.variables,
    node_variables=variables.node_variables,
)
COMPONENTS = (TIMERS,)
