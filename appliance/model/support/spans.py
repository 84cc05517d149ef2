"""Secrets of several lines that end with a sign of their own: strings of TOML, here-documents.

What must not be here: blocks of YAML, and keys (:mod:`appliance.model.support.redaction`).
"""

from __future__ import annotations

import re
from typing import Final

from appliance.model.support.forms import SECRET_NAME, has_hint

# A sign that never comes must not hide the rest of a log.
MOST_LINES: Final = 300
_TRIPLE: Final = re.compile(
    rf"(?:{SECRET_NAME})[\"']?\s{{0,40}}[:=]\s{{0,40}}(?P<sign>\"{{3}}|'{{3}})", re.I
)
_HERE: Final = re.compile(r"<<-?\s{0,9}[\"'\\]?(?P<sign>[A-Za-z_]\w{0,40})[\"']?")
_NAMED: Final = re.compile(SECRET_NAME, re.I)
# A private key of PuTTY says how many lines it has.
_COUNTED: Final = re.compile(r"\s*Private-Lines:\s*(?P<lines>\d{1,3})\s*")


class Span:
    """Whether a line is within such a secret."""

    def __init__(self) -> None:
        self._sign = ""
        self._is_alone = False
        self._left = 0

    def takes(self, line: str) -> bool:
        """Whether the line is a part of the secret."""
        if not self._left:
            return False
        self._left -= 1
        if self._sign and (line.strip() == self._sign if self._is_alone else self._sign in line):
            self._left = 0
        return True

    def begin(self, line: str) -> None:
        """See whether the lines below are a secret."""
        if counted := _COUNTED.fullmatch(line):
            self._sign, self._left = "", int(counted["lines"])
        elif "<<" in line and has_hint(line.lower()):
            here = _HERE.search(line)
            if here and _NAMED.search(line):
                self._sign, self._is_alone, self._left = here["sign"], True, MOST_LINES
        elif ('"""' in line or "'''" in line) and has_hint(line.lower()):
            triple = _TRIPLE.search(line)
            if triple and triple["sign"] not in line[triple.end() :]:
                self._sign, self._is_alone, self._left = triple["sign"], False, MOST_LINES
