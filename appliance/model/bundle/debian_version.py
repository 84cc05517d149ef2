"""Which of two versions of a Debian package is newer, as dpkg compares them.

Source: Debian Policy 5.6.12, "Version".
"""

from __future__ import annotations

import re
from functools import cmp_to_key
from typing import Final

_PIECES: Final = re.compile(r"(\D*)(\d*)")


def is_newer(version: str, other: str) -> bool:
    """Whether a version follows another."""
    return _compare(version, other) > 0


def _compare(version: str, other: str) -> int:
    one, two = _split(version), _split(other)
    for mine, theirs in zip(one, two, strict=True):
        if difference := _compare_part(mine, theirs):
            return difference
    return 0


def _split(version: str) -> tuple[str, str, str]:
    epoch, colon, rest = version.partition(":")
    epoch, rest = (epoch, rest) if colon else ("0", version)
    upstream, _, revision = rest.rpartition("-") if "-" in rest else (rest, "", "")
    return epoch, upstream, revision or "0"


def _compare_part(one: str, two: str) -> int:
    mine, theirs = _PIECES.findall(one), _PIECES.findall(two)
    for number in range(max(len(mine), len(theirs))):
        text, digits = mine[number] if number < len(mine) else ("", "")
        other_text, other_digits = theirs[number] if number < len(theirs) else ("", "")
        if text != other_text:
            return _order(text, other_text)
        if int(digits or 0) != int(other_digits or 0):
            return 1 if int(digits or 0) > int(other_digits or 0) else -1
    return 0


def _order(one: str, two: str) -> int:
    """Letters sort before other characters, and ``~`` before everything, even the end."""

    def weights(text: str) -> list[int]:
        return [-1 if c == "~" else ord(c) if c.isalpha() else ord(c) + 256 for c in text] + [0]

    mine, theirs = weights(one), weights(two)
    return (mine > theirs) - (mine < theirs)


version_key = cmp_to_key(_compare)
