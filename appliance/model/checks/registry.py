"""Every check, by stage, and the findings before the first change.

To add a check: write it in the module of its subject (of a component: in the component's folder),
and name it in the list of its stage. What must not be here: what a check asks, and running one
(:mod:`appliance.model.checks.engine`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from appliance.model.checks.engine import Check, Stage
from appliance.model.checks.health import stages as health
from appliance.model.checks.health.inputs import HealthInputs
from appliance.model.checks.preflight import OF_INVENTORY, OF_NODES, preflight
from appliance.model.checks.site import rules as site
from appliance.model.state.facts.hardware_models import HardwareModel, RoleMinimum
from appliance.model.state.findings import Finding

CHECKS: Final[tuple[Check[Any, Any], ...]] = (
    *site.CHECKS,
    *OF_INVENTORY,
    *OF_NODES,
    *health.CHECKS,
)


def of(stage: Stage) -> tuple[Check[Any, Any], ...]:
    """The checks of a stage, in their order."""
    return tuple(check for check in CHECKS if stage in check.stages)


def before_install(
    inputs: HealthInputs,
    models: Mapping[str, HardwareModel] | None = None,
    minima: Mapping[str, RoleMinimum] | None = None,
) -> tuple[Finding, ...]:
    """What is reported before the first change: of preflight, then of what Run:ai needs."""
    observed = inputs.observed
    found = preflight(inputs.desired, observed.node_facts, observed, models=models, minima=minima)
    return (*found, *health.before_change(inputs, found))
