"""NVIDIA's GPU Operator as this product knows it: names, versions, images, values of its chart.

Pure. The keys are those of the chart of GPU Operator 22.9.2.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from appliance.model.bundle.release.gpu_operator_versions import REFUSED_BECAUSE, is_refused
from appliance.model.components.gpu.offers import cards_of
from appliance.model.site.groups import GPU_WORKERS
from appliance.model.state.cluster.gpu_labels import PLUGIN_CONFIG as CONFIG_LABEL
from appliance.model.state.cluster.gpu_labels import WHOLE

if TYPE_CHECKING:
    from appliance.model.bundle.manifest import BundledArtifact, BundleManifest
    from appliance.model.site.runai_settings import Gpu
    from appliance.model.site.settings import Node, Site
    from appliance.model.state.cluster.cluster import ClusterState, Discovery, GpuOperator
    from appliance.model.state.desired import Desired
    from appliance.model.state.facts.facts import NodeFacts

NAMESPACE: Final = "gpu-operator"
# Of Run:ai's cluster part, whose chart can bring its own feature discovery.
RUNAI: Final = "runai"
RELEASE: Final = "gpu-operator"
CHART: Final = "gpu-operator"
OPERANDS_LABEL: Final = "nvidia.com/gpu.deploy.operands"
VALIDATOR: Final = "nvidia-operator-validator"
REPOSITORY_CONFIG: Final = "appliance-driver-packages"
AUTHORITY_CONFIG: Final = "appliance-driver-authority"
# The device plugin's ConfigMap, and the configurations in it.
PLUGIN_CONFIG: Final = "appliance-device-plugin"
UNSHARED, SHARED = "unshared", "shared"
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
_GPU_TAINT: Final = {"key": WHOLE, "operator": "Exists", "effect": "NoSchedule"}
# Run:ai's drain taint; without this a drained node loses driver, device plugin and exporter.
_DRAIN_TAINT: Final = {"key": "runai", "operator": "Exists", "effect": "NoExecute"}
_MASTER_TAINT: Final = {
    "key": "node-role.kubernetes.io/master",
    "operator": "Equal",
    "value": "",
    "effect": "NoSchedule",
}


def refused_operators(cluster: ClusterState) -> tuple[GpuOperator, ...]:
    """Return the GPU Operators of the cluster that Run:ai refuses, in any namespace."""
    operators = getattr(cluster, "gpu_operators", ())
    return tuple(one for one in operators if one.version and is_refused(one.version))


def refusal_of(operator: GpuOperator) -> tuple[str, str, str]:
    """Return what was found of a refused operator, what is expected, and the next command."""
    name = operator.release or RELEASE
    return (
        f"GPU Operator {operator.version} in namespace {operator.namespace}",
        f"none, or a version that Run:ai accepts: {REFUSED_BECAUSE}",
        f"remove it: helm uninstall {shlex.quote(name)} --namespace "
        f"{shlex.quote(operator.namespace)} --wait, and "
        "kubectl delete crd clusterpolicies.nvidia.com; then run the same command again",
    )


def brings(wanted: Gpu, key: str) -> bool:
    """Whether the chart brings its ``nfd`` or ``gfd``: it does unless the site says otherwise."""
    part = wanted.values.get(key)
    return not (isinstance(part, Mapping) and part.get("enabled") is False)


def discovery_hint(other: Discovery) -> str:
    """What to do about an NFD or GFD that is not the operator's."""
    key = other.kind.lower()
    if other.release:
        space = shlex.quote(other.namespace)
        remove = f"helm uninstall {shlex.quote(other.release)} --namespace {space} --wait"
    else:
        remove = (
            f"kubectl --namespace {shlex.quote(other.namespace)} delete daemonset "
            f"{shlex.quote(other.name)}"
        )
    return (
        f"keep it, and switch the operator's off: gpu.values: {{{key}: {{enabled: false}}}} in "
        f"site.yml; or remove it: {remove}"
    )


def gpu_nodes(site: Site) -> tuple[Node, ...]:
    """Return the workers that the operator serves; none without a section ``gpu:``."""
    wanted = site.settings.gpu
    if wanted is None:
        return ()
    return tuple(n for n in site.in_group(GPU_WORKERS) if n.name not in wanted.opted_out)


def gpus_on_pci(facts: NodeFacts) -> int:
    """Return how many NVIDIA GPUs the probe counted."""
    return cards_of(facts).count


