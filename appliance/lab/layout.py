"""The lab as data: names, addresses, stand-ins and the podman options of a node.

What must not be here: podman, files, the clock. Facts about the machine are arguments.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from typing import Any, Literal

from appliance.errors import ConfigError, LabError

CgroupLayout = Literal["v1", "hybrid", "v2"]

# 198.18.0.0/16 is the lower half of the benchmarking range: no real machine has such an address.
# Pods and services use 198.19.0.0/16.
LAB_RANGE = IPv4Network("198.18.0.0/16")
POD_CIDR = "198.19.0.0/17"
SERVICE_CIDR = "198.19.128.0/17"
# What nodes can run, the usual one first; the recipe of their image says which suite each is.
SYSTEMS = ("debian-12", "debian-11")
FIRST_CONTROL_PLANE, FIRST_WORKER = 11, 21
# From a node's address to that of its BMC.
BMC_OFFSET = 200
HARDWARE = "lab/container"
NODE_USER = "appliance"
NETWORK_PREFIX = "appliance-"
NFS_CLIENT = "STANDIN mount_nfs_standin: NFS 4 in user space, through FUSE"

# Files whose presence distinguishes the layouts.
V2_MARKER = "/sys/fs/cgroup/cgroup.controllers"
HYBRID_MARKER = "/sys/fs/cgroup/unified/cgroup.controllers"

_NAME = re.compile(r"[a-z]([a-z0-9-]{0,18}[a-z0-9])?")
_IMAGE = re.compile(r".*/appliance-lab-node:(?P<system>[a-z]+-[0-9.]+)-[0-9a-f]{12}")
_UUIDS = uuid.UUID("7f1c0c54-6a0e-4a53-9d0f-5eedc0ffee00")

_COMMON_OPTIONS = (
    "--privileged",
    "--env=container=podman",
    "--stop-signal=RTMIN+3",
    "--stop-timeout=60",
    "--cgroupns=private",
    # Hosts without CAP_SYS_RESOURCE refuse podman's own, higher limits.
    "--ulimit=nofile=20000:20000",
    "--ulimit=nproc=4096:4096",
    "--no-hosts",
)
# systemd reads this variable instead of the kernel's command line (its page ENVIRONMENT).
_WITHOUT_CGROUP2 = "--env=SYSTEMD_PROC_CMDLINE=systemd.legacy_systemd_cgroup_controller=1"


@dataclass(frozen=True)
class SysctlChange:
    """One sysctl of this machine, before the first lab and now."""

    name: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.name}: {self.before} -> {self.after}"

    def undone(self) -> SysctlChange:
        """The reverse change."""
        return SysctlChange(self.name, self.after, self.before)


def cgroup_layout(present: Collection[str]) -> CgroupLayout:
    """Determine the layout from the marker files that exist."""
    if V2_MARKER in present:
        return "v2"
    return "hybrid" if HYBRID_MARKER in present else "v1"


def node_options(layout: CgroupLayout) -> tuple[str, ...]:
    """Choose podman's options for a node on this kind of host.

    On v1 and hybrid hosts ``--systemd=always`` would mount the host's whole ``name=systemd``
    hierarchy into every node, and all nodes would share one ``kubepods.slice``. There a private
    namespace is enough, and the file systems for systemd are explicit options. On v2 the private
    namespace covers the one hierarchy, and podman's systemd mode mounts it writable.

    On v1 podman gives nodes no cgroup2 of their own. A systemd that mounts cgroup2 sees the host's
    root, as on every other node, and the nodes end each other's units. The last option forbids
    this mount.
    """
    if layout == "v2":
        return ("--systemd=always", *_COMMON_OPTIONS)
    options = ("--systemd=false", "--tmpfs=/run:mode=755", "--tmpfs=/tmp", *_COMMON_OPTIONS)
    return (*options, _WITHOUT_CGROUP2) if layout == "v1" else options


def options_for_markers(present: Collection[str]) -> list[str]:
    """The options for these marker files, for the playbooks' filter."""
    return list(node_options(cgroup_layout(present)))


@dataclass(frozen=True)
class StandIn:
    """A replacement in the lab for a component that a lab cannot have."""

    part: str
    played_by: str
    not_proven: str


