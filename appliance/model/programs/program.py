"""One row of the table of programs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Use(StrEnum):
    """What somebody does at the control host that needs programs there."""

    LAB = "lab up"
    BUILD = "bundle build"
    COMPILE = "bundle build of what cannot be fetched"
    SIGN = "bundle sign and verify"
    PLAYS = "changes of nodes"
    BRING = "steps artifacts and runai"
    IMAGE = "node image"
    PXE = "node image --via pxe"
    MEDIUM = "the medium of the stand-in's installer"


class Where(StrEnum):
    """Which nodes a program is started on."""

    EVERY = "every node"
    SERVICES = "the services node"
    VENDOR = "the node that receives Run:ai's bundle"


class Family(StrEnum):
    """Whose names packages have."""

    DEBIAN = "debian"
    FEDORA = "fedora"


def family(ids: tuple[str, ...]) -> Family:
    """The family of a system, by ID and ID_LIKE of its os-release; Debian's where none is known."""
    return Family.FEDORA if {"fedora", "rhel", "centos"}.intersection(ids) else Family.DEBIAN


@dataclass(frozen=True)
class Program:
    """One program that is started somewhere.

    Attributes:
        name: its name on the path.
        purpose: what it is started for.
        packages: what brings it on Debian and Ubuntu; none for what no package brings.
        fedora: the same on Fedora and its kin, where the names differ.
        uses: what needs it at the control host; empty for what runs on nodes.
        where: which nodes it is started on; None for the control host.
        since: the step or command that starts it first.
        brought_by: the step of the install that brings it to a node; empty: it is there before.
        optional: the code that asks for it goes on without it.
        started_by: the program of ours that starts it, where we do not start it ourselves.
    """

    name: str
    purpose: str
    packages: tuple[str, ...]
    fedora: tuple[str, ...] = ()
    uses: frozenset[Use] = frozenset()
    where: Where | None = None
    since: str = ""
    brought_by: str = ""
    optional: bool = False
    started_by: str = ""

    @property
    def must_be_there(self) -> bool:
        """Whether a node has to bring it itself, before the first step."""
        return self.where is not None and not self.brought_by and not self.optional

    def packages_of(self, of: Family) -> tuple[str, ...]:
        """What brings it there."""
        return self.fedora or self.packages if of is Family.FEDORA else self.packages