def chart_of(manifest: BundleManifest) -> BundledArtifact | None:
    """The operator's chart in a bundle, or None."""
    found = (a for a in manifest.artifacts if (a.kind, a.name) == ("chart", CHART))
    return next(found, None)


def absent_images(manifest: BundleManifest, driver: str) -> tuple[str, ...]:
    """Return the operands' images that a bundle lacks."""
    wanted = IMAGES + (DRIVER_IMAGES if driver == "container" else ())
    there = {image.partition(":")[0] for image in manifest.images}
    return tuple(name for name in wanted if name not in there)


def operator_values(desired: Desired, manifest: BundleManifest) -> dict[str, Any]:
    """Return the chart's values for this site; no image or package comes from outside."""
    given = desired.override("gpu_operator", "values")
    if isinstance(given, dict):
        return given
    wanted = desired.site.settings.gpu
    driver = wanted.driver if wanted else "container"
    own = merged(
        _operands(desired.site.image_prefix, manifest),
        {
            "nfd": {"enabled": True},
            "daemonsets": {"tolerations": [_GPU_TAINT, _DRAIN_TAINT]},
            "operator": {"defaultRuntime": desired.release.runtime.name},
            "driver": {
                "enabled": driver == "container",
                "upgradePolicy": {"autoUpgrade": False},
            },
            "toolkit": _toolkit(desired.release.runtime.name, driver),
            "node-feature-discovery": {
                "worker": {"tolerations": [_MASTER_TAINT, _GPU_TAINT, _DRAIN_TAINT]}
            },
        },
    )
    if driver == "container":
        packages = {
            "repoConfig": {"configMapName": REPOSITORY_CONFIG},
            "certConfig": {"name": AUTHORITY_CONFIG},
        }
        own = merged(own, {"driver": packages})
    if wanted is None:
        return own
    return merged(merged(own, sharing_values(wanted)), wanted.values)


def _toolkit(runtime: str, driver: str) -> dict[str, Any]:
    """The operator's toolkit, which restarts the runtime whenever it starts.

    The toolkit of the bundle's packages is on the nodes with a driver of the bundle. The names are
    those of the operator's documentation for containerd.
    """
    own = {"enabled": driver != "host"}
    if runtime == "docker" or driver == "host":
        return own
    environment = {
        "CONTAINERD_CONFIG": "/etc/containerd/config.toml",
        "CONTAINERD_SOCKET": "/run/containerd/containerd.sock",
        "CONTAINERD_RUNTIME_CLASS": "nvidia",
        # Jobs of Run:ai name no runtime class.
        "CONTAINERD_SET_AS_DEFAULT": "true",
    }
    return own | {"env": [{"name": key, "value": text} for key, text in environment.items()]}


def sharing_values(wanted: Gpu) -> dict[str, Any]:
    """MIG strategy and time slicing in the chart's form.

    Every node has a configuration by name: without one, the plugin's config manager falls back to
    an empty one. JSON is YAML, too.
    """
    found: dict[str, Any] = {}
    if wanted.mig_strategy is not None:
        found["mig"] = {"strategy": wanted.mig_strategy}
    slicing = wanted.time_slicing
    if slicing is not None:
        sharing = {
            "renameByDefault": slicing.rename_by_default,
            "failRequestsGreaterThanOne": slicing.fail_requests_greater_than_one,
            "resources": [{"name": WHOLE, "replicas": slicing.replicas}],
        }
        documents = {
            UNSHARED: {"version": "v1"},
            SHARED: {"version": "v1", "sharing": {"timeSlicing": sharing}},
        }
        found["devicePlugin"] = {
            "config": {
                "create": True,
                "name": PLUGIN_CONFIG,
                "default": UNSHARED if slicing.workers else SHARED,
                "data": {name: json.dumps(document) for name, document in documents.items()},
            }
        }
    return found


def node_labels(site: Site) -> list[dict[str, Any]]:
    """Worker with GPUs -> the labels that the operator reads; None takes one away."""
    serving, wanted = gpu_nodes(site), site.settings.gpu
    slicing = wanted.time_slicing if wanted else None
    found = []
    for node in site.in_group(GPU_WORKERS):
        labels = {OPERANDS_LABEL: None if node in serving else "false"}
        if slicing is not None:
            shared = node in serving and node.name in slicing.workers
            labels[CONFIG_LABEL] = SHARED if shared else None
        found.append({"name": node.name, "labels": labels})
    return found


def _operands(registry: str, manifest: BundleManifest) -> dict[str, Any]:
    """Name each operand's image by digest: a tag on a node may be from an older bundle."""
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
