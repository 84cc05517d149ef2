"""Ask before acting; refuse when there is no terminal to ask on.

Each question begins with its subject: the site, the address of its API, and the machine. The
subject is printed with ``--yes`` as well: a log then shows what the command acted on.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from appliance.cli.commands.site.which import SITE, is_by_environment
from appliance.cli.screen.terminal import one_line
from appliance.errors import Refused

# Characters per line: a machine's description of itself may be a page long.
MANY = 500

if TYPE_CHECKING:
    from appliance.model.node.answering import AnsweringMachine
    from appliance.model.site.settings import Site


def about_site(site: Site) -> list[str]:
    """Lines that identify the site: its name, its directory, the address of its API."""
    context = click.get_current_context(silent=True)
    by = f" (by {SITE})" if context is not None and is_by_environment(context, "site") else ""
    endpoint = site.settings.control_plane_endpoint
    return _rows(
        ("site", site.name),
        ("directory", f"{site.directory.resolve()}{by}"),
        ("API", f"{endpoint.name}:{endpoint.port}, {site.endpoint_address}"),
    )


def about_machine(site: Site, machine: AnsweringMachine) -> list[str]:
    """The lines of the site, and the machine: its name and address, and its answer."""
    return [
        *about_site(site),
        *_rows(("node", f"{machine.node}, {machine.address}"), ("machine", machine.answer)),
    ]


def about_nodes(site: Site, names: Sequence[str]) -> list[str]:
    """The lines of the site, and its nodes with their addresses in the inventory."""
    addresses = {node.name: node.ip for node in site.nodes}
    rows = [("", f"{name}, {addresses.get(name, 'not in hosts.yml')}") for name in names]
    return [*about_site(site), *_rows(*(("nodes", text) for _, text in rows[:1]), *rows[1:])]


def about_lab(name: str, directory: Path | None = None) -> list[str]:
    """Lines that identify the lab, the machine it runs on, and the directory of its site."""
    return _rows(
        ("lab", f"{name} on this machine, {socket.gethostname()}"),
        *([("directory", str(directory.absolute()))] if directory else []),
    )


def _rows(*rows: tuple[str, str]) -> list[str]:
    return [f"{what and f'{what}:':<10} {one_line(text[:MANY])}" for what, text in rows]


def tell(lines: Sequence[str]) -> None:
    """Print lines on stderr, where questions are asked."""
    for line in lines:
        click.echo(line, err=True)


def confirmed(
    yes: bool,
    about: Sequence[str],
    show: Callable[[], None],
    question: str = "Go on?",
    unanswered: Sequence[str] = (),
) -> bool:
    """Whether to go on: with ``--yes``, or after a person saw the plan and agreed.

    Args:
        yes: do not ask.
        about: lines that are always shown: the site, the machine, what to know about it.
        show: prints the plan before the question.
        question: the last line.
        unanswered: details of the refusal when there is no terminal to ask on.

    Raises:
        Refused: there is no terminal to ask on.
    """
    tell(about)
    if yes:
        return True
    if not sys.stdin.isatty():
        raise Refused(
            "confirmation needed, but stdin is not a terminal: nothing was changed",
            hint="pass --yes, or run the command in a terminal",
            details=unanswered,
        )
    show()
    return click.confirm(question, err=True)
