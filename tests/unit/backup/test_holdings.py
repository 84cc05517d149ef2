"""What a place holds, and what may go from it."""

from __future__ import annotations

from typing import Any

from appliance.model.backup.holdings import Held, holdings, sidecar_names
from appliance.model.backup.names import backup_id
from appliance.model.backup.record import Missing, sidecar_text
from appliance.model.backup.retention import DAY_SECONDS, Keep, newest_whole, superseded
from tests.unit.backup.samples import MOMENT, NAME, sidecar

OTHER = "rack7-20260922T141320Z"


def _beside(name: str, **more: object) -> bytes:
    return sidecar_text(sidecar(name, **more)).encode()  # type: ignore[arg-type]


CASES: dict[str, tuple[dict[str, int], dict[str, bytes | None], list[tuple[str, str]]]] = {
    "whole": (
        {f"{NAME}.backup": 10, f"{NAME}.backup.json": 5},
        {f"{NAME}.backup.json": _beside(NAME)},
        [("whole", "")],
    ),
    "without the file beside it": (
        {f"{NAME}.backup": 10},
        {},
        [("interrupted", "it was not written to its end")],
    ),
    "partial": (
        {f"{NAME}.backup.partial": 3},
        {},
        [("interrupted", "it was not written to its end")],
    ),
    "the file beside it is partial": (
        {f"{NAME}.backup": 10, f"{NAME}.backup.json.partial": 3},
        {},
        [("interrupted", "it was not written to its end")],
    ),
    "shorter": (
        {f"{NAME}.backup": 9, f"{NAME}.backup.json": 5},
        {f"{NAME}.backup.json": _beside(NAME)},
        [("damaged", "it has 9 bytes, and had 10")],
    ),
    "gone": (
        {f"{NAME}.backup.json": 5},
        {f"{NAME}.backup.json": _beside(NAME)},
        [("damaged", "the backup itself is gone")],
    ),
    "its removal was killed": (
        {f"{NAME}.backup.json": 5, f"{NAME}.backup.removing": 64},
        {f"{NAME}.backup.json": _beside(NAME)},
        [("being removed", "the next backup to this place ends it")],
    ),
    "its removal was killed at its end": (
        {f"{NAME}.backup.removing": 64},
        {},
        [("being removed", "the next backup to this place ends it")],
    ),
    "its removal had not begun": (
        {f"{NAME}.backup": 10, f"{NAME}.backup.json": 5, f"{NAME}.backup.removing": 64},
        {f"{NAME}.backup.json": _beside(NAME)},
        [("whole", "")],
    ),
    "unreadable": (
        {f"{NAME}.backup": 10, f"{NAME}.backup.json": 5},
        {f"{NAME}.backup.json": None},
        [("damaged", "the file beside it cannot be read")],
    ),
    "no document": (
        {f"{NAME}.backup": 10, f"{NAME}.backup.json": 5},
        {f"{NAME}.backup.json": b"{}"},
        [("damaged", "the file beside it: its format is not a number from 1 on")],
    ),
    "renamed": (
        {f"{NAME}.backup": 10, f"{NAME}.backup.json": 5},
        {f"{NAME}.backup.json": _beside(OTHER)},
        [("damaged", "the file beside it is of another backup")],
    ),
    "strangers": (
        {"notes.txt": 1, "x.backup": 1, "../a-20260921T141320Z.backup": 1, ".backup.json": 1},
        {},
        [],
    ),
}


def test_what_a_place_holds() -> None:
    for case, (sizes, beside, expected) in CASES.items():
        found = [(one.state, one.why) for one in holdings(sizes, beside)]
        assert found == expected, case


def test_only_files_beside_backups_are_read() -> None:
    sizes = {f"{OTHER}.backup.json": 1, f"{NAME}.backup.json": 1, "settings.json": 1}
    assert sidecar_names(sizes) == (f"{NAME}.backup.json", f"{OTHER}.backup.json")


def _held(day: int, state: str = "whole", site: str = "rack7", **more: Any) -> Held:
    name = backup_id(site, MOMENT + day * DAY_SECONDS)
    return Held(name, state, 10, sidecar(name, site, **more))  # type: ignore[arg-type]


ALL = ("etcd", "runai")
STRANGE = {"sha256": "9" * 64}
SAVED = ("etcd", "volumes")
LOST = (Missing("cp1", "volumes/team/data/data.tar.gz", "the connection broke"),)


def _lacks(number: int) -> tuple[Missing, ...]:
    return tuple(Missing("cp1", f"part {one}", "no answer") for one in range(number))


NOW = MOMENT + 10 * DAY_SECONDS
RETENTION: dict[str, tuple[list[Held], Keep, list[int]]] = {
    "the oldest beyond both go": ([_held(d) for d in range(10)], Keep(3, 5), [0, 1, 2, 3, 4]),
    "the count keeps old ones": ([_held(d) for d in (0, 1)], Keep(2, 1), []),
    "the age keeps many": ([_held(d) for d in range(10)], Keep(1, 30), []),
    "the newest whole one stays": ([_held(0), _held(1)], Keep(0, 0), [0]),
    "damaged ones neither count nor go": (
        [_held(0), _held(1), _held(2, "damaged"), _held(3, "interrupted")],
        Keep(1, 0),
        [0],
    ),
    "other sites neither count nor go": (
        [_held(0), _held(1), _held(2, site="rack8"), _held(3, site="rack70")],
        Keep(1, 0),
        [0],
    ),
    "nothing": ([], Keep(1, 0), []),
    "another site of the same name neither counts nor goes": (
        [_held(0), _held(1), _held(2, **STRANGE), _held(3, **STRANGE)],
        Keep(1, 0),
        [0],
    ),
    "the last one of a kind stays": (
        [_held(d, kinds=ALL) for d in (0, 1)] + [_held(d, kinds=("etcd",)) for d in (2, 3, 4)],
        Keep(1, 0),
        [0, 2, 3],
    ),
    "the last one that lacks nothing stays": (
        [_held(0), _held(1), *(_held(d, missing=_lacks(2)) for d in (2, 3, 4))],
        Keep(1, 0),
        [0, 2, 3],
    ),
    "the last one with all of its volumes stays": (
        [
            *(_held(d, kinds=SAVED) for d in (0, 1)),
            _held(2, kinds=SAVED, missing=LOST),
            *(_held(d) for d in (3, 4)),
        ],
        Keep(1, 0),
        [0, 3],
    ),
    "where each one lacks something, the newest that lacks least stays": (
        [_held(d, missing=_lacks(1 + d // 2)) for d in range(4)],
        Keep(1, 0),
        [0, 2],
    ),
}


def test_what_may_go() -> None:
    for case, (held, keep, days) in RETENTION.items():
        found = [one.id for one in superseded(held, "rack7", keep, NOW, {"1" * 64})]
        assert found == [_held(day).id for day in days], case


def test_one_of_another_site_is_never_the_newest() -> None:
    assert newest_whole([_held(1), _held(2, site="rack8")], "rack7") == _held(1)
    assert newest_whole([_held(2, "damaged")], "rack7") is None
