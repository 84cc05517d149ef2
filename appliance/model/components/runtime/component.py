"""The component runtime."""

from __future__ import annotations

from appliance.model.components.base.component import Component, Step, cluster_members
from appliance.model.components.runtime import unmet, variables

RUNTIME = Component(
    "runtime",
    steps=(
        Step(
            "runtime",
            "the container runtime, with the systemd cgroup driver",
            cluster_members,
            unmet.runtime,
            disturbs="Docker restarts when its configuration changes: containers on the node stop",
        ),
    ),
    variables=variables.variables,
)
COMPONENTS = (RUNTIME,)
