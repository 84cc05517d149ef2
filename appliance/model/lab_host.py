"""What a lab needs of the machine it runs on: programs, and which package brings each.

What must not be here: looking at the machine, or installing anything on it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True)
class Need:
    """One program that must be there.

    Attributes:
        program: its name on the path.
        packages: the Debian packages that bring it.
        purpose: what the lab does with it.
        for_bundle: whether only building a bundle needs it.
    """

    program: str
    packages: tuple[str, ...]
    purpose: str
    for_bundle: bool = False


NEEDS = (
    Need("podman", ("podman", "netavark"), "starts the nodes"),
    Need("runc", ("runc",), "the runtime that works with hybrid control groups"),
    Need("iptables", ("iptables",), "podman's networks"),
    Need("mmdebstrap", ("mmdebstrap", "gpg"), "builds the nodes' root file system"),
    Need("ssh", ("openssh-client",), "reaches the nodes"),
    Need("ssh-keygen", ("openssh-client",), "makes the site's key"),
    Need("ip", ("iproute2",), "finds networks that are taken"),
    Need("go", ("golang-go",), "builds what is only served as Go modules", for_bundle=True),
    Need("gcc", ("gcc", "libc6-dev"), "builds pause and flannel", for_bundle=True),
    Need("dpkg-deb", ("dpkg",), "reads packages", for_bundle=True),
)


def missing_needs(present: Collection[str], *, build_bundle: bool) -> tuple[Need, ...]:
    """Which needs are not met by the programs that are present."""
    return tuple(
        need
        for need in NEEDS
        if need.program not in present and (build_bundle or not need.for_bundle)
    )


def packages_for(needs: Collection[Need]) -> tuple[str, ...]:
    """The packages to install, each once, in a stable order."""
    return tuple(dict.fromkeys(package for need in needs for package in need.packages))
