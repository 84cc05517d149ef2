"""A partly read site for the checks: every readable part, with its lines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from pathlib import Path
from typing import Any, Final

from appliance.model.site.files.diagnostics import Document, ReadResult, SiteFault, Where
from appliance.model.site.files.hosts import Hosts
from appliance.model.site.settings import Node, NodeSettings, Site, SiteSettings

SETTINGS_PLACEHOLDERS: Final[dict[Where, Any]] = {
    ("appliance_release",): "unknown",
    ("operating_system",): "unknown",
    ("domain",): "unknown.invalid",
    ("registry",): "registry.unknown.invalid:5000",
    ("artifacts",): "artifacts.unknown.invalid:9443",
    ("control_plane_endpoint",): {"name": "api.unknown.invalid"},
    ("control_plane_endpoint", "name"): "api.unknown.invalid",
}
"""What to go on with when a required key is refused; checks that read it are then skipped."""

NODE_PLACEHOLDERS: Final[dict[Where, Any]] = {("address",): "192.0.2.1/24"}


@dataclass(frozen=True)
class KnownContent:
    """What the installed content offers a site to choose from.

    Attributes:
        releases: release -> the operating systems it is tested on.
        hardware: the models, as <vendor>/<model>.
        gpu_hardware: those of them that have room for GPUs.
        roles: role -> its public variables (empty: not known, only the prefix is checked).
    """

    releases: Mapping[str, frozenset[str]]
    hardware: frozenset[str]
    gpu_hardware: frozenset[str] = frozenset()
    roles: Mapping[str, frozenset[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class NodeDraft:
    """One host_vars file and what came of it."""

    document: Document
    checked: ReadResult[NodeSettings]

    @property
    def address(self) -> IPv4Interface | None:
        """The node's address, when it could be read."""
        if self.checked.value is None or not self.checked.sound(("address",)):
            return None
        return self.checked.value.address

    @property
    def bmc_address(self) -> IPv4Address | None:
        """The address of its BMC, when one is written and could be read."""
        return self.checked.value.bmc_address if self.checked.value else None

    @property
    def bmc_system(self) -> str | None:
        """The system of that BMC, when one is written and could be read."""
        return self.checked.value.bmc_system if self.checked.value else None


@dataclass(frozen=True)
class Draft:
    """All of a site, with faults still in it."""

    hosts: Hosts
    document: Document
    settings: ReadResult[SiteSettings]
    nodes: Mapping[str, NodeDraft]

    @property
    def value(self) -> SiteSettings | None:
        """The settings as far as they could be read."""
        return self.settings.value

    def sound(self, *places: Where) -> bool:
        """Say whether the settings at ``places`` are as somebody wrote them."""
        return self.settings.value is not None and self.settings.sound(*places)

    def fault(self, where: Where, problem: str, remedy: str) -> SiteFault:
        """Make a fault in site.yml."""
        return self.document.fault(where, problem, remedy)

    def addresses(self) -> dict[str, IPv4Interface]:
        """The address of each node in the inventory that has a readable one."""
        found = {}
        for name in self.hosts.groups:
            node = self.nodes.get(name)
            if node is not None and node.address is not None:
                found[name] = node.address
        return found

    def lans(self) -> tuple[IPv4Network, ...]:
        """The LANs as written, else as the nodes' addresses say."""
        if self.value is not None and self.value.network.lan_cidrs is not None:
            return self.value.network.lan_cidrs
        return tuple(sorted({address.network for address in self.addresses().values()}))

    def finished(self, directory: Path, warnings: tuple[str, ...]) -> Site:
        """Make the site of a draft that has no fault."""
        if self.value is None:
            raise ValueError(directory)
        nodes = []
        for name, groups in self.hosts.groups.items():
            settings = self.nodes[name].checked.value
            if settings is None:
                raise ValueError(name)
            nodes.append(
                Node(
                    name,
                    settings.address,
                    groups,
                    settings.hardware,
                    settings.bmc_address,
                    settings.bmc_fingerprint,
                    settings.bmc_system,
                    settings.mac,
                    settings.notes,
                    settings.imaging,
                    settings.gpus,
                )
            )
        name = self.value.site_name or directory.resolve().name
        return Site(name, directory, self.value, tuple(nodes), warnings)
