"""The schema of a probe's document: type, size and pattern of each field that is read.

Every field may be absent or null: such a fact is unknown, and readers handle that.
What must not be here: reading text (:mod:`appliance.model.state.facts.reader`), or judging a fact.
"""

from __future__ import annotations

from typing import Any

from pydantic import Field

from appliance.model.state.facts.forms import (
    Count,
    Digest,
    Hex,
    Identifier,
    Image,
    Interface,
    Mac,
    Moment,
    Name,
    Number,
    Path,
    Scalar,
    Section,
    Text,
    Version,
    WithPrefix,
    Word,
    Words,
)
from appliance.model.state.facts.machine import (
    Clock,
    Cpu,
    Disk,
    Dmi,
    FileSystem,
    Firewall,
    Gpu,
    Host,
    Listener,
    Memory,
    Modules,
    Mount,
    Neighbours,
    Nic,
    NvSwitch,
    OperatingSystem,
    Packages,
    Proxy,
    Resolver,
    Routes,
    Swap,
    Systemd,
    Unit,
)


class Serving(Section):
    ok: bool | None = None
    code: int | None = None
    error: Text | None = None
    url: Text | None = None


class PackageSource(Section):
    line: Text | None = None
    index_sha256: Text | None = None


class Artifacts(Section):
    bundle_digest: Hex | None = None
    complete: bool | None = None
    package_source: PackageSource | None = None
    present: bool | None = None
    serving: Serving | None = None
    signature_sha256: Hex | None = None


class Certificate(Section):
    path: Path | None = None
    subject: Text | None = None
    issuer: Text | None = None
    not_before: Moment | None = None
    not_after: Moment | None = None
    sans: Words | None = None
    sha256: Hex | None = None
    key_matches: bool | None = None
    error: Text | None = None
    server: Text | None = None


class Virtual(Section):
    addresses: list[WithPrefix] | None = None
    mac: Mac | None = None
    mtu: int | None = None
    state: Word | None = None


class Cni(Section):
    bin: Words | None = None
    conf: Words | None = None
    flannel_subnet: Word | None = None
    interfaces: dict[Interface, Virtual] | None = None
    leftovers: Words | None = None


class Issuer(Section):
    error: Text | None = None
    issuer: Text | None = None
    keys: Count | None = None
    ok: bool | None = None
    url: Text | None = None


class Job(Section):
    unit: Word
    active: Word | None = None
    result: Word | None = None
    started: Word | None = None
    command: Text | None = None
    record: dict[Word, Scalar] | None = None


class TimedRun(Section):
    began: Number | None = None
    ended: Number | None = None
    outcome: Word | None = None
    why: Word | None = None
    id: Word | None = None
    size: Count | None = None
    sha256: Hex | None = None
    lacking: Count | None = None
    first_lack: Word | None = None
    renewed: Word | None = None
    restarted: Word | None = None
    kept: Path | None = None
    copies_end: Word | None = None


class Timer(Section):
    active: Word | None = None
    age: bool | None = None
    enabled: bool | None = None
    failed: bool | None = None
    failures: Count | None = None
    last: TimedRun | None = None
    running: bool | None = None
    settings: dict[Word, Any] | None = None
    success: TimedRun | None = None


class ApiServer(Section):
    advertise_address: Word | None = None
    change_unfinished: bool | None = None
    etcd_servers: Text | None = None
    image: Word | None = None
    oidc: dict[Word, Text] | None = None
    oidc_ca_sha256: Hex | None = None
    service_cidr: Word | None = None


class EtcdData(Section):
    bytes: Count | None = None
    member_dir: bool | None = None
    present: bool | None = None


class ResetBegun(Section):
    node: Name | None = None
    ca_sha256: Identifier | None = None


class Kubernetes(Section):
    api_healthz: Serving | None = None
    apiserver: ApiServer | None = None
    bootstrap_kubeconfig: bool | None = None
    etcd_data: EtcdData | None = None
    kubeadm_config: bool | None = None
    kubeadm_flags: Text | None = None
    kubeadm_version: Version | None = None
    kubeconfigs: list[Certificate] | None = None
    kubectl_version: Version | None = None
    kubelet_active: bool | None = None
    kubelet_config: dict[Word, Any] | None = None
    kubelet_renewal_begun: bool | None = None
    kubelet_version: Version | None = None
    manifests: Words | None = None
    node_ip: Word | None = None
    pki: list[Certificate] | None = None
    renewal_begun: bool | None = None
    reset_begun: ResetBegun | None = None


class Registry(Section):
    configured: bool | None = None
    images: dict[Image, Digest] | None = None
    logins: dict[Word, dict[Word, Word | None]] | None = None
    missing_blobs: Words | None = None
    serving: Serving | None = None
    storage: Path | None = None
    writing: Serving | None = None


class VendorRecord(Section):
    path: Path | None = None
    deploy: Path | None = None
    version: Version | None = None
    sha256: Hex | None = None
    file_name: Path | None = None
    size: Count | None = None
    files: dict[Path, Count] | None = None
    charts: list[list[Scalar]] | None = None
    images: list[list[Word]] | None = None


