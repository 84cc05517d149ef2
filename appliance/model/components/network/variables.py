"""The variables of role ``flannel``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from appliance.model.site.vault_ref import Vars

if TYPE_CHECKING:
    from appliance.model.components.base.component import PlannedRun


def variables(run: PlannedRun) -> Vars:
    """The image by digest, and the range of pods' addresses."""
    site, images = run.desired.site, run.manifest.images
    image = next((name for name in images if name.startswith("flannel:")), "")
    return {
        "flannel_registry": site.image_prefix,
        "flannel_image": image,
        "flannel_image_digest": images.get(image, ""),
        "flannel_pod_cidr": str(site.settings.network.pod_cidr),
        "flannel_interface": site.settings.network.interface or "",
    }
