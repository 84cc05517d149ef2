"""A site: one appliance at one customer, as its inventory directory says it is.

The settings mirror ``group_vars/all/site.yml`` key by key, the node settings ``host_vars/*.yml``.
They say what one value may be; what several values say together is checked in
:mod:`appliance.model.checks.site`. What must not be here: reading files, and role variables.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, StrictInt

from appliance.model.site import addresses, groups
from appliance.model.site.external_registry import ExternalRegistry
from appliance.model.site.fields import (
    Address,
    CertificateFingerprint,
    Device,
    DnsName,
    ExportPath,
    Flag,
    Host,
    HostPort,
    Interface,
    JumpHost,
    Mac,
    Mtu,
    Network,
    Port,
    ProgramPath,
    RedfishId,
    Settings,
    Text,
    User,
    Zone,
)
from appliance.model.site.imaging_settings import Imaging, NodeImaging
from appliance.model.site.recovery.backup_settings import Backup
from appliance.model.site.recovery.etcd_restore import EtcdRestore
from appliance.model.site.runai_settings import Gpu, Runai

Balancer = Literal["none", "site", "keepalived"]
NfsVersion = Literal["negotiated", "v3", "v4.0", "v4.1", "v4.2"]


class Nfs(Settings):
    """A shared folder that every member can mount."""

    server: Host
    """Name or address of the NFS server; if it is a node of the site, the appliance sets it up."""
    path: ExportPath
    """The exported folder."""
    version: NfsVersion = "negotiated"
    """negotiated: the newest that server and node share; else the one version that is used."""
    locks: Literal["server", "node"] = "server"
    """node: a filer with version 3 and no lock service; locks then hold on one node only."""
    minimum_free_gb: Annotated[StrictInt, Field(ge=1)] = 110
    """Free space needed before first use, in GB; Run:ai's own volumes take 110."""
    volumes: Annotated[StrictInt, Field(ge=0, le=99)] = 4
    """Number of PersistentVolumes made beforehand; the provisioner makes more for claims."""
    volume_gib: Annotated[StrictInt, Field(ge=1)] = 110
    """Size of each PersistentVolume in GiB; it only matches claims, NFS enforces no limit."""
    fsync_warning_ms: Annotated[StrictInt, Field(ge=1)] = 25
    """A slower median fsync gives a warning; 25 ms are three turns of a disk."""


class NetworkSettings(Settings):
    """The ranges of the cluster and of the LAN under it."""

    pod_cidr: Network = IPv4Network("10.244.0.0/16")
    """Range of pod addresses; each node takes a /24 of it."""
    service_cidr: Network = IPv4Network("10.96.0.0/12")
    """Range of service addresses; never seen on the LAN."""
    lan_cidrs: tuple[Network, ...] | None = None
    """The LANs of the nodes; null: taken from the nodes' addresses."""
    interface: Device | None = None
    """The interface that flannel uses on every node; null: the one with the node's address."""
    mtu: Mtu = 1500
    """MTU of the LAN; the pod network takes 50 bytes of it for VXLAN."""


class Endpoint(Settings):
    """Where the API answers: always a name, so that one control plane can become three."""

    name: DnsName
    """The name in every kubeconfig and certificate."""
    port: Port = 6443
    """6443; 8443 with keepalived, because haproxy shares the node with the API server."""
    balancer: Balancer = "none"
    """none: one control-plane node; site: the site's own; keepalived: from the bundle."""
    virtual_address: Address | None = None
    """The load balancer's address; only with site or keepalived."""


class Ssh(Settings):
    """How the tool reaches the nodes; the same for Ansible and for the probe."""

    user: User = "ubuntu"
    """The user who logs in."""
    port: Port = 22
    """The port of sshd."""
    private_key: Text | None = None
    """Path of the private key on the control host; null: the SSH agent's."""
    jump_host: JumpHost | None = None
    """[USER@]HOST[:PORT] of the SSH jump host; null: none."""
    become: Flag = True
    """Whether the user becomes root with sudo."""
    become_password: Flag = False
    """true: sudo asks the user for a password; it is vault_become_password in the vault."""
    python: ProgramPath = "/usr/bin/python3"
    """Python on the nodes."""


class RenewCertificates(Settings):
    """When a control-plane node renews kubeadm's certificates without a control host."""

    enabled: Flag = True
    """false: no node has the timer; without the section, nobody takes off one that is there."""
    within_days: Annotated[StrictInt, Field(ge=10, le=180)] = 45
    """Certificates with fewer days left are renewed."""
    hour: Annotated[StrictInt, Field(ge=0, le=23)] = 3
    """The hour of the day in the node's own time; each control plane looks an hour later."""


