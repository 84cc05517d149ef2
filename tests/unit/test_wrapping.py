"""Prose breaks between words at the edge of a terminal; commands do not break."""

from __future__ import annotations

import pytest

from appliance.cli.screen.wrapping import wrapped

CASES = [
    ("fits", 20, "fits"),
    ("one two three", None, "one two three"),
    ("   because cp1: it is not set", 20, "   because cp1: it\n     is not set"),
    ("  - a fault of the node w1", 20, "  - a fault of the\n      node w1"),
    ("error: /a/path/longer/than/a/line", 20, "error:\n  /a/path/longer/than/a/line"),
    ("hint: check that it is powered on", 20, "hint: check that it is powered on"),
    ("next: appliance install --site rack7", 20, "next: appliance install --site rack7"),
    ("try /opt/bin/appliance status --watch", 20, "try /opt/bin/appliance status --watch"),
    ("copy it: ssh-copy-id -i KEY ada@host", 20, "copy it: ssh-copy-id -i KEY ada@host"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "width", "expected"), CASES)
def test_a_line_is_broken_between_words(line: str, width: int | None, expected: str) -> None:
    assert wrapped(line, width) == expected
