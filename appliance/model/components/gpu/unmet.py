"""When are the GPUs ready? The operator's release and state, its pods, allocatable GPUs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from appliance.model.bundle.release.gpu_operator_versions import REFUSED_BECAUSE, is_refused
from appliance.model.components.base.members import without_cluster
from appliance.model.components.gpu.driver import (
    DRIVER,
    RUNTIME,
    bundled_driver,
    fabric_manager,
    has_nvswitches,
    host_driver,
    kernels_of,
)
from appliance.model.components.gpu.offers import cards_of, offer_faults, sharing_of
from appliance.model.components.gpu.operator import (
    NAMESPACE,
    OPERANDS_LABEL,
    RELEASE,
    VALIDATOR,
    chart_of,
    gpu_nodes,
    node_labels,
    operator_values,
)
from appliance.model.site.groups import GPU_WORKERS
from appliance.model.site.runai_settings import Gpu
from appliance.model.site.settings import Node
from appliance.model.state.certificates import values_digest
from appliance.model.state.cluster.cluster import Cluster, GpuStack, HelmRelease
from appliance.model.state.cluster.gpu_labels import PLUGIN_CONFIG
from appliance.model.state.desired import Desired
from appliance.model.state.facts.facts import NodeFacts
from appliance.model.state.nodes.kubeadm_state import is_member

if TYPE_CHECKING:
    from appliance.model.bundle.manifest import BundleManifest
    from appliance.model.state.observed import Observed

FINISHED = "Succeeded"


def gpu(node: Node, desired: Desired, observed: Observed) -> Iterator[str]:
    """The operator is deployed and ready; pods can request each GPU on PCI."""
    cluster = observed.cluster
    settings = desired.site.settings.gpu
    serves = settings is not None and node in gpu_nodes(desired.site)
    if GPU_WORKERS in node.groups:
        yield from _nouveau(observed.node_facts[node.name])
    if settings is not None and serves and settings.driver == "host":
        yield from _host_driver(observed.node_facts[node.name], desired)
    if not isinstance(cluster, Cluster):
        yield without_cluster(observed)
        return
    stack = cluster.gpu_stack or GpuStack()
    if node.name == desired.site.control_plane[0].name:
        yield from _release(desired, cluster, stack)
        yield from _opted(desired, cluster)
    if settings is not None and serves:
        yield from _labelled(node, desired, cluster)
        yield from _offered(node, settings, observed, cluster, stack)


def gpu_untested(node: Node, desired: Desired, observed: Observed) -> Iterator[str]:
    """A pod has listed the GPUs of this member since it joined."""
    cluster = observed.cluster
    member = cluster.nodes.get(node.name) if isinstance(cluster, Cluster) else None
    if member is None or node not in gpu_nodes(desired.site):
        return
    # The Node of a wiped machine describes the machine before; its replacement is tested.
    facts = observed.node_facts[node.name]
    gone = not (facts.kubernetes_untold or is_member(facts))
    if gone or (member.ready and any(member.devices.values()) and not member.gpus_tested):
        yield "no pod has listed its GPUs since it joined"


def _nouveau(facts: NodeFacts) -> Iterator[str]:
    if "nouveau" in (facts.at("modules.loaded") or ()):
        yield "nouveau is loaded and keeps NVIDIA's driver from the GPUs"
    elif "nouveau" not in (facts.at("modules.blacklisted") or ()):
        yield "nouveau is not blocked and may load at the next boot"


def _host_driver(facts: NodeFacts, desired: Desired) -> Iterator[str]:
    """The bundle's driver is loaded, containers get it, and it stays as it is."""
    loaded = host_driver(facts)
    bundled = bundled_driver(desired.manifest) if desired.manifest else None
    if loaded is None:
        yield "NVIDIA's driver is not loaded"
    elif bundled and loaded != bundled.version:
        yield f"NVIDIA's driver is {loaded}, not {bundled.version} of the bundle"
    if loaded is not None:
        yield from _not_built(facts)
    of = desired.release.runtime
    runtime = facts.at(f"runtime.{of.name}.default_runtime")
    if runtime != RUNTIME:
        yield f"{of.title}'s default runtime is {runtime or 'unknown'}, not {RUNTIME}"
    if has_nvswitches(facts) and not _runs_at_boot(facts.unit("nvidia-fabricmanager")):
        yield "its GPUs are joined by NVSwitches, but the fabric manager does not run at every boot"
    manager = fabric_manager(facts)
    if has_nvswitches(facts) and manager and loaded and manager != loaded:
        yield f"fabric manager is {manager}, not {loaded}, the driver's version"
    holds, installed = facts.at("packages.holds"), facts.at("packages.installed") or {}
    loose = [n for n in installed if n.startswith(DRIVER) and n not in (holds or ())]
    if holds is not None and loose:
        yield f"{', '.join(sorted(loose))} is not on hold"


