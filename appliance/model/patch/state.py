"""What a node says of its packages: one answer of :mod:`appliance.adapters.ssh.packages`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from appliance.model.bundle.installed import InstalledPackages

REASON: Final = "patch of its packages"


@dataclass(frozen=True)
class NodeState:
    """The packages of one node, now.

    Attributes:
        kernel: the one that runs.
        boot: the identity of this boot.
        packages: name -> version of completely installed packages of its own architecture.
        held: names on hold.
        foreign: names of packages that it has of another architecture.
        half: packages that dpkg left half installed.
        interrupted: dpkg has work that was cut off.
        reboot_asked: a package asked for a reboot that has not happened yet.
        reboot_for: the packages that asked, as far as they said so.
        free_bytes: mount point -> free space, of the file systems that packages are written to.
        kept_files: a package's own configuration file, beside one that stayed -> when it came.
        stale: units with a process that still uses a replaced file; not those of logins, of
            containers, and of the tool's own jobs.
        unbooted: packages that were installed or replaced since the last boot.
        dkms: module -> the kernels that dkms has built it for.
        nvidia_kernels: kernels with a module of NVIDIA's driver.
        lost_disks: ``pc`` or ``efi`` -> disks that GRUB is to be installed on and that are absent.
        boots_by_choice: GRUB_DEFAULT names an entry of the boot menu; else the newest kernel boots.
    """

    node: str
    kernel: str
    boot: str = ""
    packages: Mapping[str, str] = field(default_factory=dict)
    held: frozenset[str] = frozenset()
    foreign: frozenset[str] = frozenset()
    half: tuple[str, ...] = ()
    interrupted: bool = False
    reboot_asked: bool = False
    reboot_for: tuple[str, ...] = ()
    free_bytes: Mapping[str, int] = field(default_factory=dict)
    kept_files: Mapping[str, str] = field(default_factory=dict)
    stale: tuple[str, ...] = ()
    unbooted: tuple[str, ...] = ()
    dkms: Mapping[str, frozenset[str]] = field(default_factory=dict)
    nvidia_kernels: frozenset[str] = frozenset()
    lost_disks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    boots_by_choice: bool = False

    def as_installed(self) -> InstalledPackages:
        """The same for the list that the build machine reads."""
        return InstalledPackages(
            self.node, self.kernel, dict(self.packages), tuple(sorted(self.held))
        )


@dataclass(frozen=True)
class NoState:
    """A node that did not say.

    Attributes:
        reason: what was asked and what came back, in words.
        hint: the next command.
    """

    node: str
    reason: str
    hint: str
