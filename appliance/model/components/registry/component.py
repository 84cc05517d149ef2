"""The component registry."""

from __future__ import annotations

from appliance.model.components.base.component import Component, Step, all_but_jumpboxes
from appliance.model.components.registry import checks, unmet, variables

REGISTRY = Component(
    "registry",
    steps=(
        Step(
            "registry",
            "the registry has every image; every member has its Kubernetes programs",
            all_but_jumpboxes,
            unmet.registry,
        ),
    ),
    checks=checks.CHECKS,
    variables=variables.variables,
    node_variables=variables.node_variables,
    groups=variables.groups,
    probe_arguments=variables.probe_arguments,
)
COMPONENTS = (REGISTRY,)
