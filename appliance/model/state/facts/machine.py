"""The schema of the machine's facts: hardware, system, network, packages."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from appliance.model.state.facts.forms import (
    Address,
    Count,
    Identifier,
    Interface,
    Mac,
    Name,
    Network,
    Number,
    Package,
    Path,
    Section,
    Serial,
    Text,
    Version,
    WithPrefix,
    Word,
    Words,
)


class Clock(Section):
    epoch: Number | None = None
    offset_seconds: Number | None = None
    service: Word | None = None
    source: Word | None = None
    stratum: int | None = None
    synchronised: bool | None = None
    timezone: Word | None = None


class Cpu(Section):
    cores: Count | None = None
    model: Word | None = None
    sockets: Count | None = None
    threads: Count | None = None
    vendor: Word | None = None


class Disk(Section):
    name: Word
    size_bytes: Count | None = None
    serial: Word | None = None
    wwn: Word | None = None
    model: Word | None = None
    transport: Word | None = None
    rotational: bool | None = None


class Dmi(Section):
    vendor: Word | None = None
    product: Word | None = None
    board: Word | None = None
    bios_date: Word | None = None
    bios_version: Word | None = None
    serial: Serial | None = None
    board_serial: Serial | None = None
    chassis_serial: Serial | None = None


class FileSystem(Section):
    mount: Path
    device: Path | None = None
    fstype: Word | None = None
    read_only: bool | None = None
    size_bytes: Count
    free_bytes: Count
    free_inodes_percent: int
    folders: Words = Field(alias="for")


class Firewall(Section):
    firewalld_active: bool | None = None
    nftables_active: bool | None = None
    ufw_active: bool | None = None
    foreign_rules: list[Text] | None = None
    iptables_rules_foreign: Count | None = None
    pod_guard: list[Text] | None = None
    policies: dict[Word, Word] | None = None


class Gpu(Section):
    address: Word
    vendor_id: Word | None = None
    device_id: Word | None = None
    numa_node: int | None = None
    link_width: Count | None = None
    max_link_width: Count | None = None
    link_speed: Word | None = None
    driver: Word | None = None
    uuid: Word | None = None
    ecc_uncorrected: Count | None = None


class Host(Section):
    boot_id: Identifier | None = None
    fqdn: Word | None = None
    hostname: Name | None = None
    machine_id: Identifier | None = None
    product_uuid: Serial | None = None
    uptime_seconds: Number | None = None


class Listener(Section):
    port: Annotated[int, Field(ge=0, le=65535)]
    proto: Word
    address: Address
    process: Word | None = None


class Dimm(Section):
    locator: Word | None = None
    size_bytes: Count | None = None
    speed_mts: Count | None = None
    manufacturer: Word | None = None
    part: Word | None = None
    serial: Word | None = None


class Memory(Section):
    available_bytes: Count | None = None
    total_bytes: Count | None = None
    dimm_slots: Count | None = None
    dimms: list[Dimm] | None = None


class Modules(Section):
    available: bool | None = None
    blacklisted: Words | None = None
    builtin: Words | None = None
    loaded: Words | None = None
    nvidia_version: Version | None = None
    nvidia_kernels: Words | None = None
    persisted: Words | None = None


class Mount(Section):
    device: Path | None = None
    fstype: Word | None = None
    mount: Path


class Neighbour(Section):
    address: Address
    mac: Mac
    dev: Interface | None = None


class Neighbours(Section):
    conflicts: list[Neighbour] | None = None
    table: list[Neighbour] | None = None


class Nic(Section):
    name: Interface
    addresses: list[WithPrefix] | None = None
    driver: Word | None = None
    kind: Word | None = None
    mac: Mac | None = None
    permanent_mac: Mac | None = None
    mtu: Count | None = None
    speed_mbps: int | None = None
    state: Word | None = None


class NvSwitch(Section):
    address: Word
    device_id: Word | None = None


class OperatingSystem(Section):
    architecture: Word | None = None
    cgroup: Word | None = None
    codename: Word | None = None
    id: Name | None = None
    init: Word | None = None
    kernel: Word | None = None
    pretty: Word | None = None
    python: Version | None = None
    secure_boot: bool | None = None
    version_id: Version | None = None


class AptSource(Section):
    file: Path | None = None
    line: Text | None = None


class UnattendedUpgrades(Section):
    blacklist: Words | None = None
    enabled: bool | None = None
    installed: bool | None = None


class Packages(Section):
    apt_sources: list[AptSource] | None = None
    broken: Words | None = None
    dpkg_interrupted: bool | None = None
    holds: list[Package] | None = None
    installed: dict[Package, Version] | None = None
    manager_lock_held_by: Text | None = None
    manager_lock_unit: Word | None = None
    unattended_upgrades: UnattendedUpgrades | None = None


class Proxy(Section):
    apt: Text | None = None
    docker: dict[Word, Text] | None = None
    environment: dict[Word, Text] | None = None


class Resolver(Section):
    hosts: dict[Word, Words] | None = None
    nameservers: Words | None = None
    options: Words | None = None
    resolves: dict[Word, list[Address]] | None = None
    search: Words | None = None
    stub: bool | None = None
    upstream: Words | None = None
    wildcard: Words | None = None


class Route(Section):
    dev: Interface | None = None
    metric: int | None = None
    to: Network
    via: Address | None = None


class DefaultRoute(Section):
    dev: Interface | None = None
    via: Address | None = None


class Routes(Section):
    default: DefaultRoute | None = None
    routes: list[Route] | None = Field(alias="list", default=None)


class Unit(Section):
    active: Word | None = None
    enabled: Word | None = None
    load: Word | None = None
    result: Word | None = None
    sub: Word | None = None


class Swap(Section):
    active: Words | None = None
    fstab: list[Text] | None = None
    units: Words | None = None


class Systemd(Section):
    failed: Words | None = None
    state: Word | None = None
    version: Word | None = None
