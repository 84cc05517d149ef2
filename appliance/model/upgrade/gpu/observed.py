"""The GPU stack that runs: of the cluster, and of every node that the operator serves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from appliance.model.components.gpu.driver import (
    DRIVER,
    FABRIC_MANAGER,
    bundled_driver,
    fabric_manager,
    has_nvswitches,
    host_driver,
    node_packages,
)
from appliance.model.components.gpu.operator import NAMESPACE, RELEASE, gpu_nodes
from appliance.model.state.cluster.cluster import Cluster, GpuStack, HelmRelease
from appliance.model.state.cluster.pods import TEMPLATE_LABEL
from appliance.model.state.nodes.maintenance import Maintenance, maintenance_of

if TYPE_CHECKING:
    from appliance.model.bundle.manifest import BundleManifest
    from appliance.model.site.settings import Node
    from appliance.model.state.cluster.pods import Pod
    from appliance.model.state.desired import Desired
    from appliance.model.state.facts.facts import NodeFacts
    from appliance.model.state.observed import Observed
    from appliance.model.upgrade.gpu.target import Target

# The reason of a maintenance that an upgrade of the GPU stack began; the target follows.
REASON: Final = "GPU upgrade to "
UNIT: Final = "nvidia-fabricmanager"
# Packages whose names end with the branch of the driver that they are a part of.
_BRANCHED: Final = tuple(
    f"{part}-"
    for part in (
        FABRIC_MANAGER,
        "nvidia-driver",
        "nvidia-dkms",
        "nvidia-kernel-common",
        "nvidia-kernel-source",
        "nvidia-compute-utils",
        "nvidia-utils",
        "libnvidia-compute",
        "libnvidia-common",
        "libnvidia-cfg1",
        "libnvidia-gl",
        "xserver-xorg-video-nvidia",
    )
)


@dataclass(frozen=True)
class GpuNode:
    """What runs on one node that the operator serves.

    Attributes:
        member: it is a member of the cluster.
        ready: its Node is Ready.
        seen: its machine answered.
        driver: version of the driver that the kernel has loaded; empty: none.
        packages: package of the target -> version that is installed; empty: it is absent.
        wanted: the same packages -> version in the bundle.
        nvswitches: its GPUs work only with a fabric manager.
        fabric_manager: version that is installed on the host; empty: none.
        manager_runs: the fabric manager runs, also at every boot.
        is_ours: the driver on the host is of packages of a bundle.
        stale: operands whose pods are not of the bundle's image, or of an older template.
        maintenance: what the annotation of its Node says.
    """

    name: str
    member: bool = True
    ready: bool = True
    seen: bool = True
    driver: str = ""
    packages: Mapping[str, str] = field(default_factory=dict)
    wanted: Mapping[str, str] = field(default_factory=dict)
    nvswitches: bool = False
    fabric_manager: str = ""
    manager_runs: bool = False
    is_ours: bool = True
    stale: tuple[str, ...] = ()
    maintenance: Maintenance | None = None

    @property
    def is_out(self) -> bool:
        """Whether an upgrade of the GPU stack took it out of service and did not return it."""
        return self.maintenance is not None and self.maintenance.reason.startswith(REASON)

    def reboots(self, target: Target) -> bool:
        """Whether it restarts: a driver that is loaded cannot be replaced while it is in use."""
        return target.mode == "host" and bool(self.driver) and self.driver != target.driver

    def reasons(self, target: Target) -> Iterator[str]:
        """Why it is not of the target yet; nothing where it is."""
        if target.mode != "preinstalled":
            yield from self._of_driver(target)
        if self.stale:
            yield f"{', '.join(self.stale)}: its pod is not the bundle's"

    def _of_driver(self, target: Target) -> Iterator[str]:
        if target.driver and self.driver != target.driver:
            yield f"driver is {self.driver or 'not loaded'}, not {target.driver}"
        for name, version in self.wanted.items():
            found = self.packages.get(name, "")
            if found != version:
                yield f"{name} is {found or 'absent'}, not {version}"
        yield from self._of_fabric_manager(target)

    def _of_fabric_manager(self, target: Target) -> Iterator[str]:
        if not self.nvswitches or target.mode != "host":
            return
        if self.fabric_manager != target.driver:
            had = self.fabric_manager or "absent"
            yield f"fabric manager is {had}, not {target.driver}, the driver's version"
        elif not self.manager_runs:
            yield "fabric manager does not run at every boot"


@dataclass(frozen=True)
class GpuSituation:
    """Everything that a plan is made from.

    Attributes:
        nodes: every node that the operator serves.
        away: node -> why its machine did not answer.
        operator: version of the operator that runs, without a v; empty: none runs.
        state: what its ClusterPolicy says; None without one.
        release: its Helm release; None without one.
        kubernetes: node -> version of its kubelet.
        old_operators: pods of the operator itself that are not of the bundle's image.
        unready: those of its pods that are not ready.
        templates: DaemonSet of an operand -> hash of its newest template.
    """

    nodes: Mapping[str, GpuNode]
    away: Mapping[str, str] = field(default_factory=dict)
    operator: str = ""
    state: str | None = None
    release: HelmRelease | None = None
    kubernetes: Mapping[str, str] = field(default_factory=dict)
    old_operators: tuple[str, ...] = ()
    unready: tuple[str, ...] = ()
    templates: Mapping[str, str] = field(default_factory=dict)

    @property
    def drivers(self) -> tuple[str, ...]:
        """The versions of the drivers that are loaded somewhere, each once."""
        return tuple(dict.fromkeys(one.driver for one in self.nodes.values() if one.driver))


def gpu_situation(desired: Desired, observed: Observed, target: Target) -> GpuSituation:
    """What runs, by one look at the nodes and the API."""
    cluster = observed.cluster
    if not isinstance(cluster, Cluster):
        return GpuSituation({}, {fault.node: fault.reason for fault in observed.faults})
    stack = cluster.gpu_stack or GpuStack()
    return GpuSituation(
        {node.name: gpu_node(node, desired, observed, target) for node in gpu_nodes(desired.site)},
        {fault.node: fault.reason for fault in observed.faults},
        (stack.version or "").removeprefix("v"),
        stack.state,
        cluster.release(NAMESPACE, RELEASE),
        {name: node.version for name, node in cluster.nodes.items()},
        tuple(pod.name for pod in _operators(cluster) if _is_old(pod, desired.manifest)),
        tuple(pod.name for pod in _operators(cluster) if not pod.ready),
        stack.templates,
    )


def gpu_node(node: Node, desired: Desired, observed: Observed, target: Target) -> GpuNode:
    """What runs on one node."""
    cluster, facts = observed.cluster, observed.node_facts.get(node.name)
    member = cluster.nodes.get(node.name) if isinstance(cluster, Cluster) else None
    found = GpuNode(
        node.name,
        member=member is not None,
        ready=member is not None and member.ready,
        seen=facts is not None,
        stale=tuple(_stale(node.name, cluster, desired.manifest)),
        maintenance=maintenance_of(member.annotations) if member else None,
    )
    return _with_facts(found, facts, desired.manifest, target) if facts else found


def _with_facts(
    found: GpuNode, facts: NodeFacts, manifest: BundleManifest | None, target: Target
) -> GpuNode:
    installed: Mapping[str, str] | None = facts.at("packages.installed")
    unit, manager = facts.unit(UNIT), fabric_manager(facts)
    host = target.mode == "host" and manifest is not None and installed is not None
    wanted = _driver_packages(facts, manifest) if host and manifest else {}
    return GpuNode(
        found.name,
        found.member,
        found.ready,
        found.seen,
        driver=host_driver(facts) or "",
        packages={name: str((installed or {}).get(name, "")) for name in wanted},
        wanted=wanted,
        nvswitches=has_nvswitches(facts),
        fabric_manager=manager or "",
        manager_runs=(unit.get("active"), unit.get("enabled")) == ("active", "enabled"),
        is_ours=installed is None or any(name.startswith(DRIVER) for name in installed),
        stale=found.stale,
        maintenance=found.maintenance,
    )


def _driver_packages(facts: NodeFacts, manifest: BundleManifest) -> dict[str, str]:
    """The driver, its fabric manager and the container toolkit, without headers of kernels."""
    driver = bundled_driver(manifest)
    if driver is None:
        return {}
    names = {driver.package, driver.with_fabric_manager, *driver.toolkit}
    return {name: v for name, v in node_packages(facts, manifest).items() if name in names}


def replaced_packages(facts: NodeFacts, manifest: BundleManifest) -> tuple[str, ...]:
    """Packages of other branches that the bundle's driver takes the place of.

    NVIDIA's packages of one branch conflict with those of every other, and name the branch at the
    end: ``nvidia-driver-535``, ``libnvidia-compute-535``, ``nvidia-fabricmanager-535``.
    """
    driver = bundled_driver(manifest)
    # A power cut in the middle leaves some half removed, and the metapackages gone.
    broken = [str(one).partition(":")[0] for one in facts.at("packages.broken") or ()]
    installed = {*(facts.at("packages.installed") or {}), *broken}
    if driver is None:
        return ()
    branches = {name.removeprefix(DRIVER) for name in installed if name.startswith(DRIVER)}
    branches |= {n for n in installed if n.startswith(_BRANCHED) and n[-3:].isdigit()}
    branches = {one.rpartition("-")[2] for one in branches} - {driver.package.rpartition("-")[2]}
    return tuple(sorted(n for n in installed if n.rpartition("-")[2] in branches and _is_driver(n)))


def _is_driver(name: str) -> bool:
    return name.startswith(("nvidia-", "libnvidia-", "cuda-drivers-", "xserver-xorg-video-nvidia-"))


def _stale(name: str, cluster: object, manifest: BundleManifest | None) -> Iterator[str]:
    """Operands on a node whose pods are not of the bundle's images, or of an older template."""
    stack = cluster.gpu_stack if isinstance(cluster, Cluster) else None
    templates = stack.templates if stack else {}
    for pod in _pods(cluster):
        kind, owner = pod.owner or ("", "")
        if pod.node != name or kind != "DaemonSet":
            continue
        newest = templates.get(owner)
        is_older = bool(newest) and pod.labels.get(TEMPLATE_LABEL, newest) != newest
        if is_older or _is_old(pod, manifest):
            yield pod.app or pod.name


def _pods(cluster: object) -> tuple[Pod, ...]:
    """The pods of the operator's namespace; one that is being replaced says nothing."""
    stack = cluster.gpu_stack if isinstance(cluster, Cluster) else None
    return tuple(pod for pod in stack.pods if not pod.ending) if stack else ()


def _is_old(pod: Pod, manifest: BundleManifest | None) -> bool:
    """Whether one of its images has the name of one of the bundle's, and another digest."""
    images = manifest.images.items() if manifest else ()
    digests = {image.partition(":")[0]: digest for image, digest in images}
    for image in pod.images:
        path, _, digest = image.partition("@")
        short = path.rpartition("/")[2].partition(":")[0]
        if digest and digest != digests.get(short, digest):
            return True
    return False


def _operators(cluster: Cluster) -> Iterator[Pod]:
    """Pods of the operator's own Deployments; operands are of DaemonSets."""
    return (pod for pod in _pods(cluster) if (pod.owner or ("",))[0] == "ReplicaSet")
