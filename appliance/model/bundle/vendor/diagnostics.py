"""The lines of the vendor's own ``preinstall-diagnostics`` (2.0 to 2.4), and what they are worth.

The tool was made for sites with internet: without it, some of its tests fail whatever the cluster
is like, and others complain of what this product installs on purpose. Its verdict is therefore
worth nothing here; its single tests are. What must not be here: running it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

Outcome = Literal["pass", "warning", "fail", "skip", "error", "none"]
CLUSTER: Final = "cluster"
# The tool has some forty tests, and runs them on each node. Lines beyond these are left out.
MOST_TESTS: Final = 20_000
MOST_LINES_OF_A_TEST: Final = 500
MOST_LINES: Final = 100_000
MOST_LETTERS: Final = 1000

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_TAGGED = re.compile(r"^\[(PASS|FAIL|WARNING|SKIP|ERROR|TEST|LOG|COMPLETE)\]\s*(.*)$")
_NODE = re.compile(r"^=+ LOGS FROM NODE (\S+) =+$")
# Titles that begin a part of the report, not a test.
_PARTS = re.compile(r"^running (?:external|internal) cluster tests")
_ENDS: Mapping[str, Outcome] = {"PASS": "pass", "FAIL": "fail", "SKIP": "skip"}

_INTERNET: Final = "it asks a service on the internet"
_OURS: Final = "this appliance installs it on purpose"
NOT_MEANINGFUL: Mapping[str, str] = {
    "Run:AI service access": _INTERNET,
    "DNS Servers access": _INTERNET,
    "Dynu DNS service access": _INTERNET,
    "Run:AI Helm Repository": _INTERNET,
    "DockerHub": _INTERNET,
    "Quay.io": _INTERNET,
    "Run:AI Prometheus": _INTERNET,
    "Run:AI Auth Provider": _INTERNET,
    "Connectivity to runai container registry": "its pod does not know the site's CA",
    "Nvidia device plugin": _OURS,
    "DCGM Exporter": _OURS,
    "Node Feature Discovery": _OURS,
    "GPU Feature Discovery": _OURS,
}
"""How titles of tests begin -> why a failure says nothing on a site without internet."""


@dataclass(frozen=True)
class VendorTest:
    """One test of the tool.

    Attributes:
        where: the node it ran on, or ``cluster``.
        said: its log, warnings and errors, in order.
        offline: why a failure means nothing here; empty when it does mean something.
    """

    where: str
    title: str
    outcome: Outcome = "none"
    said: tuple[str, ...] = ()
    offline: str = ""

    @property
    def counts(self) -> bool:
        """Whether it failed and that matters."""
        return self.outcome in ("fail", "error") and not self.offline


@dataclass(frozen=True)
class VendorReport:
    """Everything the tool said.

    Attributes:
        complete: nodes whose tests came to their end.
        file: where the tool's own file is kept on the control host; empty: nowhere.
    """

    tests: tuple[VendorTest, ...] = ()
    complete: tuple[str, ...] = ()
    unheard: tuple[str, ...] = ()
    file: str = ""

    @property
    def failures(self) -> tuple[VendorTest, ...]:
        """The failures that matter."""
        return tuple(test for test in self.tests if test.counts)


def parse(text: str) -> VendorReport:
    """Read a report; what is no tagged line belongs to the test before it."""
    reader = _Reader()
    for line in text.splitlines():
        reader.take(_COLOUR.sub("", line).rstrip())
    return reader.report()


class _Reader:
    """Line by line."""

    def __init__(self) -> None:
        self._where = CLUSTER
        self._tests: list[VendorTest] = []
        self._said: list[list[str]] = []
        self._lines = 0
        self._flooded = False
        self._open = False
        self._nodes: list[str] = []
        self._complete: list[str] = []

    def take(self, line: str) -> None:
        if node := _NODE.match(line):
            self._where, self._open = node[1], False
            self._nodes.append(node[1])
        elif tagged := _TAGGED.match(line):
            self._tagged(tagged[1], tagged[2])
        elif self._open and line and not line.startswith("---"):
            self._say(line)

    def _tagged(self, tag: str, text: str) -> None:
        if tag == "TEST":
            self._open = not _PARTS.match(text)
            if self._open and len(self._tests) >= MOST_TESTS:
                self._open, self._flooded = False, True
            if self._open:
                title = text[:MOST_LETTERS]
                self._tests.append(VendorTest(self._where, title, offline=_offline(title)))
                self._said.append([])
        elif tag == "COMPLETE":
            self._complete.append(self._where)
            self._open = False
        elif self._open:
            self._of_a_test(tag, text)

    def _of_a_test(self, tag: str, text: str) -> None:
        last = self._tests[-1]
        if text:
            self._say(text)
        if tag == "ERROR" and last.outcome == "none":
            # A later [PASS] takes it back: the tool says so of tests that it repeats.
            self._end("error", still_open=True)
        elif tag == "WARNING" and not text:
            self._end("warning")
        elif tag in _ENDS:
            # A test that is skipped says [PASS] after its [SKIP].
            self._end("skip" if last.outcome == "skip" else _ENDS[tag], still_open=tag == "SKIP")

    def _end(self, outcome: Outcome, *, still_open: bool = False) -> None:
        self._tests[-1] = replace(self._tests[-1], outcome=outcome)
        self._open = still_open

    def _say(self, text: str) -> None:
        # A pod that says more than any honest one is heard as far as a person would read.
        if len(self._said[-1]) < MOST_LINES_OF_A_TEST and self._lines < MOST_LINES:
            self._said[-1].append(text[:MOST_LETTERS])
            self._lines += 1

    def report(self) -> VendorReport:
        complete = dict.fromkeys(self._complete)
        unheard = tuple(node for node in self._nodes if node not in complete)
        tests = zip(self._tests, self._said, strict=True)
        found = [replace(test, said=tuple(said)) for test, said in tests]
        if self._flooded:
            # What was not read is no success.
            title = f"more tests than {MOST_TESTS}: the rest was not read"
            found.append(VendorTest(CLUSTER, title, "error"))
        return VendorReport(tuple(found), tuple(complete), unheard)


def _offline(title: str) -> str:
    return next((why for start, why in NOT_MEANINGFUL.items() if title.startswith(start)), "")


def by_title(tests: Iterable[VendorTest]) -> dict[tuple[str, Outcome], list[VendorTest]]:
    """Tests of several nodes that ended alike, together."""
    found: dict[tuple[str, Outcome], list[VendorTest]] = {}
    for test in tests:
        found.setdefault((test.title, test.outcome), []).append(test)
    return found
