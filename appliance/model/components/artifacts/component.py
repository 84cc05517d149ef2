"""The component artifacts: the bundle on site."""

from __future__ import annotations

from appliance.model.components.artifacts import unmet, variables
from appliance.model.components.base.component import Component, Step, all_but_jumpboxes

ARTIFACTS = Component(
    "artifacts",
    steps=(
        Step(
            "artifacts",
            "the services node stores and serves the bundle; time is synchronised",
            all_but_jumpboxes,
            unmet.artifacts,
            gives_bundle=True,
        ),
    ),
    variables=variables.variables,
    node_variables=variables.node_variables,
)
COMPONENTS = (ARTIFACTS,)
