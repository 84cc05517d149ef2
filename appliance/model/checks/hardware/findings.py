"""One judged fact: what was expected, what was found, and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Verdict(StrEnum):
    """The judgement of one fact. Unknown is never a pass."""

    PASS = "pass"  # noqa: S105  (no password)
    FAIL = "fail"
    UNKNOWN = "unknown"
    NOTE = "note"


_ORDER: Final = (Verdict.FAIL, Verdict.UNKNOWN, Verdict.NOTE, Verdict.PASS)


@dataclass(frozen=True)
class Finding:
    """One fact of one machine.

    Attributes:
        fact: a short name, as ``dimm:C1``.
        expected: in words; empty for a note without a rule.
        found: in words.
        action: what to do; empty for a pass.
    """

    fact: str
    expected: str
    found: str
    verdict: Verdict
    action: str = ""


def passed(fact: str, expected: object, found: object) -> Finding:
    """A fact that is as expected."""
    return Finding(fact, str(expected), str(found), Verdict.PASS)


def failed(fact: str, expected: object, found: object, action: str) -> Finding:
    """A fact that is not as expected."""
    return Finding(fact, str(expected), str(found), Verdict.FAIL, action)


def unknown(fact: str, expected: object, why: str, action: str) -> Finding:
    """A fact that could not be read or judged."""
    return Finding(fact, str(expected), f"unknown: {why}", Verdict.UNKNOWN, action)


def noted(fact: str, found: object, action: str = "") -> Finding:
    """A fact without a rule that a reader should see."""
    return Finding(fact, "", str(found), Verdict.NOTE, action)


def judged(fact: str, expected: object, found: object, action: str, *, good: bool) -> Finding:
    """A fact that was read and compared."""
    return passed(fact, expected, found) if good else failed(fact, expected, found, action)


def worst_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings by verdict; in their own order within one verdict."""
    return tuple(sorted(findings, key=lambda one: _ORDER.index(one.verdict)))


def overall(findings: Sequence[Finding]) -> Verdict:
    """The verdict of a machine: notes do not count; nothing judged is unknown."""
    verdicts = {one.verdict for one in findings}
    for verdict in (Verdict.FAIL, Verdict.UNKNOWN, Verdict.PASS):
        if verdict in verdicts:
            return verdict
    return Verdict.UNKNOWN
