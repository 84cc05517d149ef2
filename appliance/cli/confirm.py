"""Ask before acting; refuse where nobody can answer.

Each question begins with what it is about: the site, where its API is, and the machine. That is
printed with ``--yes`` as well, so that a log shows what was acted on.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import click

from appliance.cli.terminal import one_line
from appliance.cli.which_site import SITE, is_by_environment
from appliance.errors import Refused

# Characters of a line: what a machine says of itself may be a page long.
MANY = 500

if TYPE_CHECKING:
    from pathlib import Path

    from appliance.model.answering import Answering
    from appliance.model.site import Site


def about_site(site: Site) -> list[str]:
    """Lines that say which site is meant: its name, its directory, where its API is."""
    context = click.get_current_context(silent=True)
    by = f" (by {SITE})" if context is not None and is_by_environment(context, "site") else ""
    endpoint = site.settings.control_plane_endpoint
    return _rows(
        ("site", site.name),
        ("directory", f"{site.directory.resolve()}{by}"),
        ("API", f"{endpoint.name}:{endpoint.port}, {site.endpoint_address}"),
    )


def about_machine(site: Site, machine: Answering) -> list[str]:
    """The same, and which machine: its name and address, and what answers there."""
    return [
        *about_site(site),
        *_rows(("node", f"{machine.node}, {machine.address}"), ("machine", machine.answer)),
    ]


def about_nodes(site: Site, names: Sequence[str]) -> list[str]:
    """The same as of a site, and which nodes, with the addresses that its inventory has."""
    addresses = {node.name: node.ip for node in site.nodes}
    rows = [("", f"{name}, {addresses.get(name, 'not in hosts.yml')}") for name in names]
    return [*about_site(site), *_rows(*(("nodes", text) for _, text in rows[:1]), *rows[1:])]


def about_lab(name: str, directory: Path | None = None) -> list[str]:
    """Lines that say which lab is meant, the machine that it is on, and where its site is put."""
    return _rows(
        ("lab", f"{name} on this machine, {socket.gethostname()}"),
        *([("directory", str(directory.absolute()))] if directory else []),
    )


def _rows(*rows: tuple[str, str]) -> list[str]:
    return [f"{what and f'{what}:':<10} {one_line(text[:MANY])}" for what, text in rows]


def tell(lines: Sequence[str]) -> None:
    """Print lines where questions are asked: on stderr."""
    for line in lines:
        click.echo(line, err=True)


def confirmed(
    yes: bool,
    about: Sequence[str],
    show: Callable[[], None],
    question: str = "Go on?",
    unanswered: Sequence[str] = (),
) -> bool:
    """Whether to go on: ``--yes``, or a person who was shown what is to be done.

    Args:
        yes: nobody is asked.
        about: lines that are shown in any case: which site, which machine, what to know of it.
        show: shows what is to be done to a person who is asked.
        question: the last line of all.
        unanswered: what a refusal names where nobody is there to answer.

    Raises:
        Refused: nobody is there to confirm.
    """
    tell(about)
    if yes:
        return True
    if not sys.stdin.isatty():
        raise Refused(
            "nobody is there to confirm: nothing was changed",
            hint="pass --yes, or run it by hand",
            details=unanswered,
        )
    show()
    return click.confirm(question, err=True)
