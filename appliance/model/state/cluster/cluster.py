"""The cluster as the Kubernetes API tells it, in exactly three states.

``NoCluster`` is claimed only when every control-plane node of the inventory was probed and shows no
etcd data, PKI or manifests. Everything else that does not answer is ``Unreachable``: never a reason
for a fresh ``kubeadm init``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from appliance.model.state.cluster.api_flags import ApiFlags
from appliance.model.state.cluster.pods import Pod
from appliance.model.state.cluster.prerequisites import Prerequisites
from appliance.model.state.cluster.resources import Resources
from appliance.model.state.facts.identity import MachineIdentity, identity_on
from appliance.model.state.nodes.roles import SYSTEM_LABEL, RolesView

CONTROL_PLANE_PODS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")

SERIAL_ANNOTATION = "appliance.dev/dmi-serial"
NETWORK_ANNOTATION = "appliance.dev/network-proven"
GPU_ANNOTATION = "appliance.dev/gpus-proven"
# What playbooks/library/helm_release.py writes on the revision that it made.
CHART_ANNOTATION = "appliance.dev/chart-sha256"
VALUES_ANNOTATION = "appliance.dev/values-sha256"
SITE_VALUES_ANNOTATION = "appliance.dev/site-values-sha256"
ORIGIN_ANNOTATION = "appliance.dev/origin-sha256"
CERTIFICATE_ANNOTATION = "appliance.dev/certificate-sha256"
# What playbooks/library/own_secrets.py notes.
DEFAULTS_ANNOTATION = "appliance.dev/vendor-defaults"


@dataclass(frozen=True)
class ClusterNode:
    """One node of the cluster: its Node object, and whether its etcd runs.

    Attributes:
        ready: the Ready condition is True.
        not_ready_reason: the condition's message when it is not.
        kubelet_speaks: its kubelet says itself that it is not Ready, and therefore runs; when it
            falls silent the API says so after 40 s.
        version: kubelet version, e.g. ``v1.23.5``.
        internal_ip: the node's InternalIP, or None.
        taints: ``key=value:effect`` strings.
        serial: the DMI serial accepted when the node joined (annotation), or None.
        network_tested: when pods last tested its network (annotation, ISO 8601), or None.
        ready_since: when the Ready condition last changed (ISO 8601), or None.
        heard: when its kubelet last wrote that condition (UTC epoch of the node's clock, whole
            seconds), or None; where nothing changes it does so every five minutes.
        labels: the Node object's.
        annotations: the Node object's.
        devices: resources of NVIDIA -> how many pods can request here (allocatable).
        devices_there: the same by capacity, which outlives the device plugin.
        writers: annotation of ours -> who wrote it last, as they called themselves.
        gpus_tested: when a pod last listed its GPUs (annotation, ISO 8601), or None.
        etcd_ready: whether its etcd pod is ready; None where the API lists none on it.
        runtime: its container runtime, e.g. ``docker://20.10.24``; empty where the API names none.
        allocatable: what it offers to pods beside devices; None: it does not say.
    """

    name: str
    ready: bool
    version: str = ""
    internal_ip: str | None = None
    not_ready_reason: str = ""
    kubelet_speaks: bool = False
    ready_since: str | None = None
    heard: float | None = field(default=None, compare=False)
    unschedulable: bool = False
    taints: tuple[str, ...] = ()
    control_plane: bool = False
    serial: str | None = None
    system_uuid: str | None = None
    pod_cidr: str | None = None
    network_tested: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    devices: Mapping[str, int] = field(default_factory=dict)
    devices_there: Mapping[str, int] = field(default_factory=dict)
    gpus_tested: str | None = None
    writers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    etcd_ready: bool | None = None
    runtime: str = ""
    allocatable: Resources | None = None

    @property
    def schedulable(self) -> bool:
        """Whether pods without tolerations can be bound to it."""
        effects = {taint.rpartition(":")[2] for taint in self.taints}
        return not self.unschedulable and effects.isdisjoint(("NoSchedule", "NoExecute"))

    @property
    def is_system(self) -> bool:
        """Whether it carries the label of Run:ai's system nodes."""
        return SYSTEM_LABEL in self.labels

    @property
    def identity(self) -> MachineIdentity:
        """Of the machine that joined, by its annotations: its own kubelet may write those."""
        return identity_on(self.annotations, self.serial)


@dataclass(frozen=True)
class Volume:
    """One PersistentVolume of the appliance's class: where it lies, and what became of it."""

    source: str
    phase: str = ""
    reason: str = ""


@dataclass(frozen=True)
class ClusterStorage:
    """What the API holds of shared storage.

    Attributes:
        is_class: the appliance's StorageClass exists.
        is_default: claims without a class get it.
        tested: the export that a pod wrote to (annotation of the class), or None.
        provisioner: what makes volumes for a claim of the class.
        provisioner_ready: a pod of it is ready.
        mount_options: of the volumes that it makes.
        volumes: the PersistentVolumes of the class, by name.
    """

    is_class: bool = False
    is_default: bool = False
    tested: str | None = None
    provisioner: str | None = None
    provisioner_ready: bool = False
    mount_options: tuple[str, ...] = ()
    volumes: Mapping[str, Volume] = field(default_factory=dict)


