"""The site of a lab: the same keys as any site, with values for containers.

The special needs of a lab are settings of its site: no role and no step checks whether it runs in
a lab. What must not be here: writing the files.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from appliance.lab.gpus import sliced
from appliance.lab.layout import HARDWARE, NODE_USER, POD_CIDR, SERVICE_CIDR, Lab
from appliance.model.bundle.release.runai_versions import LINES, minor_of

REGISTRY_PORT, ARTIFACTS_PORT = 5000, 9443
STATE = Path(".appliance")
KEY = STATE / "ssh" / "id_ed25519"
PLAIN_API_PORT, BALANCED_API_PORT = 6443, 8443
VIRTUAL_ADDRESS_OFFSET = 10
# Not one of the vendor's own: those are replaced, and reported where they are in force.
ADMIN_PASSWORD = "Rehearsal-1"  # noqa: S105 - no secret: it is on this page
# The number of slices per GPU of the last worker, for fractions; the others offer whole GPUs.
SLICES = 4
RUNAI_VERSION = "2.7.14"

# kubeadm's SystemVerification needs the kernel's configuration from /lib/modules, which a container
# does not have; binaries built with Go 1.25 or later fail HTTPProxyCIDR, since Go rejects the URL
# that kubeadm builds from a range. Swap belongs to the host.
IGNORED_PREFLIGHT_ERRORS = ("SystemVerification", "HTTPProxyCIDR", "Swap")

# All nodes share one disk with other work: no pod is evicted because of its free space.
KUBELET = {
    "failSwapOn": False,
    "evictionHard": {
        "imagefs.available": "0%",
        "memory.available": "0%",
        "nodefs.available": "0%",
        "nodefs.inodesFree": "0%",
    },
    "imageGCHighThresholdPercent": 100,
}
# Each node has a volume at this path. The disk is the host's and shared: a little space is enough.
NFS = {"path": "/srv/runai", "minimum_free_gb": 1}
# A container cannot run the kernel's NFS server.
NFS_OVERRIDES = {"nfs_server": {"nfs_server_implementation": "ganesha"}}
# nf_conntrack's size belongs to the host's network namespace.
KUBE_PROXY = {"conntrack": {"maxPerCore": 0}}


@dataclass(frozen=True)
class LabSite:
    """The input of ``site init`` for a lab."""

    settings: Mapping[str, Any]
    groups: Mapping[str, tuple[str, ...]]
    host_vars: Mapping[str, Mapping[str, Any]]
    secrets: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class LabExtras:
    """What a lab can have besides a cluster.

    Attributes:
        gpus: GPUs per worker; without GPUs the workers are CPU workers.
        storage: whether it has shared storage; Run:ai implies it.
        runai: the version of Run:ai whose stand-in is installed; empty: none.
        bmcs: whether each node has a BMC.
    """

    gpus: int = 0
    storage: bool = False
    runai: str = ""
    bmcs: bool = False


NOTHING_ELSE = LabExtras()


def is_played(version: str) -> bool:
    """Whether a lab can have Run:ai's stand-in of a version, such as ``2.7.14``."""
    line = LINES.get(minor_of(version) or (0, 0))
    written = re.fullmatch(r"\d{1,3}(\.\d{1,3}){2}", version, re.ASCII)
    return written is not None and line is not None and not line.lacks


def vendor_bundle(version: str) -> Path:
    """Where Run:ai's stand-in of a version is, below the site's state directory."""
    return Path("vendor", f"runai-{version}.tar")


def lab_site(
    lab: Lab,
    *,
    release: str,
    operating_system: str,
    private_key: Path,
    extras: LabExtras = NOTHING_ELSE,
) -> LabSite:
    """The site of a lab: settings, groups and values of each node.

    Args:
        lab: its network and nodes.
        release: the release to install.
        operating_system: the nodes' operating system.
        private_key: the SSH key for the nodes.
        extras: what it has besides a cluster.
    """
    control_plane = tuple(node.name for node in lab.nodes if node.control_plane)
    workers = tuple(node.name for node in lab.nodes if not node.control_plane)
    groups = {"control_plane": control_plane, "services": (lab.services.name,)}
    if workers:
        groups["gpu_workers" if extras.gpus else "cpu_workers"] = workers
    settings = _settings(lab, release, operating_system, private_key)
    if extras.gpus:
        settings["gpu"] = {"driver": "container"}
    secrets = {}
    if extras.runai and workers:
        groups["system_nodes"] = workers[:1]
        if extras.gpus and len(workers) > 1:
            settings["gpu"] |= {"time_slicing": sliced(SLICES, workers[-1])}
        settings |= _runai(lab, private_key.parents[1] / vendor_bundle(extras.runai))
        secrets["vault_runai_admin_password"] = ADMIN_PASSWORD
    if extras.storage or extras.runai:
        settings["nfs"] = {"server": lab.services.name, **NFS}
        settings["role_overrides"] |= NFS_OVERRIDES
    return LabSite(
        settings=settings,
        groups=groups,
        host_vars={
            node.name: {"address": f"{node.address}/{lab.subnet.prefixlen}", "hardware": HARDWARE}
            for node in lab.nodes
        },
        secrets=secrets,
    )


def _runai(lab: Lab, bundle: Path) -> dict[str, Any]:
    """A DNS server and the vendor's software; thresholds that a lab can meet."""
    return {
        "system_nodes_shared": True,
        "runai": {
            "vendor_bundle": str(bundle),
            "own_dns": True,
            "cluster_name": lab.name,
            "minimum_free_gb": 1,
        },
    }


def _settings(lab: Lab, release: str, operating_system: str, private_key: Path) -> dict[str, Any]:
    return {
        "site_name": lab.name,
        "appliance_release": release,
        "operating_system": operating_system,
        "domain": lab.domain,
        "dns_servers": [],
        "ntp_servers": [],
        "registry": f"registry.{lab.domain}:{REGISTRY_PORT}",
        "artifacts": f"artifacts.{lab.domain}:{ARTIFACTS_PORT}",
        "network": {
            "pod_cidr": POD_CIDR,
            "service_cidr": SERVICE_CIDR,
            "lan_cidrs": [str(lab.subnet)],
        },
        "control_plane_endpoint": _endpoint(lab),
        "ssh": {"user": NODE_USER, "private_key": str(private_key)},
        "kubernetes": {
            "ignore_preflight_errors": list(IGNORED_PREFLIGHT_ERRORS),
            "kubelet": KUBELET,
            "kube_proxy": KUBE_PROXY,
        },
        "role_overrides": {"host_base": {"host_base_swap_managed": False}},
        "time": {"may_set_clock": False},
    }


def _endpoint(lab: Lab) -> dict[str, Any]:
    name = f"api.{lab.domain}"
    if sum(node.control_plane for node in lab.nodes) == 1:
        return {"name": name, "port": PLAIN_API_PORT, "balancer": "none"}
    return {
        "name": name,
        "port": BALANCED_API_PORT,
        "balancer": "keepalived",
        "virtual_address": str(lab.subnet.network_address + VIRTUAL_ADDRESS_OFFSET),
    }
