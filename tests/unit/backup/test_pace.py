"""How slow a place may give a backup: by a clock of the test, which the place alone moves."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

import pytest

from appliance.adapters.backup import fetching
from appliance.adapters.backup.fetching import PIECE, pieces
from appliance.errors import NodeUnreachable

FILE = "rack-20260921T141320Z.backup"
CONTENT = bytes(range(256)) * (40 * PIECE // 256)


class _Place:
    """A place that takes its time for each piece.

    Args:
        seconds: for each piece of a connection; the last one of them for all that follow.
    """

    told = "sftp://ada@198.51.100.20/backups"

    def __init__(self, *seconds: float) -> None:
        self.now = 0.0
        self.starts: list[int] = []
        self._seconds = seconds

    def clock(self) -> float:
        return self.now

    @contextmanager
    def open(self, name: str, start: int = 0) -> Iterator[IO[bytes]]:
        assert name == FILE
        wait = self._seconds[min(len(self.starts), len(self._seconds) - 1)]
        self.starts.append(start)
        yield _Waited(CONTENT[start:], self, wait)


class _Waited(io.BytesIO):
    def __init__(self, content: bytes, place: _Place, seconds: float) -> None:
        super().__init__(content)
        self._place, self._waits = place, seconds

    def read(self, size: int | None = -1, /) -> bytes:
        self._place.now += self._waits
        return super().read(size)


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "PAUSES", (0.0, 0.0))


def given(place: _Place, told: list[str], busy: float = 0.0) -> bytes:
    """All that comes, by a reader that is busy for so long between two pieces."""
    found = bytearray()
    for piece in pieces(place, FILE, len(CONTENT), told.append, place.clock):
        found += piece
        place.now += busy
    return bytes(found)


def test_a_place_that_drips_is_left_after_a_few_attempts() -> None:
    place, told = _Place(59.0), list[str]()
    with pytest.raises(NodeUnreachable, match=r"it is too slow, \d+ of \d+ bytes came") as raised:
        given(place, told)
    assert "expected 1 MiB in 60 s at least" in raised.value.message
    assert "by hand" in (raised.value.hint or "")
    assert len(place.starts) == 3
    assert len([line for line in told if "again from byte" in line]) == 2


def test_a_place_that_is_slow_for_a_moment_goes_on_from_there() -> None:
    place, told = _Place(59.0, 59.0, 1.0), list[str]()
    assert given(place, told) == CONTENT
    assert place.starts == sorted(set(place.starts))
    assert len(place.starts) == 3


@pytest.mark.parametrize(("seconds", "busy"), [(14.0, 0.0), (0.1, 1000.0)])
def test_a_place_that_keeps_the_pace_is_read_at_once(seconds: float, busy: float) -> None:
    """Also where this machine takes long for each piece."""
    place = _Place(seconds)
    assert given(place, [], busy) == CONTENT
    assert place.starts == [0]
