"""Options of commands that take nodes out of service, shut them down or boot them.

Options that commands of every kind share are in :mod:`appliance.cli.options`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import click

from appliance.cli.options import Command

# Workers of one batch.
MOST_UNAVAILABLE: Final = 50
UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def seconds(_context: click.Context, _parameter: click.Parameter, value: str | None) -> Any:
    """A time such as ``90m``, ``4h`` or ``2d`` in seconds; None stays None."""
    if value is None:
        return None
    found = re.fullmatch(r"(\d+)([smhd])", value)
    if not found:
        raise click.BadParameter(f"{value!r} is not a duration; write for example 90m, 4h or 2d")
    return float(found[1]) * UNITS[found[2]]


def reason_option(command: Command) -> Command:
    """Add ``--reason TEXT``."""
    return click.option(
        "--reason", default="", help="Why; shown by status and stored in the journal."
    )(command)


def allow_outage_option(command: Command) -> Command:
    """Add ``--allow-outage``: it must be typed; no environment variable allows an outage."""
    return click.option(
        "--allow-outage", is_flag=True, help="Continue even if a service becomes unavailable."
    )(command)


def max_unavailable_option(command: Command) -> Command:
    """Add ``--max-unavailable NUMBER``."""
    return click.option(
        "--max-unavailable",
        type=click.IntRange(1, MOST_UNAVAILABLE),
        default=1,
        show_default=True,
        metavar="NUMBER",
        help="How many workers may be out of service at a time.",
    )(command)


def at_once_option(most: int, default: int) -> Callable[[Command], Command]:
    """``--at-once NUMBER``: how many servers a command works on at the same time."""
    return click.option(
        "--at-once",
        type=click.IntRange(1, most),
        default=default,
        show_default=True,
        metavar="NUMBER",
        help="How many servers at the same time.",
    )


def budget_wait_option(command: Command) -> Command:
    """Add ``--budget-wait TIME``; the command's own help says what follows."""
    return click.option(
        "--budget-wait",
        callback=seconds,
        metavar="TIME",
        default="60s",
        show_default=True,
        help="How long to wait for a PodDisruptionBudget to allow an eviction.",
    )(command)


def wait_option(default: str, help_text: str) -> Callable[[Command], Command]:
    """``--wait TIME``: how long to wait for what the command waits for."""
    return click.option(
        "--wait",
        callback=seconds,
        metavar="TIME",
        default=default,
        show_default=True,
        help=help_text,
    )


def acknowledge_option(command: Command) -> Command:
    """Add ``--acknowledge FINDING``, repeatable."""
    return click.option(
        "--acknowledge",
        multiple=True,
        metavar="FINDING",
        help="Accept this difference, for example dimm:A1. Repeatable.",
    )(command)
