"""The variables of role ``docker_engine``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from appliance.model.site.vault_ref import Vars

if TYPE_CHECKING:
    from appliance.model.components.base.component import PlannedRun


def variables(run: PlannedRun) -> Vars:
    """The packages, those of the next step with them: every run of apt costs seconds."""
    return {"docker_engine_packages": run.manifest.packages_of("runtime", "kubernetes")}
