"""What makes a screen readable, whatever it says."""

from __future__ import annotations

import re

# What only the makers of a program understand.
INSIDE = re.compile(
    r"Traceback|Exception|\bErrno\b|\bNone\b|\bparamiko\b|<\w+ object|encountered \w+ key"
)


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
