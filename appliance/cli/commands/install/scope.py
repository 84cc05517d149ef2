"""The scope of a command: ``--only``, ``--until``, ``--nodes``, ``--again``, or a node's name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from appliance.cli.help.typos import Words
from appliance.model.plan.planner import Scope
from appliance.model.plan.steps import BY_NAME, INSTALL
from appliance.model.site.files.diagnostics import did_you_mean
from appliance.model.site.settings import Node, Site

Command = TypeVar("Command", bound=Callable[..., Any])
_NAMES = Words([step.name for step in INSTALL])
_STEPS = "- STEPS\n"


def step_options(command: Command) -> Command:
    """Add ``--only STEP``, ``--until STEP`` and ``--again``."""
    command = click.option(
        "--again",
        is_flag=True,
        help="With --only: run the step even if its checks pass, for example after a change in "
        "site.yml that no check sees.",
    )(command)
    command = click.option("--until", type=_NAMES, metavar="STEP", help="Stop after this step.")(
        command
    )
    return click.option(
        "--only",
        type=_NAMES,
        metavar="STEP",
        help="Run this step only; 'appliance install -h' lists the steps.",
    )(command)


def lists_steps(command: Command) -> Command:
    """Put the table of steps where the help of a command says ``- STEPS``."""
    said = command.__doc__ or ""
    before, _, after = said.partition(_STEPS)
    indent = before[before.rfind("\n") + 1 :]
    rows = [f"- {step.name}: {step.summary}\n" for step in INSTALL]
    command.__doc__ = before + indent.join(rows) + after
    return command


def node_of(site: Site, name: str) -> Node:
    """The member of the cluster by that name.

    Raises:
        click.UsageError: the inventory has none; names the nearest, or all.
    """
    members = {node.name: node for node in site.cluster_members}
    if name not in members:
        raise click.UsageError(
            f"{name}: the inventory has no cluster node of this name; {did_you_mean(name, members)}"
        )
    return members[name]


def host_of(site: Site, name: str) -> Node:
    """The host of the inventory by that name, a member of the cluster or not.

    Raises:
        click.UsageError: the inventory has none; names the nearest, or all.
    """
    known = {node.name: node for node in site.nodes}
    if name not in known:
        raise click.UsageError(f"{name}: the site has no such node; {did_you_mean(name, known)}")
    return known[name]


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


def scope_of(
    site: Site, nodes: tuple[str, ...], only: str | None, until: str | None, *, again: bool = False
) -> Scope:
    """The requested scope.

    Raises:
        click.UsageError: options that exclude each other, a node that the site does not have, or a
            step that cannot run again.
    """
    if only and until:
        raise click.UsageError("--only and --until exclude each other: use one of them")
    require_nodes(site, nodes)
    if again:
        _can_run_again(site, nodes, only)
    return Scope(only=only, until=until, nodes=frozenset(nodes), again=again)


def _can_run_again(site: Site, nodes: tuple[str, ...], only: str | None) -> None:
    """Raise UsageError for ``--again`` where no step is named, or one that could do nothing."""
    if only is None:
        raise click.UsageError("--again needs --only STEP: name the step to run again")
    if not BY_NAME[only].has_playbook:
        raise click.UsageError(
            f"--again: {only} has no playbook to run again; its checks see everything that it "
            f"writes, so --only {only} restores what is missing"
        )
    concerned = {node.name for node in BY_NAME[only].nodes(site)}
    if not concerned.intersection(nodes or concerned):
        where = f"none of {', '.join(nodes)}" if nodes else "no node of this site"
        raise click.UsageError(f"--again: {only} concerns {where}")
