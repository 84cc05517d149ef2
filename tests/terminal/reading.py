"""What makes a screen readable, whatever it says."""

from __future__ import annotations

import re

# What only the makers of a program understand.
INSIDE = re.compile(
    r"Traceback|Exception|\bErrno\b|\bNone\b|\bparamiko\b|<\w+ object|encountered \w+ key"
)
STATES = {"waiting", "running", "verifying", "verified", "failed"}


def rows_of(screen: str) -> dict[str, str]:
    """Step -> its state, of the rows of a live table in which neither is cut."""
    rows = [row.split() for row in screen.splitlines()]
    return {row[0]: row[1] for row in rows if len(row) > 1 and row[1] in STATES}


def inside_words(text: str) -> list[str]:
    """The words of a text that speak of the inside of a program."""
    return INSIDE.findall(text)


def broken_words(shown: str, piped: str) -> set[str]:
    """The words on a terminal that are no words of the same output in a pipe: parts of one.

    Args:
        shown: what the terminal shows, with the lines that it broke joined.
        piped: what the same command writes into a pipe, where a line has any length.
    """
    return set(_words(shown)) - set(_words(piped))


def _words(text: str) -> list[str]:
    """What stands between spaces and the lines of tables, below the line that was typed."""
    return [w for w in re.split(r"[\s\u2500-\u257f]+", text.partition("\n")[2]) if w]