_SYSTEM_STAND_INS = {
    "debian-12": StandIn(
        "operating system",
        "Debian 12 in place of Ubuntu 20.04",
        "Ubuntu's own packages, systemd 245, Python 3.8, netplan",
    ),
    "debian-11": StandIn(
        "operating system",
        "Debian 11 in place of Ubuntu 20.04",
        "Ubuntu's own packages, systemd 245 (has 247), Python 3.8 (has 3.9), chrony 3.5 (has 4.0), "
        "netplan",
    ),
}
_OTHER_STAND_INS = (
    StandIn(
        "machine",
        "a privileged container under podman: kernel, clock, swap and sysctls are the host's",
        "boot, kernel modules, setting the clock, turning swap off",
    ),
    StandIn(
        "DMI, DIMMs, GPUs on PCI, boot id",
        "fact files under /etc/appliance-lab/facts, marked standin in all node facts",
        "reading them from real firmware",
    ),
    StandIn(
        "GPUs and NVIDIA's GPU Operator",
        "with --gpus: a chart and an operator of the same names, and a small nvidia-smi",
        "drivers, CUDA, container toolkit, MIG, DCGM, silicon, NVIDIA's own operator",
    ),
    StandIn(
        "NVIDIA's device plugin, GFD, NFD",
        "programs of ours; with --gpu-operands nvidia the real ones, on our NVML and PCI files",
        "NVML, XIDs, MIG devices, the PCI tree",
    ),
    StandIn(
        "BMCs",
        "with --with bmc: bmc_standin, Redfish over TLS; power is that of the container",
        "firmware, its faults, virtual media, a network of BMCs",
    ),
    StandIn(
        "capability SYS_RESOURCE",
        "/usr/local/sbin/runc in each node, on hosts that lack it",
        "negative oom_score_adj of system pods",
    ),
    StandIn(
        "the kernel's NFS client",
        "mount_nfs_standin instead of /sbin/mount.nfs: NFS 4 by libnfs, mounted through FUSE",
        "the kernel's client, its caching, locking and recovery",
    ),
    StandIn(
        "the kernel's NFS server",
        "nfs-ganesha, if the site's nfs section names a node",
        "exportfs and nfsd; tests/lab runs them in a virtual machine",
    ),
    StandIn(
        "nfs-subdir-external-provisioner",
        "a program of ours on the same library, sig-storage-lib-external-provisioner 8.0.0",
        "the real program, its leader election and what it does on deletion",
    ),
    StandIn(
        "vendor bundle",
        "our own charts, admin CLI and script with the documented names and layout",
        "anything that Run:ai itself does",
    ),
    StandIn(
        "network",
        "one internal bridge; the default gateway is an unused address",
        "bonding, VLANs, link speed, MTU above 1500",
    ),
)


def stand_ins(systems: Collection[str] = ()) -> tuple[StandIn, ...]:
    """The stand-ins of labs whose nodes run these systems; of a usual lab if there is none."""
    chosen = [system for system in SYSTEMS if system in systems] or SYSTEMS[:1]
    return (*(_SYSTEM_STAND_INS[system] for system in chosen), *_OTHER_STAND_INS)


@dataclass(frozen=True)
class LabNode:
    """One planned node: its name, its address, and whether it is a control plane."""

    name: str
    address: IPv4Address
    control_plane: bool


@dataclass(frozen=True)
class Lab:
    """One lab: a name, its own /24 and its nodes."""

    name: str
    subnet: IPv4Network
    nodes: tuple[LabNode, ...]

    @property
    def domain(self) -> str:
        """The DNS domain of this lab's names; ``.test`` is reserved and never real."""
        return f"{self.name}.test"

    @property
    def services(self) -> LabNode:
        """The node that also serves the bundle and the registry."""
        return self.nodes[0]


@dataclass(frozen=True)
class RunningNode:
    """One container of a lab as podman shows it."""

    name: str
    lab: str
    state: str
    address: str
    image: str

    @property
    def operating_system(self) -> str:
        """What the node runs, by the name of its image; empty for another image."""
        found = _IMAGE.fullmatch(self.image)
        return found["system"] if found else ""


def require_lab_name(name: str) -> None:
    """Refuse an invalid name: podman matches every lab if the name is empty.

    Raises:
        ConfigError: the name is invalid; a detail states the rule.
    """
    if not _NAME.fullmatch(name):
        raise ConfigError(f"invalid lab name {name!r}", details=[_name_rule(name)])


def _name_rule(name: str) -> str:
    return f"--name {name!r}: use 1 to 20 of a-z, 0-9 and '-', starting with a letter"


def plan_lab(name: str, subnet: IPv4Network, *, control_planes: int, workers: int) -> Lab:
    """Plan a lab, or refuse with every fault of the request."""
    faults = []
    if not _NAME.fullmatch(name):
        faults.append(_name_rule(name))
    if control_planes not in (1, 3):
        faults.append(f"--control-planes {control_planes}: 1 or 3 (etcd needs an odd number)")
    if not 0 <= workers <= 20:
        faults.append(f"--workers {workers}: 0 to 20")
    if faults:
        raise ConfigError(f"the lab {name!r} cannot be created with these options", details=faults)
    first = subnet.network_address
    nodes = [
        LabNode(f"{name}-cp{i + 1}", first + FIRST_CONTROL_PLANE + i, control_plane=True)
        for i in range(control_planes)
    ] + [
        LabNode(f"{name}-w{i + 1}", first + FIRST_WORKER + i, control_plane=False)
        for i in range(workers)
    ]
    return Lab(name, subnet, tuple(nodes))


