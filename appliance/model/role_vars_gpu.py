"""The variables of the roles that bring the GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from appliance.model.gpu import (
    AUTHORITY_CONFIG,
    OPERANDS_LABEL,
    REPOSITORY_CONFIG,
    chart_of,
    fabric_manager,
    gpu_nodes,
    operator_values,
)
from appliance.model.groups import GPU_WORKERS
from appliance.model.vault_ref import CA_CERTIFICATE

if TYPE_CHECKING:
    from appliance.model.bundle import BundleManifest
    from appliance.model.desired import Desired
    from appliance.model.photograph import Photograph
    from appliance.model.site import Node

Vars = dict[str, Any]


def gpu_variables(desired: Desired, manifest: BundleManifest) -> Vars:
    """For every host; nothing when the site or the bundle has no GPU Operator."""
    wanted, chart = desired.site.settings.gpu, chart_of(manifest)
    if wanted is None or chart is None:
        return {}
    site = desired.site
    serving = gpu_nodes(site)
    workers = site.in_group(GPU_WORKERS)
    address = f"https://{site.services_node.ip}:{site.artifacts_port}"
    return {
        "gpu_operator_artifacts_url": f"https://{site.settings.artifacts}",
        "gpu_operator_helm_sha256": manifest.binary_sha256("helm"),
        "gpu_operator_chart_sha256": chart.sha256,
        "gpu_operator_values": operator_values(desired, manifest),
        "gpu_operator_node_labels": [
            {"name": n.name, "labels": {OPERANDS_LABEL: None if n in serving else "false"}}
            for n in workers
        ],
        "gpu_operator_driver_in_container": wanted.driver == "container",
        # By address: the driver's container asks the cluster's DNS, which knows no name of ours.
        "gpu_operator_packages_url": f"{address}/apt",
        "gpu_operator_packages_config": REPOSITORY_CONFIG,
        "gpu_operator_authority_config": AUTHORITY_CONFIG,
        "gpu_operator_ca_certificate": CA_CERTIFICATE,
    }


def gpu_host_variables(desired: Desired, node: Node, photo: Photograph | None) -> Vars:
    """For one worker; preflight saw to it that a machine that needs a fabric manager has one."""
    wanted = desired.site.settings.gpu
    if wanted is None or GPU_WORKERS not in node.groups:
        return {}
    has_one = photo is not None and bool(fabric_manager(photo))
    return {"gpu_node_fabric_manager_enabled": wanted.driver == "host" and has_one}
