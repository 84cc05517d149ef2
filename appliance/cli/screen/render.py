"""Results on stdout: tables for people, JSON for programs; their warnings go to stderr."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

from appliance.cli.screen.colour import colour_of, has_colour, painted
from appliance.cli.screen.table import table_lines
from appliance.cli.screen.terminal import escaped, one_line, print_escaped, print_line

if TYPE_CHECKING:
    from appliance.model.state.plan import Refusal

# Characters of a line in a pipe or a file.
UNLIMITED = 1_000_000


def print_json(value: Any) -> None:
    """Print a value as JSON; its keys are a contract."""
    text = json.dumps(value, indent=2, sort_keys=False, ensure_ascii=False, default=str)
    click.echo(escaped(text))


def refusals_as_json(refusals: Iterable[Refusal]) -> list[dict[str, str]]:
    """What forbids a command, as plain data; the keys are a contract."""
    return [
        {
            "node": one.node,
            "check": one.check,
            "seen": one.seen,
            "expected": one.expected,
            "hint": one.hint,
        }
        for one in refusals
    ]


def show_warnings(warnings: Iterable[str]) -> None:
    """Print on stderr what a look could not read."""
    for warning in warnings:
        print_line(f"warning: {warning}", err=True)


def print_table(
    columns: Sequence[str], rows: Sequence[Sequence[object]], *, spare: Sequence[str] = ()
) -> None:
    """Print rows below their headings; an empty cell is shown as a dash.

    On a terminal the table fits its width; in a pipe or a file a line may have any length.

    Args:
        columns: the headings.
        rows: a cell for each heading.
        spare: headings that are left out, in this order, where a terminal is too narrow.
    """
    is_terminal = sys.stdout.isatty()
    lines = table_lines(
        columns,
        [[_cell(value) for value in row] for row in rows],
        shutil.get_terminal_size().columns if is_terminal else UNLIMITED,
        spare=spare,
        paint=_paint if has_colour(sys.stdout) else lambda _column, _cell, text: text,
    )
    print_escaped(lines)


def _paint(column: str, cell: str, text: str) -> str:
    return painted(text, colour_of(column, cell))


def _cell(value: object) -> str:
    return "-" if value is None or value == "" else one_line(str(value))
