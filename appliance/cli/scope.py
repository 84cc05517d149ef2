"""The options that narrow a plan: ``--only``, ``--until``, ``--nodes``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from appliance.model.planner import Scope
from appliance.model.steps import INSTALL

if TYPE_CHECKING:
    from appliance.model.site import Site

Command = TypeVar("Command", bound=Callable[..., Any])
_NAMES = click.Choice([step.name for step in INSTALL])


def step_options(command: Command) -> Command:
    """Add ``--only STEP`` and ``--until STEP``."""
    command = click.option("--until", type=_NAMES, help="Stop after this step.")(command)
    return click.option("--only", type=_NAMES, help="Plan this step alone.")(command)


def scope_of(site: Site, nodes: tuple[str, ...], only: str | None, until: str | None) -> Scope:
    """The scope that was asked for.

    Raises:
        click.UsageError: both ``--only`` and ``--until``, or a node the site does not have.
    """
    if only and until:
        raise click.UsageError("--only and --until exclude each other: give one of them")
    known = {node.name for node in site.nodes}
    for name in nodes:
        if name not in known:
            raise click.UsageError(
                f"--nodes: the site has no node {name}; it has {', '.join(sorted(known))}"
            )
    return Scope(only=only, until=until, nodes=frozenset(nodes))