class RunaiDump(Section):
    path: Path | None = None
    bytes: Count | None = None
    sha256: Hex | None = None
    tables: Count | None = None
    taken: Number | None = None


class RunaiUpgrade(Section):
    source: VendorRecord | None = None
    target_sha256: Hex | None = None
    target_version: Version | None = None
    revisions: dict[Word, Count] | None = None
    folder: Path | None = None
    dump: RunaiDump | None = None
    dump_is_there: bool | None = None
    merged: bool | None = None
    differences: Words | None = None
    verified: bool | None = None
    rolled_back: bool | None = None


class RunAi(Section):
    admin_cli: bool | None = None
    bundle: VendorRecord | None = None
    certificate: Certificate | None = None
    held_bytes: Count | None = None
    prepared: Word | None = None
    unpacked: bool | None = None
    upgrade: RunaiUpgrade | None = None


class Containerd(Section):
    cgroup_driver: Word | None = None
    containers_of_pods: Count | None = None
    default_runtime: Word | None = None
    namespaces: Words | None = None
    version: Version | None = None


class Docker(Section):
    cgroup_driver: Word | None = None
    cgroup_version: Word | None = None
    containers_foreign: Words | None = None
    containers_of_pods: Count | None = None
    containers_running: Count | None = None
    daemon_json: dict[Word, Any] | None = None
    daemon_json_error: Text | None = None
    data_bytes: Count | None = None
    data_containers: Count | None = None
    data_drivers: Words | None = None
    data_present: bool | None = None
    data_root: Path | None = None
    default_runtime: Word | None = None
    foreign_running: Words | None = None
    images: Words | None = None
    images_only_here: Words | None = None
    storage_driver: Word | None = None
    version: Version | None = None


class Runtime(Section):
    containerd: Containerd | None = None
    docker: Docker | None = None


class Export(Section):
    error: Text | None = None
    path: Path | None = None
    reachable: bool | None = None
    server: Word | None = None


class LocalFolder(Section):
    empty: bool | None = None
    exists: bool | None = None
    folders: Words = Field(default_factory=list)
    free_bytes: Count | None = None
    fstype: Word | None = None
    made_by_us: bool | None = None
    marked: bool | None = None
    mode: Word | None = None
    mount: Path | None = None
    owner: int | None = None
    size_bytes: Count | None = None


class StorageTest(Section):
    server: Word | None = None
    path: Path | None = None
    options: Words = Field(default_factory=list)
    folders: Words | None = None
    version: Word | None = None
    free_bytes: Count | None = None
    fsync_ms: Number


class Storage(Section):
    client: Word | None = None
    export: Export | None = None
    local: LocalFolder | None = None
    proof: StorageTest | None = None
    served: Word | None = None


class Trust(Section):
    containerd: dict[Word, Hex | None] | None = None
    docker: dict[Word, Hex | None] | None = None
    site_ca_not_after: Moment | None = None
    site_ca_sha256: Hex | None = None
    system: bool | None = None


class Unread(Section):
    reason: Text
    section: Word


class Facts(Section):
    """One document of the probe, of schema 1."""

    schema_number: int = Field(alias="schema")
    probe_version: Word | None = None
    taken_at: Number | None = None
    took_seconds: Number | None = None
    standin: Words | None = None
    unreadable: list[Unread] | None = None
    unseen: dict[Word, Text] | None = None
    artifacts: Artifacts | None = None
    certificates: list[Certificate] | None = None
    clock: Clock | None = None
    cni: Cni | None = None
    cpu: Cpu | None = None
    disks: list[Disk] | None = None
    dmi: Dmi | None = None
    filesystems: list[FileSystem] | None = None
    firewall: Firewall | None = None
    gpus: list[Gpu] | None = None
    nvswitches: list[NvSwitch] | None = None
    host: Host | None = None
    hypervisor: Word | None = None
    issuer: Issuer | None = None
    jobs: list[Job] | None = None
    kubernetes: Kubernetes | None = None
    listening: list[Listener] | None = None
    memory: Memory | None = None
    modules: Modules | None = None
    mounts: list[Mount] | None = None
    neighbours: Neighbours | None = None
    nics: list[Nic] | None = None
    os: OperatingSystem | None = None
    packages: Packages | None = None
    programs: dict[Word, bool | None] | None = None
    proxy: Proxy | None = None
    registry: Registry | None = None
    resolver: Resolver | None = None
    routes: Routes | None = None
    runai: RunAi | None = None
    runtime: Runtime | None = None
    services: dict[Word, Unit] | None = None
    storage: Storage | None = None
    swap: Swap | None = None
    sysctl: dict[Word, Word | None] | None = None
    sysctl_persisted: dict[Word, Word | None] | None = None
    systemd: Systemd | None = None
    timers: dict[Word, Timer] | None = None
    trust: Trust | None = None
