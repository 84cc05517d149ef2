"""Every kept screen can be read: it fits, it is whole, and it says what to do next."""

from __future__ import annotations

import re

import pytest
from rich.cells import cell_len

from tests import golden
from tests.terminal.reading import broken_words, inside_words
from tests.terminal.story import FOLDER
from tests.terminal.tmux import COLUMNS, PROMPT, ROWS, in_rows

SCREENS = {
    f"{path.stem}: {title}": text
    for path in sorted((golden.GOLDEN / FOLDER).glob("*.txt"))
    for title, text in golden.read(path).items()
}
# Looks at a command that runs on; all others end at a prompt.
LIVE = {title for title in SCREENS if " live " in title}
# Nothing is left to do: the operator said so.
UNHINTED = {"first_ten_minutes: 13 host keys, not confirmed"}


def test_there_are_screens_of_both_stories() -> None:
    assert len(SCREENS) > 30
    assert LIVE


@pytest.mark.parametrize("title", SCREENS)
def test_a_screen_fits_80_columns_and_begins_with_what_was_typed(title: str) -> None:
    rows = SCREENS[title].splitlines()
    assert [row for row in rows if cell_len(row) > COLUMNS] == []
    assert rows[0].startswith(f"{PROMPT} ") or title in LIVE


@pytest.mark.parametrize("title", SCREENS)
def test_a_screen_ends_with_a_prompt(title: str) -> None:
    rows = SCREENS[title].splitlines()
    assert (rows[-1] == PROMPT) == (title not in LIVE)
    assert rows.count(PROMPT) <= 1


def test_what_is_looked_at_every_day_fits_24_rows() -> None:
    titles = [title for title in SCREENS if re.search(r"\b(status|history|live)\b", title)]
    long = {title: rows for title in titles if (rows := SCREENS[title].count("\n")) > ROWS}
    assert long == {}
    assert len(titles) > 5


@pytest.mark.parametrize("title", SCREENS)
def test_a_screen_says_nothing_of_the_inside_of_a_program(title: str) -> None:
    assert inside_words(SCREENS[title]) == []


@pytest.mark.parametrize("title", SCREENS)
def test_an_error_comes_with_the_next_command(title: str) -> None:
    """The last field of an error is a hint; a mistyped command names its help instead."""
    rows = SCREENS[title].splitlines()
    errors = [n for n, row in enumerate(rows) if row.startswith("error: ")]
    after = rows[errors[-1] :] if errors else []
    told = any(row.startswith("hint: ") for row in after)
    assert not errors or told or title in UNHINTED


def test_rows_are_broken_where_the_terminal_breaks_them() -> None:
    assert in_rows("x" * 81 + "\n\nshort\n") == "x" * 80 + "\nx\n\nshort\n"


@pytest.mark.parametrize(
    ("shown", "broken"),
    [
        ("$ x\n\u2502 node \u2502 verified \u2502\n$", set()),
        ("$ x\nnode verif\n     ied\n$", {"verif", "ied"}),
        ("$ x\n\u2502 node \u2502 ver\u2026 \u2502\n$", {"ver\u2026"}),
    ],
)
def test_a_word_that_a_table_breaks_is_found(shown: str, broken: set[str]) -> None:
    assert broken_words(shown, "$ x | cat\nnode verified\n$") == broken
