"""The run's inventory for the play of a patch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from appliance.errors import BundleRefused
from appliance.model.plan.inventory import run_inventory
from appliance.model.plan.planner import choose

if TYPE_CHECKING:
    from appliance.model.patch.node import NodePatch
    from appliance.model.state.desired import Desired
    from appliance.model.state.observed import Observed

GROUP: Final = "appliance_patch"
DRIVER_GROUP: Final = "appliance_patch_driver"
_HEADERS: Final = "linux-headers-"


def patch_inventory(
    desired: Desired,
    observed: Observed,
    patches: Mapping[str, NodePatch],
    boots: Mapping[str, str],
    *,
    bundle_directory: str | None,
) -> dict[str, Any]:
    """What an install's plays are given, and what each node gets of the patch.

    Args:
        desired: with the manifest of the bundle.
        observed: what was seen of nodes and cluster.
        patches: node -> what changes on it, of the nodes of one step.
        boots: node -> the boot that must end, where the plan has one.
        bundle_directory: the bundle on the control host, or None.

    Raises:
        BundleRefused: there is no manifest, or it has no updates.
    """
    manifest = desired.manifest
    if manifest is None or manifest.updates is None:
        raise BundleRefused(
            "the bundle has no updates", hint="appliance bundle build --updates-since DATE"
        )
    choice, _ = choose(desired, observed)
    found = run_inventory(desired, observed, choice, bundle_directory=bundle_directory)
    everything = found["all"]
    for name, patch in patches.items():
        host = everything["hosts"][name]
        host["node_patch_url"] = f"https://{desired.site.settings.artifacts}"
        host["node_patch_index_digest"] = manifest.update_index_sha256
        host["node_patch_packages"] = patch.packages
        host["node_patch_boot_from"] = boots.get(name, "")
        if patch.driver_kernel:
            kernels = [*host.get("gpu_driver_kernels", []), patch.driver_kernel]
            host["gpu_driver_kernels"] = list(dict.fromkeys(kernels))
            # What the driver is compiled with; the driver itself changes with the release.
            known = {**patch.driver_packages, **host.get("gpu_driver_packages", {})}
            host["gpu_driver_packages"] = {
                package: version
                for package, version in known.items()
                if package.startswith(_HEADERS)
            }
    drivers = [name for name, patch in patches.items() if patch.driver_kernel]
    everything["children"][GROUP] = {"hosts": dict.fromkeys(patches)}
    everything["children"][DRIVER_GROUP] = {"hosts": dict.fromkeys(drivers)}
    return found
