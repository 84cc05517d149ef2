"""The Protocols of the lab workflows' adapters."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from ipaddress import IPv4Network
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from appliance.lab.bmcs import LabBmc, LabBmcsState
    from appliance.lab.layout import RunningNode, SysctlChange
    from appliance.lab.site.site import LabSite
    from appliance.model.node.bmc.report import Login
    from appliance.model.upgrade.rehearsal.likeness import Likeness


class LabHost(Protocol):
    """The machine of a lab."""

    def is_root(self) -> bool:
        """Whether this process may create containers."""

    def operating_system(self) -> str:
        """The operating system as releases name it: ID-VERSION_ID of os-release."""

    def serves(self, operating_system: str) -> bool:
        """Whether the archives of this machine's apt sources have packages for such nodes."""

    def programs(self, names: Collection[str]) -> frozenset[str]:
        """The installed ones of these programs."""

    def install(self, packages: Sequence[str]) -> None:
        """Install packages with apt."""

    def networks(self) -> frozenset[IPv4Network]:
        """Networks that this machine has a route to or an address in."""

    def changed_sysctls(self) -> tuple[SysctlChange, ...]:
        """Sysctls that differ from their values before the first lab."""

    def sysctls(self, names: Collection[str]) -> dict[str, str]:
        """The current values of these sysctls, as far as this machine has them."""


class LabContainers(Protocol):
    """Podman's state, read-only."""

    def nodes(self, lab: str | None = None) -> tuple[RunningNode, ...]:
        """The nodes of one lab, or of all."""

    def subnets(self) -> dict[str, IPv4Network]:
        """The network of each lab that has one."""

    def closed(self) -> frozenset[str]:
        """The labs whose networks have no way out."""


class LabPlays(Protocol):
    """Playbooks that run on this machine."""

    def run(self, playbook: str, variables: dict[str, Any]) -> None:
        """Run one playbook to its end.

        Raises:
            LabError: the playbook failed; names the task and the reason.
        """


class LabSites(Protocol):
    """Site directories of labs."""

    def exists(self, directory: Path) -> bool:
        """Whether the directory has a site."""

    def make_key(self, directory: Path) -> Path:
        """Create a key pair for the nodes if there is none; return the private key's path."""

    def write(self, directory: Path, site: LabSite) -> None:
        """Write the site."""

    def keep_likeness(self, directory: Path, like: Likeness) -> None:
        """Write down which site the lab is like, and in what it differs."""

    def matches(self, directory: Path, site: LabSite) -> tuple[str, ...]:
        """The differences between the existing site and the requested lab."""

    def give_bmcs(
        self, directory: Path, bmcs: Sequence[LabBmc], fingerprints: Mapping[str, str]
    ) -> Mapping[str, Login]:
        """Write BMCs into a site, with a login in its vault; return node -> login.

        Raises:
            Refused: a node has another BMC, or the vault's password is not known.
            ConfigError: the vault cannot be opened or written.
        """


class LabBmcs(Protocol):
    """The programs that are BMCs of labs: one for each lab that has them."""

    def certificates(self, directory: Path, bmcs: Sequence[LabBmc]) -> Mapping[str, str]:
        """Make the certificates that are missing; node -> the SHA-256 fingerprint of its own."""

    def start(
        self,
        lab: str,
        network: IPv4Network,
        directory: Path,
        bmcs: Sequence[LabBmc],
        logins: Mapping[str, Login],
    ) -> bool:
        """Start the program of a lab; False: it runs, with these BMCs and logins.

        Raises:
            LabError: it did not start.
        """

    def running(self, lab: str | None = None) -> tuple[LabBmcsState, ...]:
        """What was started for one lab, or for all, and not yet stopped."""

    def stop(self, lab: str) -> bool:
        """End the program of a lab, and take its addresses back; False: there was none.

        Raises:
            LabError: it did not end.
        """
