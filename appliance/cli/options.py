"""Options that many commands share, so that each has one name and one meaning everywhere.

A variable of the environment may say where (``APPLIANCE_SITE``), never that it is allowed: those of
an option are named at the option, and Click makes up none.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])


def _site(_context: click.Context, _parameter: click.Parameter, value: Path | None) -> Path:
    if value is not None:
        return value
    here = Path()
    if (here / "hosts.yml").is_file() and (here / "group_vars").is_dir():
        return here
    raise click.UsageError(
        "no site: give --site DIR or set APPLIANCE_SITE (the current directory is not a site; "
        "'appliance site init DIR' makes one)"
    )


def _nodes(
    _context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]
) -> tuple[str, ...]:
    names = [name.strip() for value in values for name in value.split(",")]
    return tuple(dict.fromkeys(name for name in names if name))


def site_option(command: Command) -> Command:
    """Add ``--site DIR``: a directory; the current one when that is a site."""
    return click.option(
        "-s",
        "--site",
        type=click.Path(path_type=Path),
        envvar="APPLIANCE_SITE",
        callback=_site,
        help="The site's directory. Default: the current one, if it is a site.",
        show_envvar=True,
    )(command)


def nodes_option(command: Command) -> Command:
    """Add ``--nodes NAME[,NAME]``: a tuple, empty when all nodes are meant."""
    return click.option(
        "-n",
        "--nodes",
        multiple=True,
        envvar="APPLIANCE_NODES",
        callback=_nodes,
        metavar="NAME[,NAME...]",
        help="Only these nodes. Default: all.",
    )(command)


def yes_option(command: Command) -> Command:
    """Add ``--yes``: only what is typed answers a question, no variable of the environment."""
    return click.option("-y", "--yes", is_flag=True, help="Do not ask before acting.")(command)


def output_option(command: Command) -> Command:
    """Add ``--output table|json``."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(["table", "json"]),
        default="table",
        envvar="APPLIANCE_OUTPUT",
        show_default=True,
        help="How to print the result.",
    )(command)


def allowed_signers_option(command: Command) -> Command:
    """Add ``--allowed-signers FILE``."""
    return click.option(
        "--allowed-signers",
        type=click.Path(path_type=Path, dir_okay=False, exists=True),
        envvar="APPLIANCE_ALLOWED_SIGNERS",
        help="An ssh allowed_signers file: who may have signed the bundle.",
    )(command)


def dry_run_option(command: Command) -> Command:
    """Add ``--dry-run``."""
    return click.option(
        "--dry-run",
        is_flag=True,
        envvar="APPLIANCE_DRY_RUN",
        help="Say what would be done, and do nothing.",
    )(command)
