"""What the lab's workflows need from the outside, as Protocols."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from ipaddress import IPv4Network
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from appliance.model.lab import RunningNode, SysctlChange
    from appliance.model.lab_site import LabSite


class LabHost(Protocol):
    """The machine that a lab runs on."""

    def is_root(self) -> bool:
        """Whether we may make containers here at all."""

    def operating_system(self) -> str:
        """What runs here, as releases name it: ID-VERSION_ID of os-release."""

    def programs(self, names: Collection[str]) -> frozenset[str]:
        """Which of these programs are there."""

    def install(self, packages: Sequence[str]) -> None:
        """Install packages with apt."""

    def networks(self) -> frozenset[IPv4Network]:
        """Networks that this machine has a route to or an address in."""

    def changed_sysctls(self) -> tuple[SysctlChange, ...]:
        """Sysctls that differ from what they were before the first lab, one sentence each."""

    def sysctls(self, names: Collection[str]) -> dict[str, str]:
        """Those of these sysctls that this machine has, and their values now."""


class LabContainers(Protocol):
    """podman, for reading."""

    def nodes(self, lab: str | None = None) -> tuple[RunningNode, ...]:
        """The nodes of one lab, or of all."""

    def subnets(self) -> dict[str, IPv4Network]:
        """The network of each lab that has one."""


class LabPlays(Protocol):
    """Playbooks that run on this machine itself."""

    def run(self, playbook: str, variables: dict[str, Any]) -> None:
        """Run one playbook to its end.

        Raises:
            LabError: it failed; says which task, and why.
        """


class LabSites(Protocol):
    """Site directories of labs."""

    def exists(self, directory: Path) -> bool:
        """Whether a site is there already."""

    def make_key(self, directory: Path) -> Path:
        """Have a key pair for the nodes; returns the private key's path."""

    def write(self, directory: Path, site: LabSite) -> None:
        """Write the site."""

    def matches(self, directory: Path, site: LabSite) -> tuple[str, ...]:
        """What in the site that is there contradicts the lab that was asked for."""