def choose_subnet(name: str, used: Collection[IPv4Network]) -> IPv4Network:
    """Choose a free /24; the same name gets the same /24 if it is free."""
    start = int.from_bytes(hashlib.sha256(name.encode()).digest()[:2], "big") % 254
    for offset in range(254):
        third = 1 + (start + offset) % 254
        candidate = IPv4Network((int(LAB_RANGE.network_address) + third * 256, 24))
        if not any(candidate.overlaps(network) for network in used):
            return candidate
    raise LabError(
        f"every network of {LAB_RANGE} is in use on this machine",
        hint="list them: podman network ls; remove a lab that you no longer need: "
        "appliance lab down --name NAME",
    )


def node_facts(name: str, *, serial: str | None = None) -> dict[str, dict[str, Any]]:
    """Facts that a container cannot have: identity and DIMMs; each value contains STANDIN.

    They depend only on the name (or ``serial``): a recreated node is the same machine.
    """
    serial = serial or f"STANDIN-{name}"
    return {
        "dmi": {
            "vendor": "STANDIN",
            "product": "STANDIN lab container",
            "serial": serial,
            "board": "STANDIN",
            "bios_version": "STANDIN",
            "bios_date": "STANDIN",
            "chassis_serial": f"{serial}-chassis",
        },
        "storage": {"client": NFS_CLIENT},
        "host": {
            "product_uuid": str(uuid.uuid5(_UUIDS, serial)),
            "boot_id": "set-at-every-start",
        },
        "memory": {
            "dimm_slots": 2,
            "dimms": [
                {
                    "locator": f"STANDIN_{slot}",
                    "size_bytes": 4 * 1024**3,
                    "speed_mts": 2400,
                    "manufacturer": "STANDIN",
                    "part": "STANDIN",
                    "serial": f"{serial}-{slot}",
                }
                for slot in ("A1", "B1")
            ],
        },
    }


def role_variables(
    lab: Lab,
    *,
    public_key: str,
    known_hosts: str,
    facts: Mapping[str, Any] | None = None,
    operating_system: str = SYSTEMS[0],
) -> dict[str, Any]:
    """The variables of role ``lab_node`` for this lab."""
    given = facts or {}
    return {
        "lab_node_lab": lab.name,
        "lab_node_operating_system": operating_system,
        "lab_node_subnet": str(lab.subnet),
        "lab_node_public_key_path": public_key,
        "lab_node_known_hosts_path": known_hosts,
        "lab_node_nodes": [
            {
                "name": node.name,
                "address": str(node.address),
                "facts": {**node_facts(node.name), **given.get(node.name, {})},
            }
            for node in lab.nodes
        ],
    }


def subnet_for(
    name: str, destinations: Collection[str], networks: Collection[Mapping[str, Any]]
) -> str:
    """The /24 of a lab, else a free one.

    Args:
        name: the lab's name.
        destinations: the destinations of this machine's routes.
        networks: podman's list of networks.
    """
    subnets = {
        network["name"]: IPv4Network(subnet["subnet"])
        for network in networks
        for subnet in network.get("subnets") or ()
        if ":" not in subnet["subnet"]
    }
    own = subnets.get(f"{NETWORK_PREFIX}{name}")
    routes = {IPv4Network(text) for text in destinations if text != "default"}
    return str(own or choose_subnet(name, routes | set(subnets.values())))


def platform_nodes(platforms: Sequence[Mapping[str, Any]], subnet: str) -> list[dict[str, Any]]:
    """Nodes of role ``lab_node`` for the platforms of a Molecule scenario."""
    first = IPv4Network(subnet).network_address + FIRST_CONTROL_PLANE
    return [
        {
            "name": platform["name"],
            "address": str(first + position),
            "facts": {**node_facts(platform["name"]), **platform.get("lab_facts", {})},
            "volumes": list(platform.get("lab_volumes", ())),
        }
        for position, platform in enumerate(platforms)
    ]


def platform_instances(
    nodes: Sequence[Mapping[str, Any]], user: str, key: str
) -> list[dict[str, Any]]:
    """Molecule's connection settings for the nodes."""
    return [
        {
            "instance": node["name"],
            "address": node["address"],
            "user": user,
            "port": 22,
            "identity_file": key,
        }
        for node in nodes
    ]
