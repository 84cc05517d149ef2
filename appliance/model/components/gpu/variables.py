"""The variables of the roles that set up the GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from appliance.model.components.gpu.driver import (
    bundled_driver,
    fabric_manager,
    has_nvswitches,
    kernels_of,
    node_packages,
)
from appliance.model.components.gpu.operator import (
    AUTHORITY_CONFIG,
    REPOSITORY_CONFIG,
    chart_of,
    gpu_nodes,
    node_labels,
    operator_values,
)
from appliance.model.site.groups import GPU_WORKERS
from appliance.model.site.vault_ref import CA_CERTIFICATE, Vars
from appliance.model.state.cluster.cluster import Cluster

if TYPE_CHECKING:
    from appliance.model.components.base.component import PlannedRun
    from appliance.model.site.settings import Node
    from appliance.model.state.desired import Desired


def variables(run: PlannedRun) -> Vars:
    """For every host; nothing when the site or the bundle has no GPU Operator."""
    desired, manifest = run.desired, run.manifest
    wanted, chart = desired.site.settings.gpu, chart_of(manifest)
    if wanted is None or chart is None:
        return {}
    site = desired.site
    address = f"https://{site.services_node.ip}:{site.artifacts_port}"
    return {
        "gpu_operator_artifacts_url": f"https://{site.settings.artifacts}",
        "gpu_operator_helm_sha256": manifest.binary_sha256("helm"),
        "gpu_operator_chart_sha256": chart.sha256,
        "gpu_operator_values": operator_values(desired, manifest),
        "gpu_operator_node_labels": _labels_of_members(run),
        "gpu_operator_driver_in_container": wanted.driver == "container",
        # By address: the driver's container uses the cluster's DNS, which lacks the site's names.
        "gpu_operator_packages_url": f"{address}/apt",
        "gpu_operator_packages_config": REPOSITORY_CONFIG,
        "gpu_operator_authority_config": AUTHORITY_CONFIG,
        "gpu_operator_ca_certificate": CA_CERTIFICATE,
    }


def _labels_of_members(run: PlannedRun) -> list[dict[str, Any]]:
    """What is labelled now; a worker that is no member is labelled once it is one."""
    cluster, labels = run.observed.cluster, node_labels(run.desired.site)
    if not isinstance(cluster, Cluster):
        return labels
    return [one for one in labels if one["name"] in cluster.nodes]


def node_variables(run: PlannedRun, node: Node) -> Vars:
    """For one worker; preflight saw to it that a machine that needs a fabric manager has one."""
    wanted, facts = run.desired.site.settings.gpu, run.observed.node_facts.get(node.name)
    if wanted is None or GPU_WORKERS not in node.groups:
        return {}
    has_one = facts is not None and bool(fabric_manager(facts))
    own: Vars = {"gpu_node_fabric_manager_enabled": wanted.driver == "preinstalled" and has_one}
    driver = bundled_driver(run.manifest)
    if wanted.driver == "host" and driver and facts and node in gpu_nodes(run.desired.site):
        own |= {
            "gpu_driver_packages": node_packages(facts, run.manifest),
            "gpu_driver_version": driver.version,
            "gpu_driver_runtime": run.desired.release.runtime.name,
            "gpu_driver_kernels": list(kernels_of(facts)),
            "gpu_driver_fabric_manager_enabled": has_nvswitches(facts),
        }
    return own


def groups(desired: Desired) -> dict[str, Vars]:
    """The group of the workers that get the driver of the bundle."""
    site = desired.site
    wanted = site.settings.gpu
    nodes = gpu_nodes(site) if wanted and wanted.driver == "host" else ()
    return {"appliance_gpu_driver": {"hosts": {node.name: None for node in nodes}}}
