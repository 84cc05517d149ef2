"""The site of a command if the environment names one site and the current directory is another.

A variable that was exported yesterday must not choose what is changed today: a changing command
requires a typed ``--site``, and a read-only command prints which site it uses.
"""

from __future__ import annotations

import shlex
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from appliance import __version__
from appliance.cli.screen.terminal import one_line, print_line
from appliance.errors import Refused

if TYPE_CHECKING:
    from appliance.model.control.later_tool import Writer

SITE = "APPLIANCE_SITE"


def is_site(directory: Path) -> bool:
    """Whether the directory looks like a site; False if it cannot be read."""
    with suppress(OSError):
        return (directory / "hosts.yml").is_file() and (directory / "group_vars").is_dir()
    return False


def is_by_environment(context: click.Context, name: str) -> bool:
    """Whether an option's value comes from its variable and was not typed."""
    return context.get_parameter_source(name) is ParameterSource.ENVIRONMENT


def other_site(context: click.Context, named: Path) -> Path | None:
    """The site of the current directory if the environment names another one; else None.

    A directory below a site counts as well: the site's files are edited there.
    """
    if not is_by_environment(context, "site"):
        return None
    with suppress(OSError):
        cwd = Path.cwd()
        current = next((folder for folder in (cwd, *cwd.parents) if is_site(folder)), None)
        if current is not None and current.resolve() != named.resolve():
            return current
    return None


def require_one_site(context: click.Context, named: Path) -> None:
    """Refuse to change a site that only the environment names, from within another site.

    Raises:
        Refused: the message names both sites, the hint both options.
    """
    current = other_site(context, named)
    if current is None:
        return
    by_variable, by_directory = (shlex.quote(str(site)) for site in (named.absolute(), current))
    raise Refused(
        f"{SITE} names the site {by_variable}, but the current directory belongs to the site "
        f"{by_directory}: nothing was changed",
        hint=f"type the site: --site {by_variable}, or --site {by_directory}",
    )


def say_which_site(context: click.Context, named: Path) -> None:
    """Print a note if a read-only command uses another site than the current directory."""
    current = other_site(context, named)
    if current is not None:
        sites = f"{named.absolute()} ({SITE}), not the current directory's {current}"
        click.echo(f"note: using the site {one_line(sites)}", err=True)


def require_no_later_tool(named: Path) -> None:
    """Refuse to change a site whose journal has a record of a later version of this tool.

    Raises:
        Refused: names both versions and the machine; the hint upgrades this tool.
    """
    from appliance.model.control.later_tool import refusal

    writer = _later_tool(named)
    if writer is not None:
        raise refusal(writer, __version__, f"the site {named.absolute()}")


def warn_of_a_later_tool(named: Path) -> None:
    """Warn a read-only command that it may misread the site."""
    from appliance.model.control.later_tool import UPGRADE

    writer = _later_tool(named)
    if writer is not None:
        text = f"the site was {writer.sentence(__version__)}; what is shown may be incomplete"
        print_line(f"warning: {text}; {UPGRADE}", err=True)


def _later_tool(named: Path) -> Writer | None:
    from appliance.adapters.control_plane.journal import FileJournal
    from appliance.adapters.site.state import JOURNAL
    from appliance.model.control.later_tool import find_later

    return find_later(
        __version__, FileJournal(named.absolute() / JOURNAL).later_writers(__version__)
    )


def say_which_nodes(context: click.Context, names: tuple[str, ...]) -> None:
    """Print a note if only a variable limits a command to some nodes."""
    if names and is_by_environment(context, "nodes"):
        selected = one_line(", ".join(names))
        click.echo(f"note: APPLIANCE_NODES limits this to {selected}: unset it for all", err=True)
