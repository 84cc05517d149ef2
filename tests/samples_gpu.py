"""The sample site with GPUs: what a manifest, facts and a cluster then hold besides."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from appliance.model.bundle.manifest import BundledArtifact, BundleManifest, SourceUsed
from appliance.model.bundle.release.release import kernel_packages
from appliance.model.components.gpu.operator import (
    DRIVER_IMAGES,
    IMAGES,
    OPERANDS_LABEL,
    gpu_nodes,
    operator_values,
)
from appliance.model.site.settings import Node
from appliance.model.state.certificates import values_digest
from appliance.model.state.cluster.cluster import Cluster, GpuStack, HelmRelease
from appliance.model.state.cluster.pods import Pod
from appliance.model.state.desired import Desired

GPUS = 2
KERNEL = "5.4.0-109-generic"
DRIVER, DRIVER_DEB = "535.183.06", "535.183.06-1"
FABRIC = "cuda-drivers-fabricmanager-535"
CHART_SHA256 = "c4" * 32
OPERANDS = ("nvidia-operator-validator", "nvidia-device-plugin-daemonset", "gpu-operator")


def manifest_with_gpus(manifest: BundleManifest) -> BundleManifest:
    """With the operator's chart and images, the driver, and the kernel of the samples."""
    source = SourceUsed("file", "x", "sha256")
    images = {
        f"{name}:{'525.60.13-ubuntu20.04' if name == 'driver' else 'v1'}": f"sha256:{index:064x}"
        for index, name in enumerate((*IMAGES, *DRIVER_IMAGES))
    }
    artifacts = tuple(
        BundledArtifact(name, "22.9.2", kind, path, digest, 1, source)
        for name, kind, path, digest in (
            ("gpu-operator", "chart", "charts/gpu-operator.tgz", CHART_SHA256),
            ("helm", "binary", "bin/helm", "de" * 32),
        )
    )
    return replace(
        manifest,
        images={**manifest.images, **images},
        artifacts=(*manifest.artifacts, *artifacts),
        packages={
            **manifest.packages,
            **dict.fromkeys(kernel_packages([KERNEL]), "5.4.0-109.123"),
            **dict.fromkeys(("cuda-drivers-535", FABRIC, "nvidia-fabricmanager-535"), DRIVER_DEB),
            "nvidia-container-toolkit": "1.17.8-1",
        },
        package_roots={
            **manifest.package_roots,
            "kernel": kernel_packages([KERNEL]),
            "driver": ("cuda-drivers-535",),
            "fabric_manager": (FABRIC,),
            "container_toolkit": ("nvidia-container-toolkit",),
        },
    )


def see_gpus(document: dict[str, Any], node: Node) -> None:
    """A worker's facts when step gpu ran."""
    if "gpu_workers" in node.groups:
        document["gpus"] = [{"vendor_id": "0x10de", "address": str(i)} for i in range(GPUS)]
        document["modules"]["blacklisted"] = ["nouveau"]
        document["os"]["kernel"] = KERNEL
        document["modules"]["nvidia_version"] = DRIVER
        document["modules"]["nvidia_kernels"] = [KERNEL]
        document["runtime"]["docker"]["default_runtime"] = "nvidia"
        document["packages"]["installed"] |= {"cuda-drivers-535": DRIVER_DEB}
        document["packages"]["holds"] = ["cuda-drivers-535"]


def cluster_with_gpus(cluster: Cluster, desired: Desired) -> Cluster:
    """The same cluster with a GPU Operator that is well."""
    serving = gpu_nodes(desired.site)
    nodes = dict(cluster.nodes)
    for node in desired.site.workers:
        if node in serving:
            nodes[node.name] = replace(
                nodes[node.name],
                devices={"nvidia.com/gpu": GPUS},
                gpus_tested="2026-01-01T00:00:00+00:00",
            )
        else:
            nodes[node.name] = replace(nodes[node.name], labels={OPERANDS_LABEL: "false"})
    pods = tuple(
        Pod("gpu-operator", f"{app}-{node.name}", node.name, ready=True, app=app)
        for node in serving
        for app in OPERANDS
    )
    values = values_digest(operator_values(desired, desired.manifest)) if desired.manifest else None
    release = HelmRelease("gpu-operator", "gpu-operator", "deployed", 1, CHART_SHA256, values)
    return replace(
        cluster,
        nodes=nodes,
        releases=(release,),
        gpu_stack=GpuStack("ready", "22.9.2", pods),
    )
