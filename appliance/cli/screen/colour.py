"""Three colours with one meaning each: red is an error, yellow a warning, green is well.

Colours are for terminals. ``NO_COLOR`` and ``TERM=dumb`` turn them off. The words say the same
without them.
"""

from __future__ import annotations

import os
import re
from typing import Final, TextIO

RED: Final = "red"
YELLOW: Final = "yellow"
GREEN: Final = "green"
_CODES: Final = {RED: 31, YELLOW: 33, GREEN: 32}

# Columns whose cells are states; text from a node in another column never gets a colour.
_STATES: Final = frozenset({"state", "status", "outcome"})
# How the cell of a state begins -> its colour; the first one that fits.
_MEANING: Final = (
    (re.compile(r"(ERROR|failed|fail|not verified|NotReady|unreachable|lost|exited)\b"), RED),
    (re.compile(r"(warning|warn|interrupted|in maintenance|Ready, |\?)"), YELLOW),
    (re.compile(r"(ok|verified|Ready|pass|running)$"), GREEN),
)
# How a line begins that is an error, a warning or a good verdict.
_LABELS: Final = re.compile(r"^(?:(error)|(warning)|(healthy)|(\d+ faults?))(?=:|$)", re.MULTILINE)


def has_colour(stream: TextIO) -> bool:
    """Whether colours are shown there: a terminal, and the operator did not turn them off."""
    wanted = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return wanted and stream.isatty()


def colour_of(column: str, cell: str) -> str | None:
    """The colour of a cell; None for most."""
    if column not in _STATES:
        return None
    return next((colour for pattern, colour in _MEANING if pattern.match(cell)), None)


def painted(text: str, colour: str | None) -> str:
    """The text with the codes of a colour around it."""
    return f"\x1b[{_CODES[colour]}m{text}\x1b[0m" if colour and text else text


def with_labels(text: str) -> str:
    """The text with ``error``, ``warning`` and a verdict in their colours, at line starts only."""
    return _LABELS.sub(
        lambda found: painted(found[0], RED if found[1] or found[4] else
                              YELLOW if found[2] else GREEN),
        text,
    )  # fmt: skip
