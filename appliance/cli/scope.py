"""What a command is narrowed to: ``--only``, ``--until``, ``--nodes``, and a node by its name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from appliance.model.planner import Scope
from appliance.model.site_faults import did_you_mean
from appliance.model.steps import INSTALL

if TYPE_CHECKING:
    from appliance.model.site import Node, Site

Command = TypeVar("Command", bound=Callable[..., Any])
_NAMES = click.Choice([step.name for step in INSTALL])


def step_options(command: Command) -> Command:
    """Add ``--only STEP`` and ``--until STEP``."""
    command = click.option("--until", type=_NAMES, help="Stop after this step.")(command)
    return click.option("--only", type=_NAMES, help="Plan this step alone.")(command)


def node_of(site: Site, name: str) -> Node:
    """The member of the cluster by that name.

    Raises:
        click.UsageError: the inventory has none; names the nearest, or all.
    """
    members = {node.name: node for node in site.cluster_members}
    if name not in members:
        raise click.UsageError(
            f"{name}: the inventory has no such member of the cluster; "
            f"{did_you_mean(name, members)}"
        )
    return members[name]


def require_nodes(site: Site, names: Sequence[str]) -> None:
    """Refuse what ``--nodes`` names when the inventory has no such host.

    Raises:
        click.UsageError: it has none; names the nearest, or all.
    """
    known = {node.name for node in site.nodes}
    for name in names:
        if name not in known:
            raise click.UsageError(
                f"--nodes: the site has no node {name}; {did_you_mean(name, known)}"
            )


def scope_of(site: Site, nodes: tuple[str, ...], only: str | None, until: str | None) -> Scope:
    """The scope that was asked for.

    Raises:
        click.UsageError: both ``--only`` and ``--until``, or a node the site does not have.
    """
    if only and until:
        raise click.UsageError("--only and --until exclude each other: give one of them")
    require_nodes(site, nodes)
    return Scope(only=only, until=until, nodes=frozenset(nodes))
