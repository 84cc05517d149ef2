"""The component timers."""

from __future__ import annotations

from appliance.model.components.base.component import Component, Step
from appliance.model.components.timers import unmet, variables, wanted

TIMERS = Component(
    "timers",
    steps=(
        Step(
            "timers",
            "the timers that the site asks for run on the control plane, and no others of ours",
            wanted.nodes,
            unmet.timers,
            needs=("control_plane",),
        ),
    ),
    variables=variables.variables,
    node_variables=variables.node_variables,
)
COMPONENTS = (TIMERS,)
