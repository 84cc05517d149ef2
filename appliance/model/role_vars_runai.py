"""Variables of the roles that step ``runai`` imports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from appliance.model.postconditions_runai import vendor_bundle

if TYPE_CHECKING:
    from appliance.model.desired import Desired
    from appliance.model.postconditions import Observed


def runai_vars(desired: Desired, observed: Observed) -> dict[str, Any]:
    """The bundle as it was read here, or as it is known to be on the node."""
    if desired.site.settings.runai is None:
        return {}
    found = vendor_bundle(desired, observed)
    if found is None:
        return {}
    pushes = [
        {"tag": image.tag, "names": list(image.names), "config": image.config}
        for image in found.contents.images
    ]
    return {
        "runai_bundle_file": desired.vendor_bundle_file if desired.vendor_bundle else "",
        "runai_bundle_record": {**found.record(), "pushes": pushes},
        "runai_bundle_registry": desired.site.settings.registry,
    }
