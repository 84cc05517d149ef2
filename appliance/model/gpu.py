"""NVIDIA's GPU Operator as this product knows it: names, versions, images, values of its chart.

Pure. The keys are those of the chart of GPU Operator 22.9.2.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from appliance.model.groups import GPU_WORKERS

if TYPE_CHECKING:
    from appliance.model.bundle import BundledArtifact, BundleManifest
    from appliance.model.cluster import ClusterState, GpuOperator
    from appliance.model.desired import Desired
    from appliance.model.photograph import Photograph
    from appliance.model.site import Node, Site

NAMESPACE: Final = "gpu-operator"
RELEASE: Final = "gpu-operator"
CHART: Final = "gpu-operator"
RESOURCE: Final = "nvidia.com/gpu"
OPERANDS_LABEL: Final = "nvidia.com/gpu.deploy.operands"
VALIDATOR: Final = "nvidia-operator-validator"
NVIDIA: Final = "0x10de"
REPOSITORY_CONFIG: Final = "appliance-driver-packages"
AUTHORITY_CONFIG: Final = "appliance-driver-authority"
# Versions whose GPU feature discovery Run:ai does not take, by their beginning.
REFUSED_VERSIONS: Final = ("1.10", "1.11")
REFUSED_BECAUSE: Final = (
    "its GPU feature discovery publishes nvidia.com/gpu.memory in bytes instead of MiB "
    "(NVIDIA/gpu-feature-discovery#26), so Run:ai takes 1.9, or 22.9 and later"
)
# Images of the operands; the driver's is only needed where the operator brings the driver.
IMAGES: Final = (
    "gpu-operator",
    "gpu-operator-validator",
    "cuda",
    "container-toolkit",
    "k8s-device-plugin",
    "dcgm-exporter",
    "gpu-feature-discovery",
    "k8s-mig-manager",
    "node-feature-discovery",
)
DRIVER_IMAGES: Final = ("driver", "k8s-driver-manager")
_GPU_TAINT: Final = {"key": RESOURCE, "operator": "Exists", "effect": "NoSchedule"}
# Run:ai's drain taint; without this a drained node loses driver, device plugin and exporter.
_DRAIN_TAINT: Final = {"key": "runai", "operator": "Exists", "effect": "NoExecute"}
_MASTER_TAINT: Final = {
    "key": "node-role.kubernetes.io/master",
    "operator": "Equal",
    "value": "",
    "effect": "NoSchedule",
}


def is_refused(version: str) -> bool:
    """Whether Run:ai does not take this version of the operator."""
    return ".".join(version.removeprefix("v").split(".")[:2]) in REFUSED_VERSIONS


def refused_operators(cluster: ClusterState) -> tuple[GpuOperator, ...]:
    """The operators of the cluster that Run:ai does not take, in any namespace."""
    operators = getattr(cluster, "gpu_operators", ())
    return tuple(one for one in operators if one.version and is_refused(one.version))


def refusal_of(operator: GpuOperator) -> tuple[str, str, str]:
    """What is seen of an operator that Run:ai does not take, what is expected, the next command."""
    name = operator.release or RELEASE
    return (
        f"GPU Operator {operator.version} in namespace {operator.namespace}",
        f"none, or one that Run:ai takes: {REFUSED_BECAUSE}",
        f"take it out: helm uninstall {shlex.quote(name)} --namespace "
        f"{shlex.quote(operator.namespace)} --wait, and "
        "kubectl delete crd clusterpolicies.nvidia.com; then the same command again",
    )


def gpu_nodes(site: Site) -> tuple[Node, ...]:
    """The workers whose GPUs the operator is to bring, none without a section ``gpu:``."""
    wanted = site.settings.gpu
    if wanted is None:
        return ()
    return tuple(n for n in site.in_group(GPU_WORKERS) if n.name not in wanted.opted_out)


def gpus_on_pci(photo: Photograph) -> int:
    """How many of NVIDIA's GPUs the probe counted."""
    return sum(gpu.get("vendor_id") == NVIDIA for gpu in photo.items("gpus"))


def host_driver(photo: Photograph) -> str | None:
    """The version of NVIDIA's driver that runs on the node itself, or None."""
    version = photo.at("modules.nvidia_version")
    return str(version) if version else None


