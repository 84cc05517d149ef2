"""``appliance docs``: the pages of this installation, where there is no web."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

import click

from appliance.cli.help.complete import pages
from appliance.cli.help.typos import nearest

if TYPE_CHECKING:
    from appliance.adapters.local.pages import Page, Passage

# What fits two screens.
_MOST_FOUND = 30


@click.command()
@click.argument("page", required=False, shell_complete=pages)
@click.option(
    "--search", "text", metavar="TEXT", help="Find a word, or what an error said, in the pages."
)
def docs(page: str | None, text: str | None) -> None:
    """Show the pages of this installation: runbooks, glossary, decisions.

    Without PAGE: a list of the pages. A decision is also found by its number.
    On a terminal, a page is shown by your pager.

    \b
    Example: appliance docs planned-maintenance
             appliance docs --search 'host key'
    """
    from appliance.adapters.local import pages as adapter

    if page == adapter.DECISIONS and text is None:
        _list([one for one in adapter.pages() if one.kind == adapter.DECISIONS])
        return
    chosen = _page(page) if page is not None else None
    if text is not None:
        found, whole = adapter.search(text, [chosen] if chosen else ())
        _show_found(text, found, whole)
    elif chosen is not None:
        _show(chosen.text())
    else:
        _show_index(adapter.pages())


def _page(name: str) -> Page:
    """The page of that name.

    Raises:
        click.UsageError: there is none; names the nearest, and pages with the word.
    """
    from appliance.adapters.local import pages as adapter

    found = adapter.find_page(name)
    if found is not None:
        return found
    near = nearest(name, (one.name for one in adapter.pages()))
    said = f"there is no page {name!r}."
    if near is not None:
        raise click.UsageError(f"{said} Did you mean: appliance docs {near}")
    passages, whole = adapter.search(name)
    if passages and whole:
        named = dict.fromkeys(one.page.name for one in passages)
        raise click.UsageError(f"{said} These have the word: {', '.join([*named][:5])}")
    raise click.UsageError(f"{said} The list of the pages: appliance docs")


def _show(text: str) -> None:
    if sys.stdout.isatty() and sys.stdin.isatty():
        click.echo_via_pager(text)
    else:
        click.echo(text, nl=False)


def _show_index(shipped: Iterable[Page]) -> None:
    groups = {kind: list(some) for kind, some in groupby(shipped, key=lambda one: one.kind)}
    click.echo("Runbooks and guides:\n")
    _list(groups["operations"])
    if "hardware" in groups:
        click.echo("\nHardware models:\n")
        _list(groups["hardware"])
    click.echo("\nBackground:\n")
    _list(groups[""])
    click.echo(
        f"\nDecisions: {len(groups['decisions'])} pages; to list them: appliance docs decisions"
    )
    click.echo("A page:    appliance docs PAGE")
    click.echo("A symptom: appliance docs --search TEXT")


def _list(shipped: Sequence[Page]) -> None:
    formatter = click.HelpFormatter(width=80)
    with formatter.indentation():
        formatter.write_dl([(page.name, page.title) for page in shipped], col_max=42)
    click.echo(formatter.getvalue(), nl=False)


def _show_found(text: str, found: Sequence[Passage], whole: bool) -> None:
    if not found:
        click.echo(f"no page has {text!r}; the list of the pages: appliance docs", err=True)
        return
    if not whole:
        click.echo("no passage has all of these words; the nearest:", err=True)
    formatter = click.HelpFormatter(width=80)
    for page, passages in groupby(found[:_MOST_FOUND], key=lambda one: one.page):
        formatter.write(f"appliance docs {page.name}\n")
        with formatter.indentation():
            formatter.write_dl([(f"{one.line}", _cut(one.text)) for one in passages], col_max=6)
    click.echo(formatter.getvalue(), nl=False)
    if len(found) > _MOST_FOUND:
        click.echo(f"and {len(found) - _MOST_FOUND} more: search for more words", err=True)


def _cut(text: str) -> str:
    """The beginning of a passage: some lines of a screen."""
    return text if len(text) <= 240 else f"{text[:237]}..."
