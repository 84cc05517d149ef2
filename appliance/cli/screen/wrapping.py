"""Prose on a terminal breaks between words; what a person copies stays one line."""

from __future__ import annotations

import os
import re
import textwrap
from typing import Any

# A terminal breaks such a line itself, and then copies it whole.
_TO_COPY = re.compile(r"^\s*(?:hint|log): |(?<![\w/.-])(?:\S*/)?(?:appliance|sudo|ssh[a-z-]*) \S")
_NARROWEST = 20


def width_of(stream: Any) -> int | None:
    """The columns of the terminal that a stream is; None if it is none or does not say."""
    if not stream.isatty():
        return None
    try:
        columns = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        return None
    return columns if columns >= _NARROWEST else None


def wrapped(line: str, width: int | None) -> str:
    """The line broken between words, further lines below its text.

    Args:
        line: without a newline.
        width: columns; None where lines stay as they are.
    """
    if width is None or len(line) <= width or _TO_COPY.search(line):
        return line
    lead = len(line) - len(line.lstrip(" -"))
    parts = textwrap.wrap(
        line, width, subsequent_indent=" " * (lead + 2), break_long_words=False,
        break_on_hyphens=False, replace_whitespace=False, expand_tabs=False,
    )  # fmt: skip
    return "\n".join(parts)