def fabric_manager(photo: Photograph) -> str | None:
    """The version of the fabric manager that is installed, as its maker counts, or None."""
    for name, version in (photo.at("packages.installed") or {}).items():
        if name.startswith("nvidia-fabricmanager"):
            return str(version).rpartition(":")[2].partition("-")[0]
    return None


def chart_of(manifest: BundleManifest) -> BundledArtifact | None:
    """The operator's chart in a bundle, or None."""
    found = (a for a in manifest.artifacts if (a.kind, a.name) == ("chart", CHART))
    return next(found, None)


def absent_images(manifest: BundleManifest, driver: str) -> tuple[str, ...]:
    """The operands' images that a bundle lacks."""
    wanted = IMAGES + (DRIVER_IMAGES if driver == "container" else ())
    there = {image.partition(":")[0] for image in manifest.images}
    return tuple(name for name in wanted if name not in there)


def values_digest(values: Mapping[str, Any]) -> str:
    """The sha256 of values, as ``playbooks/library/helm_release.py`` computes it."""
    # Once through JSON, as they go there: keys that are numbers are text then, and in its order.
    text = json.dumps(json.loads(json.dumps(values)), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def operator_values(desired: Desired, manifest: BundleManifest) -> dict[str, Any]:
    """The chart's values for this site; nothing is left that would be asked for outside."""
    given = desired.override("gpu_operator", "values")
    if isinstance(given, dict):
        return given
    wanted = desired.site.settings.gpu
    container = wanted is None or wanted.driver == "container"
    own = merged(
        _operands(desired.site.settings.registry, manifest),
        {
            "nfd": {"enabled": True},
            "daemonsets": {"tolerations": [_GPU_TAINT, _DRAIN_TAINT]},
            "operator": {"defaultRuntime": "docker"},
            "driver": {"enabled": container, "upgradePolicy": {"autoUpgrade": False}},
            "node-feature-discovery": {
                "worker": {"tolerations": [_MASTER_TAINT, _GPU_TAINT, _DRAIN_TAINT]}
            },
        },
    )
    if container:
        packages = {
            "repoConfig": {"configMapName": REPOSITORY_CONFIG},
            "certConfig": {"name": AUTHORITY_CONFIG},
        }
        own = merged(own, {"driver": packages})
    return merged(own, wanted.values if wanted else {})


def _operands(registry: str, manifest: BundleManifest) -> dict[str, Any]:
    """Where each operand's image is, by digest: a tag on a node may be an older bundle's."""
    digests = {name.partition(":")[0]: digest for name, digest in manifest.images.items()}
    tags = dict(name.split(":", 1) for name in manifest.images)

    def image(name: str) -> dict[str, Any]:
        # The operator writes repository/image@version for a version that is a digest.
        return {"repository": registry, "image": name, "version": digests.get(name, "")}

    def pinned(name: str) -> str:
        # Where the chart itself writes image:version, both are needed.
        return f"{tags.get(name, '')}@{digests.get(name, '')}"

    unused = {"enabled": False, "repository": registry}
    unmanaged = {**unused, "driverManager": {"repository": registry}}
    return {
        "operator": {
            **image("gpu-operator"),
            "version": pinned("gpu-operator"),
            "initContainer": image("cuda"),
        },
        "validator": image("gpu-operator-validator"),
        "driver": {**image("driver"), "manager": image("k8s-driver-manager")},
        "toolkit": {"enabled": True, **image("container-toolkit")},
        "devicePlugin": image("k8s-device-plugin"),
        "dcgm": unused,
        "dcgmExporter": image("dcgm-exporter"),
        "gfd": image("gpu-feature-discovery"),
        "migManager": image("k8s-mig-manager"),
        "nodeStatusExporter": unused,
        "gds": unused,
        "vgpuManager": unmanaged,
        "vgpuDeviceManager": unused,
        "vfioManager": unmanaged,
        "sandboxDevicePlugin": unused,
        "node-feature-discovery": {
            "image": {
                "repository": f"{registry}/node-feature-discovery",
                "tag": pinned("node-feature-discovery"),
            }
        },
    }


def merged(base: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Deep-merge; lists and plain values of ``more`` replace those of ``base``."""
    found = dict(base)
    for key, value in more.items():
        before = found.get(key)
        both = isinstance(before, Mapping) and isinstance(value, Mapping)
        found[key] = merged(before, value) if both else value  # type: ignore[arg-type]
    return found
