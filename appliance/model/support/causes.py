"""Likely causes: words of logs and names of checks, each with its cause and the page about it.

A table: what a program writes, in which texts of a bundle, what it means, and where an operator
reads on. What must not be here: reading a bundle, or judging facts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Final

KUBELET: Final = ("nodes/*/kubelet.log",)
RUNTIME: Final = ("nodes/*/runtime.log",)
KERNEL: Final = ("nodes/*/kernel.log",)
STATE: Final = ("nodes/*/state.txt",)
EVENTS: Final = ("cluster/events.txt",)
PODS: Final = ("pods/*", "nodes/*/containers/*")
NODE: Final = ("nodes/*",)


@dataclass(frozen=True)
class Symptom:
    """What a program writes when something is wrong.

    Attributes:
        name: for programs.
        places: patterns of names of the bundle's texts in which it is looked for.
        pattern: found in one line; no part without a bound stands before another, or a line that
            was made for it takes time with the square of its length.
        cause: what it means, one sentence.
        page: the page of operations about it.
        needs: so many lines, before it counts: some words are written once in good health.
    """

    name: str
    places: tuple[str, ...]
    pattern: str
    cause: str
    page: str
    needs: int = 1

    @cached_property
    def search(self) -> Callable[[str], object]:
        """Look for it in one line; in any case."""
        return re.compile(self.pattern, re.I).search

    def is_searched(self, name: str) -> bool:
        """Whether a text of that name is searched for it."""
        return any(fnmatchcase(name, place) for place in self.places)


_LOOK: Final = "look-inside-a-node"
_DOWN: Final = "unplanned-downtime"
_CERTIFICATES: Final = "renew-kubernetes-certificates"
SYMPTOMS: Final = (
    Symptom(
        "certificate_expired",
        (*KUBELET, *PODS, *RUNTIME),
        r"certificate has expired|x509: .{0,200}expired|certificate is not valid yet|not yet valid",
        "a certificate has expired, or a clock is wrong",
        _CERTIFICATES,
    ),
    Symptom(
        "unknown_authority",
        (*KUBELET, *PODS, *RUNTIME, *EVENTS),
        r"certificate signed by unknown authority",
        "a certificate was signed by a CA that this node does not trust",
        "change-a-site",
    ),
    Symptom(
        "disk_full",
        (*NODE, *PODS, *EVENTS),
        r"no space left on device|\b(?:100|99|98)% +/(?!snap|boot/efi)",
        "a disk is full",
        _LOOK,
    ),
    Symptom(
        "disk_pressure",
        (*KUBELET, *EVENTS),
        r"NodeHasDiskPressure|DiskPressure=True|eviction manager: .{0,200}(?:disk|storage)"
        r"|FreeDiskSpaceFailed",
        "the kubelet evicts pods because a disk is nearly full",
        _LOOK,
    ),
    Symptom(
        "etcd_space",
        PODS,
        r"mvcc: database space exceeded|alarm:NOSPACE",
        "etcd has reached its largest size and takes no writes",
        "keep-the-disks-clean",
    ),
    Symptom(
        "etcd_slow",
        PODS,
        r"took too long.{0,200}apply request|slow fdatasync"
        r"|leader failed to send out heartbeat on time",
        "etcd's disk is too slow or the node too busy",
        "requirements",
        20,
    ),
    Symptom(
        "etcd_no_leader",
        PODS,
        r"lost leader|no leader|request timed out, possibly due to previous leader failure",
        "etcd has no majority of its members",
        "replace-the-first-control-plane-node",
        3,
    ),
    Symptom(
        "image_missing",
        (*EVENTS, *KUBELET),
        r"ErrImagePull|ImagePullBackOff|manifest unknown|Failed to pull image",
        "an image could not be pulled from the site's registry",
        "change-a-site",
    ),
    Symptom(
        "registry_login",
        (*EVENTS, *KUBELET, *RUNTIME),
        r"pull access denied|no basic auth credentials|unauthorized: authentication required",
        "the registry refused the login of a node",
        "change-a-site",
    ),
    Symptom(
        "registry_away",
        (*EVENTS, *KUBELET, *RUNTIME),
        r"(?:pull|registry|/v2/).{0,200}"
        r"(?:connection refused|no route to host|i/o timeout|deadline)",
        "the registry does not answer",
        _DOWN,
    ),
    Symptom(
        "cni_missing",
        (*KUBELET, *EVENTS),
        r"cni config uninitialized|network plugin is not ready|no networks found in /etc/cni"
        r"|failed to find plugin .{0,200} in path",
        "the pod network is not set up on a node",
        "install",
    ),
    Symptom(
        "flannel",
        (*EVENTS, *KUBELET, *PODS),
        r"open /run/flannel/subnet\.env|failed to acquire lease|Failed to find any valid interface",
        "flannel does not run on a node",
        "install",
    ),
    Symptom(
        "swap_on",
        KUBELET,
        r"running with swap on is not supported",
        "swap is on, and the kubelet refuses to start",
        "requirements",
    ),
    Symptom(
        "cgroup_driver",
        KUBELET,
        r"misconfiguration: kubelet cgroup driver",
        "Docker and the kubelet have different cgroup drivers",
        "install",
    ),
    Symptom(
        "kubelet_config",
        KUBELET,
        r"failed to load [Kk]ubelet config file|failed to run Kubelet|failed to parse kubelet flag",
        "the kubelet does not start with its configuration",
        _LOOK,
    ),
    Symptom(
        "docker_away",
        (*KUBELET, *RUNTIME, *NODE),
        r"Cannot connect to the Docker daemon|failed to start daemon|docker\.sock: connect"
        r"|container runtime is down",
        "Docker does not run or does not answer on a node",
        _LOOK,
    ),
    Symptom(
        "pleg",
        (*KUBELET, *EVENTS),
        r"PLEG is not healthy",
        "Docker answers the kubelet too slowly",
        _LOOK,
        3,
    ),
    Symptom(
        "api_away",
        (*KUBELET, *PODS),
        r"dial tcp [^ ]*:(?:6443|8443): (?:connect: connection refused|i/o timeout"
        r"|connect: no route to host)",
        "the API server does not answer this node",
        _DOWN,
        5,
    ),
    Symptom(
        "node_deleted",
        KUBELET,
        r'node "[^"]+" not found|nodes "[^"]+" not found',
        "the cluster has no Node object of this machine",
        "replace-a-gpu-worker",
        5,
    ),
    Symptom(
        "out_of_memory",
        (*KERNEL, *EVENTS),
        r"Out of memory: Killed|oom-kill:|OOMKilling|Memory cgroup out of memory",
        "a process was killed because memory was used up",
        "requirements",
    ),
    Symptom(
        "gpu_fell_off",
        KERNEL,
        r"NVRM: Xid \([^)]{0,200}\): (?:48|63|64|74|79|92|94|95)\b|fallen off the bus",
        "a GPU has a fault of its hardware",
        "gpu",
    ),
    Symptom(
        "driver_missing",
        (*KERNEL, *PODS, *EVENTS),
        r"NVRM: API mismatch|Failed to initialize NVML|nvidia-smi: command not found"
        r"|could not load NVML",
        "NVIDIA's driver is not loaded, or not of one version",
        "gpu",
    ),
    Symptom(
        "disk_errors",
        KERNEL,
        r"blk_update_request: I/O error|Buffer I/O error|EXT4-fs error|XFS .{0,200}(?:corruption)"
        r"|XFS .{0,200}shutdown|nvme\d+: .{0,200}(?:timeout|reset)|Remounting filesystem read-only",
        "a disk or its file system has faults",
        "replace-a-gpu-worker",
    ),
    Symptom(
        "memory_errors",
        KERNEL,
        r"Machine check events logged|EDAC .{0,200}(?:UE|uncorrectable|uncorrected)|Hardware Error",
        "the machine reports errors of its memory or processor",
        "replace-a-gpu-worker",
    ),
    Symptom(
        "link_flaps",
        KERNEL,
        r"NIC Link is Down|link is not ready|Link is Down",
        "a network link goes down",
        _DOWN,
        4,
    ),
    Symptom(
        "nfs_away",
        (*KERNEL, *EVENTS, *KUBELET),
        r"nfs: server .{0,200} not responding|mount\.nfs: |Stale file handle"
        r"|MountVolume\.SetUp failed .{0,200}nfs",
        "the shared storage does not answer",
        _DOWN,
    ),
    Symptom(
        "clock_off",
        (*STATE, *PODS),
        r"^Leap status +: Not synchronised|clock (?:skew|difference).{0,200}(?:peer|too large)"
        r"|the clock difference against peer",
        "a clock is not synchronised",
        "requirements",
    ),
    Symptom(
        "dns_fails",
        (*PODS, *EVENTS, *RUNTIME),
        r"lookup [^ ]+ on [^ ]+: (?:no such host|server misbehaving|read udp)|SERVFAIL",
        "a name does not resolve",
        "check-before-runai",
        3,
    ),
    Symptom(
        "scheduling",
        EVENTS,
        r"FailedScheduling|Insufficient (?:cpu|memory|nvidia\.com/gpu)",
        "pods wait because no node has what they ask for",
        "node-roles",
        3,
    ),
    Symptom(
        "secret_missing",
        (*EVENTS, *KUBELET),
        r'(?:secret|configmap) "[^"]+" not found',
        "a pod waits for a Secret or a ConfigMap that does not exist",
        "runai",
    ),
    Symptom(
        "database_login",
        PODS,
        r"password authentication failed for user",
        "the database refused a login: its volume is of an earlier installation",
        "runai-secrets",
    ),
)
# Check of health or preflight -> the page about it.
PAGES: Final[Mapping[str, str]] = {
    "cluster_version": "vendor-bundle",
    "nodes_ready": _DOWN,
    "maintenance": "planned-maintenance",
    "system_nodes": "node-roles",
    "gpu_operator": "gpu",
    "feature_discovery": "gpu",
    "gpu_nodes": "gpu",
    "storage_class": "check-before-runai",
    "shared_storage": _DOWN,
    "ingress_class": "check-before-runai",
    "prometheus": "check-before-runai",
    "registry": "change-a-site",
    "pod_guard": "change-a-site",
    "ca_trust": "change-a-site",
    "kubernetes_certificates": _CERTIFICATES,
    "certificate": "runai",
    "login": "runai-secrets",
    "vendor_secrets": "runai-secrets",
    "researcher_login": "access",
    "dns_control_host": "check-before-runai",
    "dns_nodes": "check-before-runai",
    "dns_pods": "check-before-runai",
    "node_connectivity": _DOWN,
    "clock_spread": "requirements",
}
# Step of a plan that is not converged -> the page about it.
STEP_PAGES: Final[Mapping[str, str]] = {
    "gpu": "gpu",
    "runai": "runai",
    "access": "access",
    "node_roles": "node-roles",
    "storage": _DOWN,
}
OTHERWISE: Final = "install"
UNREACHABLE: Final = _DOWN
