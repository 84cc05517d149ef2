"""The component storage."""

from __future__ import annotations

from appliance.model.components.base.component import Component, Step
from appliance.model.components.storage import checks, unmet, variables
from appliance.model.site.shared_storage import users_of

STORAGE = Component(
    "storage",
    steps=(
        Step(
            "storage",
            "every member can use the shared storage; a claim gets a volume on it",
            users_of,
            unmet.storage,
            patience_seconds=60,
            needs_leader=True,
            remarks=checks.measured,
        ),
    ),
    checks=checks.CHECKS,
    variables=variables.variables,
    groups=variables.groups,
    probe_arguments=variables.probe_arguments,
)
COMPONENTS = (STORAGE,)
