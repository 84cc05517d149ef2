"""The run's inventory for the plays of an upgrade of the GPU stack."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from appliance.model.components.gpu.operator import DRIVER_IMAGES, IMAGES
from appliance.model.plan.inventory import run_inventory
from appliance.model.plan.planner import choose
from appliance.model.upgrade.gpu.observed import replaced_packages

if TYPE_CHECKING:
    from appliance.model.bundle.manifest import BundleManifest
    from appliance.model.state.desired import Desired
    from appliance.model.state.observed import Observed
    from appliance.model.upgrade.gpu.plan import GpuStep
    from appliance.model.upgrade.gpu.target import Target

OPERATOR_GROUP: Final = "appliance_gpu_upgrade_operator"
DRIVER_GROUP: Final = "appliance_gpu_upgrade_driver"
OPERANDS_GROUP: Final = "appliance_gpu_upgrade_operands"


def gpu_inventory(
    desired: Desired, observed: Observed, step: GpuStep, target: Target
) -> dict[str, Any]:
    """What an install's plays are given, and which node gets what of one step.

    Args:
        desired: with the bundle's manifest, and the operator's values of this step.
        observed: what was seen of nodes and cluster.
        step: the step.
        target: the GPU stack of the bundle.

    Raises:
        BundleRefused: there is no manifest.
    """
    choice, _ = choose(desired, observed)
    found = run_inventory(desired, observed, choice, bundle_directory=None)
    everything, manifest = found["all"], desired.manifest
    groups: dict[str, tuple[str, ...]] = dict.fromkeys(
        (OPERATOR_GROUP, DRIVER_GROUP, OPERANDS_GROUP), ()
    )
    if step.kind in ("operator", "settle"):
        groups[OPERATOR_GROUP] = step.nodes
    else:
        (name,) = step.nodes
        if target.mode == "host":
            groups[DRIVER_GROUP] = step.nodes
            facts = observed.node_facts.get(name)
            replaces = replaced_packages(facts, manifest) if facts and manifest else ()
            everything["hosts"][name]["gpu_driver_replaces"] = list(replaces)
        if target.waits:
            groups[OPERANDS_GROUP] = (choice.leader,)
            everything["vars"]["gpu_operator_renewed_node"] = name
            everything["vars"]["gpu_operator_images"] = _operands(manifest)
    for group, hosts in groups.items():
        everything["children"][group] = {"hosts": dict.fromkeys(hosts)}
    return found


def _operands(manifest: BundleManifest | None) -> dict[str, str]:
    """Name of an operand's image -> its digest."""
    images = manifest.images.items() if manifest else ()
    found = {name.partition(":")[0]: digest for name, digest in images}
    return {name: found[name] for name in (*IMAGES, *DRIVER_IMAGES) if name in found}


def limit_of(
    desired: Desired, observed: Observed, step: GpuStep, target: Target
) -> tuple[str, ...]:
    """The hosts of the play: operands are made anew from the leading control-plane node."""
    if step.kind != "node":
        return step.nodes
    choice, _ = choose(desired, observed)
    leader = (choice.leader,) if target.waits else ()
    return (*(step.nodes if target.mode == "host" else ()), *leader)