def _not_built(facts: NodeFacts) -> Iterator[str]:
    """Name the kernels with which a reboot would lose the driver."""
    built = facts.at("modules.nvidia_kernels")
    for kernel in kernels_of(facts) if built is not None else ():
        if kernel not in built:
            yield f"NVIDIA's driver is not built for kernel {kernel}, which it may boot"


def _runs_at_boot(unit: Mapping[str, Any]) -> bool:
    return (unit.get("active"), unit.get("enabled")) == ("active", "enabled")


def _release(desired: Desired, cluster: Cluster, stack: GpuStack) -> Iterator[str]:
    release = cluster.release(NAMESPACE, RELEASE)
    if release is None:
        yield "the GPU Operator is not installed"
        return
    if release.status != "deployed":
        yield f"the GPU Operator's release is {release.status}"
    if desired.manifest:
        yield from _made_from(release, desired, desired.manifest)
    if stack.version and is_refused(stack.version):
        yield f"the GPU Operator is {stack.version}: {REFUSED_BECAUSE}"
    yield from _word(desired, stack)


def _made_from(release: HelmRelease, desired: Desired, manifest: BundleManifest) -> Iterator[str]:
    chart = chart_of(manifest)
    if chart is None:
        return
    if release.chart_sha256 != chart.sha256:
        yield f"the GPU Operator was not installed from chart {chart.version} of the bundle"
    elif release.values_sha256 != values_digest(operator_values(desired, manifest)):
        yield "the values of the GPU Operator differ from the site's"


def _word(desired: Desired, stack: GpuStack) -> Iterator[str]:
    if stack.version is None:
        yield "the GPU Operator does not run: its Deployment is missing"
    if stack.state is None:
        yield "the GPU Operator has no ClusterPolicy"
    elif stack.state != "ready" and gpu_nodes(desired.site):
        yield f"the GPU Operator's ClusterPolicy is {stack.state}"


def _opted(desired: Desired, cluster: Cluster) -> Iterator[str]:
    """Only nodes that the site opts out carry the label for it."""
    serving = gpu_nodes(desired.site)
    for node in desired.site.in_group(GPU_WORKERS):
        member = cluster.nodes.get(node.name)
        off = member is not None and member.labels.get(OPERANDS_LABEL) == "false"
        if member is None:
            continue
        if off and node in serving:
            yield f"{node.name} has {OPERANDS_LABEL}=false, but the site does not opt it out"
        elif not off and node not in serving:
            yield f"{node.name} is opted out, but lacks {OPERANDS_LABEL}=false"


def _labelled(node: Node, desired: Desired, cluster: Cluster) -> Iterator[str]:
    """Where the site slices GPUs, the label names the device plugin's configuration.

    The label is on the Node object: a worker that joins again has lost it.
    """
    member = cluster.nodes.get(node.name)
    if member is None or desired.override("gpu_operator", "node_labels") is not None:
        return
    wanted = next(one["labels"] for one in node_labels(desired.site) if one["name"] == node.name)
    want, found = wanted.get(PLUGIN_CONFIG), member.labels.get(PLUGIN_CONFIG)
    if PLUGIN_CONFIG in wanted and found != want:
        yield f"its label {PLUGIN_CONFIG} is {found or 'absent'}, not {want or 'absent'}"


def _offered(
    node: Node, settings: Gpu, observed: Observed, cluster: Cluster, stack: GpuStack
) -> Iterator[str]:
    member = cluster.nodes.get(node.name)
    if member is None:
        yield "is not a member of the cluster"
        return
    here = [pod for pod in stack.pods if pod.node == node.name and pod.phase != FINISHED]
    for pod in here:
        if not pod.ready:
            yield f"pod {pod.name} is not ready: {pod.why_unready}"
    cards = cards_of(observed.node_facts[node.name])
    if cards.count and not [pod for pod in here if pod.app == VALIDATOR]:
        yield f"no {VALIDATOR} pod runs on it"
    yield from offer_faults(cards, sharing_of(settings, node.name), member)
