"""Options that many commands share: each has one name and one meaning everywhere.

An environment variable may name a place (``APPLIANCE_SITE``), but never give permission. Each
variable is named at its option; Click derives none.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from appliance.cli.commands.site.which import (
    is_site,
    require_no_later_tool,
    require_one_site,
    say_which_nodes,
    say_which_site,
    warn_of_a_later_tool,
)
from appliance.cli.help.complete import node_names
from appliance.cli.help.typos import Words
from appliance.errors import ConfigError

Command = TypeVar("Command", bound=Callable[..., Any])


class Place(click.Path):
    """A path on this machine, as the parameter of a command.

    A usage error (exit 2) is a mistake in how a command was typed. A path that is not there, or is
    a file in place of a directory, is a refusal (exit 3): what was typed may be right tomorrow.

    Raises:
        ConfigError: the path is not there, cannot be read, or is of the other kind.
    """

    def __init__(
        self, *, exists: bool = False, file_okay: bool = True, dir_okay: bool = True
    ) -> None:
        super().__init__(
            exists=exists, file_okay=file_okay, dir_okay=dir_okay, path_type=Path, readable=True
        )

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The value as a Path."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            name = param.get_error_hint(ctx).strip("'") if param and ctx else "path"
            what = error.message[:1].lower() + error.message[1:].rstrip(".")
            raise ConfigError(
                f"{name}: {what}", hint=f"check the path: ls -ld {shlex.quote(str(value))}"
            ) from None


class BackupFile(Place):
    """A backup: a file on this machine, or the address of one elsewhere; a text either way."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The value as a text."""
        return value if "://" in str(value) else str(super().convert(value, param, ctx))


def _site(value: Path | None) -> Path:
    if value is not None:
        return value
    here = Path()
    if is_site(here):
        return here
    raise click.UsageError(
        "no site: give --site DIR or set APPLIANCE_SITE (the current directory is not a site; "
        "'appliance site init DIR' creates one)"
    )


def _site_after(
    check: Callable[[click.Context, Path], None], check_versions: Callable[[Path], None]
) -> Callable[..., Path]:
    """The site of the command line or the environment, or this folder, after its checks."""

    def callback(context: click.Context, _parameter: click.Parameter, value: Path | None) -> Path:
        # Completion prints nothing but what can be typed.
        if value is not None and not context.resilient_parsing:
            check(context, value)
        site = _site(value)
        if not context.resilient_parsing:
            check_versions(site)
        return site

    return callback


def _nodes(
    context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]
) -> tuple[str, ...]:
    names = [name.strip() for value in values for name in value.split(",")]
    selected = tuple(dict.fromkeys(name for name in names if name))
    if not context.resilient_parsing:
        say_which_nodes(context, selected)
    return selected


def _site_by(callback: Callable[..., Path]) -> Callable[[Command], Command]:
    return click.option(
        "-s",
        "--site",
        type=Place(),
        envvar="APPLIANCE_SITE",
        callback=callback,
        help="The site's directory. Default: the current one, if it is a site.",
        show_envvar=True,
    )


def site_option(command: Command) -> Command:
    """Add ``--site DIR`` to a read-only command; the default is the current directory.

    If ``APPLIANCE_SITE`` and the current directory are different sites, a note says which is used.
    """
    return _site_by(_site_after(say_which_site, warn_of_a_later_tool))(command)


def changed_site_option(command: Command) -> Command:
    """Add ``--site DIR`` to a command that changes a site.

    If ``APPLIANCE_SITE`` and the current directory are different sites, the command is refused:
    the site has to be typed. So is one whose journal a later version of this tool wrote.
    """
    return _site_by(_site_after(require_one_site, require_no_later_tool))(command)


def nodes_option(command: Command) -> Command:
    """Add ``--nodes NAME[,NAME]``: a tuple; an empty tuple means all nodes."""
    return click.option(
        "-n",
        "--nodes",
        multiple=True,
        envvar="APPLIANCE_NODES",
        callback=_nodes,
        shell_complete=node_names,
        metavar="NAME[,NAME...]",
        help="Only these nodes. Default: all.",
    )(command)


def yes_option(command: Command) -> Command:
    """Add ``--yes``: it must be typed; no environment variable answers a question."""
    return click.option("-y", "--yes", is_flag=True, help="Do not ask before acting.")(command)


def without_backup_option(command: Command) -> Command:
    """Add ``--without-backup`` to a command that asks for a fresh backup where a site has any."""
    return click.option(
        "--without-backup",
        is_flag=True,
        help="Go on although the site's newest backup is not fresh.",
    )(command)


STANDIN, REAL = "standin", "nvidia"


def gpu_operands_option(command: Command) -> Command:
    """Add ``--gpu-operands standin|nvidia``."""
    return click.option(
        "--gpu-operands",
        type=Words([STANDIN, REAL]),
        default=STANDIN,
        envvar="APPLIANCE_GPU_OPERANDS",
        show_default=True,
        help="What finds, labels and offers the GPUs of a lab. nvidia: NVIDIA's device plugin and "
        "GPU feature discovery, and node-feature-discovery, compiled here; the stand-in of each "
        "that this machine cannot compile.",
    )(command)


def output_option(command: Command) -> Command:
    """Add ``--output table|json``."""
    return click.option(
        "-o",
        "--output",
        type=Words(["table", "json"]),
        default="table",
        envvar="APPLIANCE_OUTPUT",
        show_default=True,
        help="How to print the result.",
    )(command)


def allowed_signers_option(command: Command) -> Command:
    """Add ``--allowed-signers FILE``."""
    return click.option(
        "--allowed-signers",
        type=Place(dir_okay=False, exists=True),
        envvar="APPLIANCE_ALLOWED_SIGNERS",
        help="An ssh allowed_signers file: accept only signatures by these keys.",
    )(command)


def dry_run_option(command: Command) -> Command:
    """Add ``--dry-run``."""
    return click.option(
        "--dry-run",
        is_flag=True,
        envvar="APPLIANCE_DRY_RUN",
        help="Print the plan and change nothing.",
    )(command)
