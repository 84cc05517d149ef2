"""The variables of ``docker_engine`` or ``containerd``: of the role that the release needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from appliance.model.site.files.secrets import pull_secret
from appliance.model.site.vault_ref import Vars, VaultRef

if TYPE_CHECKING:
    from appliance.model.components.base.component import PlannedRun


def variables(run: PlannedRun) -> Vars:
    """The packages, those of the next step with them: every run of apt costs seconds."""
    packages = run.manifest.packages_of("runtime", "kubernetes")
    if run.desired.release.runtime.name == "docker":
        return {"docker_engine_packages": packages}
    site = run.desired.site
    external, pull = site.settings.external_registry, pull_secret(site)
    return {
        "containerd_packages": packages,
        "containerd_sandbox_image": (
            f"{site.image_prefix}/pause:{run.desired.release.versions.pause}"
        ),
        "containerd_registry": site.settings.registry,
        "containerd_registry_user": (external.puller if external else None) or "",
        "containerd_registry_password": VaultRef(pull) if pull else "",
    }
