"""Every program that this product starts, on which machine, and which package brings it.

:data:`PROGRAMS` is the one table of them: what is installed for a lab, checked before a command
begins, looked for on nodes and named in messages follows from it, and a contract test compares it
with what the code starts. What must not be here: looking at a machine, or installing anything.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from appliance.model.programs import control_host, node
from appliance.model.programs.program import Family, Program, Use, Where, family

__all__ = [
    "PROGRAMS",
    "Family",
    "Program",
    "Use",
    "Where",
    "family",
    "install_command",
    "missing_programs",
    "on_nodes",
    "packages_for",
    "program_named",
    "used_by",
]

PROGRAMS: tuple[Program, ...] = (*control_host.PROGRAMS, *node.PROGRAMS)


def used_by(uses: Collection[Use]) -> tuple[Program, ...]:
    """What these uses need on the control host."""
    return tuple(row for row in PROGRAMS if row.uses.intersection(uses))


def missing_programs(present: Collection[str], uses: Collection[Use]) -> tuple[Program, ...]:
    """What these uses need on the control host, and is not among what is present."""
    return tuple(row for row in used_by(uses) if row.name not in present)


def on_nodes(where: Collection[Where]) -> tuple[Program, ...]:
    """What a node has to bring itself, by the parts that it plays."""
    return tuple(row for row in PROGRAMS if row.must_be_there and row.where in where)


def program_named(name: str, *, on_node: bool) -> Program | None:
    """The row of a program, by its name or path."""
    short = name.rpartition("/")[2]
    rows = (row for row in PROGRAMS if row.name == short and bool(row.where) == on_node)
    return next(rows, None)


def packages_for(rows: Iterable[Program], of: Family = Family.DEBIAN) -> tuple[str, ...]:
    """The packages that bring these, each once, in a stable order."""
    return tuple(dict.fromkeys(package for row in rows for package in row.packages_of(of)))


def install_command(rows: Iterable[Program], of: Family = Family.DEBIAN) -> str:
    """What an operator types to have these."""
    tool = {Family.DEBIAN: "apt-get install", Family.FEDORA: "dnf install"}[of]
    return f"sudo {tool} {' '.join(packages_for(rows, of))}"
