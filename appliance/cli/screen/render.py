"""Results on stdout: tables for people, JSON for programs; their warnings go to stderr."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import click

from appliance.cli.screen.terminal import escaped, one_line


def print_json(value: Any) -> None:
    """Print a value as JSON; its keys are a contract."""
    text = json.dumps(value, indent=2, sort_keys=False, ensure_ascii=False, default=str)
    click.echo(escaped(text))


def show_warnings(warnings: Iterable[str]) -> None:
    """Print on stderr what a look could not read."""
    for warning in warnings:
        click.echo(f"warning: {warning}", err=True)


def print_table(
    columns: Sequence[str], rows: Sequence[Sequence[object]], *, title: str | None = None
) -> None:
    """Print rows below their headings; an empty cell is shown as a dash.

    On a terminal the columns fit its width; in a pipe or a file a line may have any length.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title and Text(title), box=None, pad_edge=False, title_justify="left")
    for column in columns:
        table.add_column(Text(column), overflow="fold")
    for row in rows:
        table.add_row(*(Text(_cell(value)) for value in row))
    width = None if sys.stdout.isatty() else 10_000
    console = Console(file=(text := io.StringIO()), width=width, highlight=False)
    console.print(table)
    for line in text.getvalue().splitlines():
        click.echo(line.rstrip())


def _cell(value: object) -> str:
    return "-" if value is None or value == "" else one_line(str(value))
