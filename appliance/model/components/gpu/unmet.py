"""When are the GPUs ready? The operator's release and state, its pods, allocatable GPUs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from appliance.model.bundle.gpu_operator_versions import REFUSED_BECAUSE, is_refused
from appliance.model.components.gpu.operator import (
    NAMESPACE,
    OPERANDS_LABEL,
    RELEASE,
    VALIDATOR,
    chart_of,
    gpu_nodes,
    gpus_on_pci,
    operator_values,
)
from appliance.model.site.groups import GPU_WORKERS
from appliance.model.site.settings import Node
from appliance.model.state.certificates import values_digest
from appliance.model.state.cluster import Cluster, GpuStack, HelmRelease
from appliance.model.state.desired import Desired
from appliance.model.state.facts.facts import NodeFacts
from appliance.model.state.kubeadm_state import is_member

if TYPE_CHECKING:
    from appliance.model.bundle.manifest import BundleManifest
    from appliance.model.state.observed import Observed

FINISHED = "Succeeded"


def gpu(node: Node, desired: Desired, observed: Observed) -> Iterator[str]:
    """The operator is deployed and ready; pods can request each GPU on PCI."""
    cluster = observed.cluster
    if GPU_WORKERS in node.groups:
        yield from _nouveau(observed.node_facts[node.name])
    if not isinstance(cluster, Cluster):
        yield "there is no cluster yet"
        return
    stack = cluster.gpu_stack or GpuStack()
    if node.name == desired.site.control_plane[0].name:
        yield from _release(desired, cluster, stack)
        yield from _opted(desired, cluster)
    if node in gpu_nodes(desired.site):
        yield from _offered(node, observed, cluster, stack)


def gpu_untested(node: Node, desired: Desired, observed: Observed) -> Iterator[str]:
    """A pod has listed the GPUs of this member since it joined."""
    cluster = observed.cluster
    member = cluster.nodes.get(node.name) if isinstance(cluster, Cluster) else None
    if member is None or node not in gpu_nodes(desired.site):
        return
    # The Node of a wiped machine describes the machine before; its replacement is tested.
    facts = observed.node_facts[node.name]
    gone = not (facts.kubernetes_untold or is_member(facts))
    if gone or (member.ready and member.allocatable_gpus and not member.gpus_tested):
        yield "no pod has listed its GPUs since it joined"


def _nouveau(facts: NodeFacts) -> Iterator[str]:
    if "nouveau" in (facts.at("modules.loaded") or ()):
        yield "nouveau is loaded and keeps NVIDIA's driver from the GPUs"
    elif "nouveau" not in (facts.at("modules.blacklisted") or ()):
        yield "nouveau is not blocked and may load at the next boot"


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


def _offered(node: Node, observed: Observed, cluster: Cluster, stack: GpuStack) -> Iterator[str]:
    member = cluster.nodes.get(node.name)
    if member is None:
        yield "is not a member of the cluster"
        return
    here = [pod for pod in stack.pods if pod.node == node.name and pod.phase != FINISHED]
    for pod in here:
        if not pod.ready:
            yield f"pod {pod.name} is not ready: {pod.reason or pod.phase}"
    wanted = gpus_on_pci(observed.node_facts[node.name])
    if wanted and not [pod for pod in here if pod.app == VALIDATOR]:
        yield f"no {VALIDATOR} pod runs on it"
    if member.allocatable_gpus != wanted:
        yield f"{wanted} GPUs on PCI, but pods can request {member.allocatable_gpus}"