@dataclass(frozen=True)
class HelmRelease:
    """The newest revision of a Helm release, as its secret's labels and annotations tell it.

    Attributes:
        status: ``deployed``, ``failed``, ``pending-install``, …
        chart_sha256: of the chart that we made it from; None when we did not, or did not finish.
        values_sha256: of the values, likewise.
        site_values_sha256: of those among them that the site's files hold; None also where an
            earlier version made the release.
        origin_sha256: of what else of the site it was made from, likewise.
        certificate_sha256: fingerprint of the certificate that went into it, likewise.
        vendor_defaults: places of its values with the vendor's own secret; None: not noted.
    """

    namespace: str
    name: str
    status: str
    revision: int = 1
    chart_sha256: str | None = None
    values_sha256: str | None = None
    site_values_sha256: str | None = None
    origin_sha256: str | None = None
    certificate_sha256: str | None = None
    vendor_defaults: tuple[str, ...] | None = None


@dataclass(frozen=True)
class GpuOperator:
    """A GPU Operator of the cluster, whoever installed it.

    Attributes:
        release: its helm release, if it came by one.
        version: without a v; None when its labels do not tell.
    """

    namespace: str
    release: str | None = None
    version: str | None = None


@dataclass(frozen=True)
class GpuStack:
    """What the GPU Operator says of itself.

    Attributes:
        state: ``status.state`` of its ClusterPolicy; None when there is no ClusterPolicy.
        version: of the operator that runs, without a v; None when none does.
        pods: every pod of its namespace.
        templates: DaemonSet of its namespace -> hash of its newest template, which its pods carry
            as a label.
    """

    state: str | None = None
    version: str | None = None
    pods: tuple[Pod, ...] = ()
    templates: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Discovery:
    """A DaemonSet that labels nodes with their hardware, whoever installed it.

    Attributes:
        kind: NFD is node-feature-discovery, GFD gpu-feature-discovery.
        release: its helm release, if it came by one.
    """

    kind: Literal["NFD", "GFD"]
    namespace: str
    name: str
    release: str | None = None

    def __str__(self) -> str:
        where = f"{self.kind} {self.namespace}/{self.name}"
        return f"{where} (helm release {self.release})" if self.release else where


@dataclass(frozen=True)
class NoCluster:
    """Every control-plane node was looked at and none carries a trace of a cluster."""


@dataclass(frozen=True)
class Unreachable:
    """There is, or may be, a cluster, and its API does not answer.

    Attributes:
        reason: what was tried and what came back.
        kubeadm_state: control-plane node -> what on it speaks of a cluster.
    """

    reason: str
    kubeadm_state: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class RunaiLogins:
    """What step ``runai`` noted about the logins of Run:ai's backend.

    Attributes:
        first_passwords: users whom a published password of the vendor logs in; None: not tried.
        researchers: whether Researcher Authentication is on; None: not noted.
    """

    first_passwords: tuple[str, ...] | None = None
    researchers: bool | None = None


@dataclass(frozen=True)
class Cluster:
    """The API answered.

    Attributes:
        version: the API server's version, e.g. ``v1.23.5``.
        pod_network: flannel's ``Network`` (CIDR), or None when flannel is not there.
        missing: what of kubeadm's last phases is not there yet (names for people).
        releases: the newest revision of every Helm release.
        gpu_stack: None when the site does not ask for it.
        gpu_operators: of all namespaces; read for a site with ``gpu:`` or ``runai:`` only.
        discoveries: of all namespaces, likewise.
        prerequisites: what Run:ai meets there; read for a site with ``runai:`` only.
        vendor_pods: of Run:ai's namespaces, likewise.
        runai_unconfirmed: Run:ai's backend was not seen to know this cluster since its part was
            installed with values of the backend.
        runai_logins: what is noted of the backend's logins.
        api_flags: of the control plane: OIDC, configured and running, and the ranges.
        roles: Run:ai's labels and RunaiConfig; None for a site without Run:ai.
    """

    nodes: Mapping[str, ClusterNode]
    pods: tuple[Pod, ...] = ()
    version: str = ""
    pod_network: str | None = None
    missing: tuple[str, ...] = ()
    storage: ClusterStorage = ClusterStorage()
    releases: tuple[HelmRelease, ...] = ()
    gpu_stack: GpuStack | None = None
    gpu_operators: tuple[GpuOperator, ...] = ()
    discoveries: tuple[Discovery, ...] = ()
    api_flags: ApiFlags = field(default_factory=ApiFlags)
    roles: RolesView | None = None

    def release(self, namespace: str, name: str) -> HelmRelease | None:
        """The release of that name, or None."""
        found = (item for item in self.releases if (item.namespace, item.name) == (namespace, name))
        return next(found, None)

    prerequisites: Prerequisites | None = None
    vendor_pods: tuple[Pod, ...] = ()
    runai_unconfirmed: bool = False
    runai_logins: RunaiLogins = RunaiLogins()

    def pods_on(self, node: str) -> Sequence[Pod]:
        """The pods of ``pods`` that are bound to a node, in the same order."""
        return self._pods_by_node.get(node, ())

    @cached_property
    def _pods_by_node(self) -> Mapping[str | None, Sequence[Pod]]:
        found: dict[str | None, list[Pod]] = {}
        for pod in self.pods:
            found.setdefault(pod.node, []).append(pod)
        return found

    @property
    def initialised(self) -> bool:
        """True when nothing of what ``kubeadm init`` leaves behind is missing."""
        return not self.missing


ClusterState = NoCluster | Unreachable | Cluster