class KubernetesSettings(Settings):
    """What this site asks of Kubernetes beyond the release."""

    ignore_preflight_errors: tuple[Text, ...] = ()
    """kubeadm's preflight checks to ignore, by name."""
    kubelet: dict[str, Any] = Field(default_factory=dict)
    """Merged into the KubeletConfiguration."""
    kube_proxy: dict[str, Any] = Field(default_factory=dict)
    """Merged into the KubeProxyConfiguration."""
    renew_certificates: RenewCertificates | None = None
    """A timer renews kubeadm's certificates on each control plane; null: only an operator does."""


class Certificates(Settings):
    """Who vouches for the site's own names."""

    organisation_ca: Text | None = None
    """Path of the organisation's CA certificate; null: the site CA in the vault."""


class TimeSettings(Settings):
    """What the tool may do to the nodes' clocks."""

    may_set_clock: Flag = True
    """false: chronyd only monitors the clock, because another program sets it."""


class SiteSettings(Settings):
    """The keys of group_vars/all/site.yml."""

    site_name: Text | None = None
    """Name of this appliance; null: the name of the site's folder."""
    appliance_release: Text
    """The release to install, as in `appliance bundle build --release`."""
    operating_system: Text
    """Operating system of the nodes: ubuntu-20.04; debian-12 or debian-11 in a lab."""
    domain: Zone
    """The DNS zone of the appliance's names."""
    dns_servers: tuple[Address, ...] = Field(default=(), max_length=3)
    """DNS servers, at most three; empty: names only in /etc/hosts."""
    ntp_servers: tuple[Host, ...] = ()
    """NTP servers; empty: nodes follow the control plane's clock, even if it is wrong."""
    registry: HostPort
    """NAME:PORT of the image registry on the services host, or of external_registry."""
    external_registry: ExternalRegistry | None = None
    """The organisation's own registry; null: the appliance runs one on the services host."""
    artifacts: HostPort
    """NAME:PORT of the bundle server on the services host."""
    nfs: Nfs | None = None
    """Shared storage for Run:ai; may come later."""
    gpu: Gpu | None = None
    """NVIDIA's GPU Operator; null: pods get no GPUs."""
    runai: Runai | None = None
    """Run:ai itself; null: the install ends with a cluster."""
    network: NetworkSettings = NetworkSettings()
    control_plane_endpoint: Endpoint
    ssh: Ssh = Ssh()
    kubernetes: KubernetesSettings = KubernetesSettings()
    certificates: Certificates = Certificates()
    etcd_restore: EtcdRestore = EtcdRestore()
    backup: Backup | None = None
    """Encrypted backups of the whole appliance; null: none are made, and nothing asks for one."""
    imaging: Imaging | None = None
    """How bare servers get their operating system; null: it is installed by hand."""
    role_overrides: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Overrides of role variables: role, variable, value."""
    bundle_signers: Text | None = None
    """Path of an ssh allowed_signers file, from the site's directory; null: accept any bundle."""
    time: TimeSettings = TimeSettings()
    system_nodes_shared: Flag = False
    """true: a system node may also be a GPU or CPU worker."""


class NodeSettings(Settings):
    """The keys of host_vars/<node>.yml."""

    address: Interface
    """The node's own address on the LAN, with its prefix length."""
    hardware: Text | None = None
    """<vendor>/<model> of hardware/; null: not qualified."""
    gpus: Annotated[StrictInt, Field(ge=0, le=64)] | None = None
    """How many GPUs were ordered in it, for `hardware qualify`; null: its model's file says."""
    bmc_address: Address | None = None
    """The address of its BMC."""
    bmc_fingerprint: CertificateFingerprint | None = None
    """SHA-256 of the BMC's certificate; null: signed by vault_bmc_ca_certificate or the site CA."""
    bmc_system: RedfishId | None = None
    """The BMC's Redfish system that is this node, where it lists several; null: its only one."""
    mac: Mac | None = None
    """MAC of the interface that carries the address."""
    imaging: NodeImaging | None = None
    """How `node image` installs this server; null: its system is installed by hand."""
    notes: Text | None = None
    """Notes for people; the tool ignores them."""


@dataclass(frozen=True)
class Node:
    """One host of the inventory."""

    name: str
    address: IPv4Interface
    groups: frozenset[str]
    hardware: str | None = None
    bmc_address: IPv4Address | None = None
    bmc_fingerprint: str | None = None
    bmc_system: str | None = None
    mac: str | None = None
    notes: str | None = None
    imaging: NodeImaging | None = None
    gpus: int | None = None

    @cached_property
    def ip(self) -> str:
        """The address without its prefix."""
        return str(self.address.ip)

    @property
    def in_cluster(self) -> bool:
        """Whether Kubernetes runs here."""
        return bool(self.groups & groups.CLUSTER_GROUPS)


