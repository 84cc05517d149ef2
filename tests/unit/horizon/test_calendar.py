"""The calendar keeps the rules of RFC 5545."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest

from appliance.model.upkeep.horizon.calendar import calendar, folded
from appliance.model.upkeep.horizon.endings import Ending, Kind

NOW = 1_800_000_000.0


def ending(what: str = "apiserver.crt", kind: Kind = "certificate", **more: object) -> Ending:
    ends = more.pop("ends", datetime(2027, 6, 1, 12, 30, tzinfo=UTC))
    return Ending(kind, "cp1", what, ends, **more)  # type: ignore[arg-type]


def unfolded(text: str) -> list[str]:
    return text.replace("\r\n ", "").split("\r\n")


def test_every_line_ends_with_crlf_and_has_75_octets_at_most() -> None:
    text = calendar("räck7", [ending("ö" * 200, next="do this, then that; and more")], NOW)
    assert text.endswith("END:VCALENDAR\r\n")
    assert "\n" not in text.replace("\r\n", "")
    lines = text.split("\r\n")
    assert max(len(line.encode()) for line in lines) <= 75
    assert f"SUMMARY:räck7: {'ö' * 200} ends (cp1)" in unfolded(text)


@pytest.mark.parametrize("length", [1, 74, 75, 76, 149, 150, 400])
def test_a_folded_line_is_the_line_again(length: int) -> None:
    line = ("ab€😀" * length)[:length]
    pieces = list(folded(line))
    assert "\r\n".join(pieces).replace("\r\n ", "") == line
    assert all(len(piece.encode()) <= 75 for piece in pieces)


def test_text_is_escaped() -> None:
    text = calendar("rack", [ending("a\\b;c,d\ne\x07")], NOW)
    assert "SUMMARY:rack: a\\\\b\\;c\\,d\\ne ends (cp1)" in unfolded(text)


@pytest.mark.parametrize(
    "odd", ["\r\nEND:VEVENT", "\x85END:VEVENT", "\u2028END", "\ud800", "\u202e"]
)
def test_what_a_node_says_begins_no_line_and_breaks_no_file(odd: str) -> None:
    text = calendar("rack", [ending(f"CN=x{odd}")], NOW)
    lines = text.encode().decode().splitlines()
    assert lines.count("END:VEVENT") == 1
    assert all(line[:1] in " ABCDEMPSTUVX" for line in lines)
    assert "\u202e" not in text


def test_an_event_is_a_whole_day_with_a_reminder() -> None:
    lines = unfolded(calendar("rack", [ending()], NOW))
    assert "DTSTART;VALUE=DATE:20270601" in lines
    assert "DTEND;VALUE=DATE:20270602" in lines
    assert "DTSTAMP:20270115T080000Z" in lines
    assert "TRIGGER:-P14D" in lines
    assert lines.count("BEGIN:VEVENT") == lines.count("END:VEVENT") == 1


def test_the_uid_of_a_thing_stays_when_its_day_moves() -> None:
    before = calendar("rack", [ending()], NOW)
    after = calendar("rack", [ending(ends=datetime(2028, 6, 1, tzinfo=UTC))], NOW + 9e6)
    uid = r"UID:([0-9a-f]{32}@appliance)\r\n"
    assert re.findall(uid, before) == re.findall(uid, after) != []
    assert re.findall(uid, calendar("other", [ending()], NOW)) != re.findall(uid, before)


def test_only_what_needs_somebody_on_a_known_day_is_an_event() -> None:
    past = datetime(2023, 2, 28, tzinfo=UTC)
    endings = [
        ending(ends=None, unknown="nobody tells"),
        ending("token", "token", counts=False),
        ending("support of kubernetes", "support", ends=past),
        ending("twice"),
        ending("twice"),
        ending("expired", ends=past),
    ]
    lines = unfolded(calendar("rack", endings, NOW))
    assert [line for line in lines if line.startswith("SUMMARY")] == [
        "SUMMARY:rack: twice ends (cp1)",
        "SUMMARY:rack: expired ends (cp1)",
    ]
