"""The list as a calendar by RFC 5545, so that a person is reminded where they look every day.

Lines end with CRLF and are folded at 75 octets (3.1), text is escaped (3.3.11), and each event
keeps its UID for ever (3.8.4.7), so that a calendar takes a later file as a change.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Final
from unicodedata import category

from appliance.model.upkeep.horizon.endings import Ending

_OCTETS: Final = 75
# Control characters, formats (they change the direction of text), halves of pairs, separators of
# lines: some programs begin a line at them.
_UNSEEN: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
# Days before an end at which a calendar reminds.
_REMIND_DAYS: Final = 14


def calendar(site: str, endings: Iterable[Ending], now: float) -> str:
    """The calendar of what will end and needs somebody.

    Args:
        site: its name.
        endings: what ends; what is unknown, renews itself or ended for good is no event.
        now: UTC epoch seconds.
    """
    lines = [
        "BEGIN:VCALENDAR",
        "VERSION:2.0",
        "PRODID:-//appliance//horizon//EN",
        "CALSCALE:GREGORIAN",
        "METHOD:PUBLISH",
        f"X-WR-CALNAME:{_text(f'appliance {site}')}",
    ]
    uids: set[str] = set()
    for ending in endings:
        uid = _uid(site, ending)
        if ending.ends is None or not ending.counts or uid in uids:
            continue
        if ending.kind == "support" and ending.ends.timestamp() < now:
            continue
        uids.add(uid)
        lines += _event(site, ending, ending.ends, uid, now)
    lines.append("END:VCALENDAR")
    return "".join(f"{part}\r\n" for line in lines for part in folded(line))


def _event(site: str, ending: Ending, ends: datetime, uid: str, now: float) -> Iterator[str]:
    day = ends.astimezone(UTC).date()
    summary = f"{site}: {ending.what} ends ({ending.where})"
    yield "BEGIN:VEVENT"
    yield f"UID:{uid}"
    yield f"DTSTAMP:{datetime.fromtimestamp(now, UTC):%Y%m%dT%H%M%SZ}"
    # Without an end it is a whole day (3.6.1): the last day there is has no next one.
    yield f"DTSTART;VALUE=DATE:{_date(day)}"
    if day < date.max:
        yield f"DTEND;VALUE=DATE:{_date(day + timedelta(days=1))}"
    yield f"SUMMARY:{_text(summary)}"
    words = f"{ending.kind}; exactly {ends.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    yield f"DESCRIPTION:{_text(f'{words}; next: {ending.next}' if ending.next else words)}"
    yield "TRANSP:TRANSPARENT"
    yield "BEGIN:VALARM"
    yield "ACTION:DISPLAY"
    yield f"DESCRIPTION:{_text(summary)}"
    yield f"TRIGGER:-P{_REMIND_DAYS}D"
    yield "END:VALARM"
    yield "END:VEVENT"


def _date(day: date) -> str:
    # Of the year 1, strftime writes one digit.
    return day.isoformat().replace("-", "")


def _uid(site: str, ending: Ending) -> str:
    """The same for the same thing at each run, whatever its date has become."""
    known = "\n".join((site, ending.kind, ending.where, ending.what))
    digest = hashlib.sha256(known.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{digest[:32]}@appliance"


def _text(text: str) -> str:
    """A value of type TEXT."""
    for plain, escaped in (("\\", "\\\\"), (";", "\\;"), (",", "\\,"), ("\r", ""), ("\n", "\\n")):
        text = text.replace(plain, escaped)
    return "".join(char for char in text if category(char) not in _UNSEEN)


def folded(line: str) -> Iterator[str]:
    """The line in pieces of at most 75 octets: no character is cut, a space begins the next."""
    piece, size = "", 0
    for char in line:
        octets = len(char.encode())
        if size + octets > _OCTETS:
            yield piece
            piece, size = " ", 1
        piece, size = piece + char, size + octets
    yield piece
