"""Which site a command means, where the environment names one and the operator stands in another.

A variable that was exported yesterday must not choose what is changed today: a changing command
asks for the site to be typed, and a looking one says which site it looks at.
"""

from __future__ import annotations

import shlex
from contextlib import suppress
from pathlib import Path

import click
from click.core import ParameterSource

from appliance.cli.terminal import one_line
from appliance.errors import Refused

SITE = "APPLIANCE_SITE"


def is_site(directory: Path) -> bool:
    """Whether the directory looks like a site; False for one that may not be read."""
    with suppress(OSError):
        return (directory / "hosts.yml").is_file() and (directory / "group_vars").is_dir()
    return False


def is_by_environment(context: click.Context, name: str) -> bool:
    """Whether an option's value comes from its variable and was not typed."""
    return context.get_parameter_source(name) is ParameterSource.ENVIRONMENT


def other_site(context: click.Context, named: Path) -> Path | None:
    """The site that the operator stands in, where the environment names another one; else None.

    Somewhere below a site's directory counts as well: its files are edited there.
    """
    if not is_by_environment(context, "site"):
        return None
    with suppress(OSError):
        here = Path.cwd()
        stands_in = next((one for one in (here, *here.parents) if is_site(one)), None)
        if stands_in is not None and stands_in.resolve() != named.resolve():
            return stands_in
    return None


def require_one_site(context: click.Context, named: Path) -> None:
    """Refuse to change a site that only the environment names, from within another one.

    Raises:
        Refused: both are named, with the two ways out.
    """
    stands_in = other_site(context, named)
    if stands_in is None:
        return
    meant, here = (shlex.quote(str(one)) for one in (named.absolute(), stands_in))
    raise Refused(
        f"{SITE} names the site {meant}, and the current directory belongs to another one, "
        f"{here}: nothing was changed",
        hint=f"type which one is meant: --site {meant}, or --site {here}",
    )


def say_which_site(context: click.Context, named: Path) -> None:
    """One line on stderr, where a looking command looks at another site than one may expect."""
    stands_in = other_site(context, named)
    if stands_in is not None:
        said = f"{named.absolute()}, by {SITE}, not {stands_in}, which you stand in"
        click.echo(f"note: the site meant is {one_line(said)}", err=True)


def say_which_nodes(context: click.Context, names: tuple[str, ...]) -> None:
    """One line on stderr, where a variable alone narrows what a command acts on."""
    if names and is_by_environment(context, "nodes"):
        said = one_line(", ".join(names))
        click.echo(f"note: APPLIANCE_NODES narrows this to {said}: unset it for all", err=True)