@dataclass(frozen=True)
class Site:
    """A site whose directory was found to be without fault."""

    name: str
    directory: Path
    settings: SiteSettings
    nodes: tuple[Node, ...]
    warnings: tuple[str, ...] = ()

    def in_group(self, group: str) -> tuple[Node, ...]:
        """Return the nodes of one group, in the inventory's order."""
        return tuple(node for node in self.nodes if group in node.groups)

    def node(self, name: str) -> Node:
        """Return the node of that name.

        Raises:
            KeyError: when the site has none.
        """
        return self._by_name[name]

    def without(self, names: Collection[str]) -> Site:
        """The same site without some of its nodes."""
        return replace(self, nodes=tuple(node for node in self.nodes if node.name not in names))

    @cached_property
    def _by_name(self) -> dict[str, Node]:
        return {node.name: node for node in self.nodes}

    @cached_property
    def by_address(self) -> Mapping[str, Node]:
        """The nodes by their own address; no two share one."""
        return {node.ip: node for node in self.nodes}

    @cached_property
    def control_plane(self) -> tuple[Node, ...]:
        """The control-plane nodes."""
        return self.in_group(groups.CONTROL_PLANE)

    @cached_property
    def cluster_members(self) -> tuple[Node, ...]:
        """Every node that runs Kubernetes."""
        return tuple(node for node in self.nodes if node.in_cluster)

    @cached_property
    def workers(self) -> tuple[Node, ...]:
        """Every member of the cluster that is not a control-plane node."""
        return tuple(n for n in self.cluster_members if groups.CONTROL_PLANE not in n.groups)

    @cached_property
    def services_node(self) -> Node:
        """The one host that serves the bundle and the registry."""
        (node,) = self.in_group(groups.SERVICES)
        return node

    @property
    def vendor_node(self) -> Node:
        """Where the vendor's bundle is unpacked: Docker and kubectl are on members alone."""
        services = self.services_node
        return services if services.in_cluster else self.control_plane[0]

    @property
    def system_nodes(self) -> tuple[Node, ...]:
        """The nodes for Run:ai's own software; the control plane only where the site allows it."""
        named, runai = self.in_group(groups.SYSTEM_NODES), self.settings.runai
        shared = runai and runai.system_on_control_plane
        return self.control_plane if shared and not named else named

    @property
    def runai_addresses(self) -> tuple[str, ...]:
        """Where the backend answers: as the site says, else on each of its system nodes."""
        given = self.settings.runai.address if self.settings.runai else None
        if given is not None:
            return (str(given),)
        return tuple(node.ip for node in self.system_nodes) or (self.vendor_node.ip,)

    @property
    def runai_address(self) -> str:
        """The first of them."""
        return self.runai_addresses[0]

    @property
    def lan_cidrs(self) -> tuple[IPv4Network, ...]:
        """The LANs as settings say, else as the nodes' addresses do."""
        if self.settings.network.lan_cidrs is not None:
            return self.settings.network.lan_cidrs
        return tuple(sorted({node.address.network for node in self.nodes}))

    @property
    def image_prefix(self) -> str:
        """What stands before an image's name when a node pulls it."""
        external = self.settings.external_registry
        project = external.project if external else None
        return f"{self.settings.registry}/{project}" if project else self.settings.registry

    @property
    def registry_name(self) -> str:
        """The registry's name without its port."""
        return addresses.split_host_port(self.settings.registry)[0]

    @property
    def registry_port(self) -> int:
        """The registry's port."""
        return addresses.split_host_port(self.settings.registry)[1]

    @property
    def artifacts_name(self) -> str:
        """The bundle server's name without its port."""
        return addresses.split_host_port(self.settings.artifacts)[0]

    @property
    def artifacts_port(self) -> int:
        """The bundle server's port."""
        return addresses.split_host_port(self.settings.artifacts)[1]

    @property
    def runai_domain(self) -> str:
        """The backend's name."""
        given = self.settings.runai.domain if self.settings.runai else None
        return given or f"runai.{self.settings.domain}"

    @property
    def endpoint_address(self) -> IPv4Address:
        """The address that the endpoint's name means: the balancer's, else the control plane's."""
        virtual = self.settings.control_plane_endpoint.virtual_address
        return virtual if virtual is not None else self.control_plane[0].address.ip

    @property
    def known_hosts(self) -> Path:
        """The host keys the operator confirmed."""
        return self.directory / "known_hosts"

    @property
    def known_bundle(self) -> Path:
        """The digest of the bundle that was handed over last."""
        return self.directory / "known_bundle"

    @property
    def state_directory(self) -> Path:
        """Runs, journal, facts: git-ignored, 0700."""
        return self.directory / ".appliance"

    @property
    def vault_file(self) -> Path:
        """Every secret, encrypted."""
        return self.directory / "group_vars" / "all" / "vault.yml"
