"""The component registry."""

from __future__ import annotations

from appliance.model.components.base import Component, Step, all_but_jumpboxes
from appliance.model.components.registry import unmet, variables

REGISTRY = Component(
    "registry",
    steps=(
        Step(
            "registry",
            "the registry holds every image, and every member what it runs",
            all_but_jumpboxes,
            unmet.registry,
        ),
    ),
    variables=variables.variables,
    node_variables=variables.node_variables,
)
COMPONENTS = (REGISTRY,)
