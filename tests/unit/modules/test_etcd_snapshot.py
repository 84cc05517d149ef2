"""A snapshot of etcd is whole and private, or there is none."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.unit.modules.loading import load_utils

etcd = load_utils("appliance_etcd_snapshot")
DATA = b"\x01" * 512 * 5


def blobs(text: bytes, size: int = 700) -> list[bytes]:
    return [text[i : i + size] for i in range(0, len(text), size)]


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(etcd, "SNAPSHOTS", tmp_path / "snapshots")
    monkeypatch.setattr(etcd, "DATABASE", tmp_path / "db")


def whole(monkeypatch: pytest.MonkeyPatch) -> None:
    text = DATA + hashlib.sha256(DATA).digest()
    monkeypatch.setattr(etcd, "_blobs", lambda: blobs(text))


def test_a_whole_snapshot_is_kept_for_root_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    whole(monkeypatch)
    path = Path(etcd.snapshot("api-server"))
    assert path.read_bytes()[:-32] == DATA
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert [found.name for found in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize(
    "text",
    [DATA, DATA[:-1] + hashlib.sha256(DATA).digest(), DATA + bytes(32), b""],
    ids=["cut", "short", "wrong sum", "empty"],
)
def test_a_snapshot_that_is_not_whole_is_not_kept(
    monkeypatch: pytest.MonkeyPatch, text: bytes
) -> None:
    monkeypatch.setattr(etcd, "_blobs", lambda: blobs(text))
    with pytest.raises(etcd.SnapshotError, match="is incomplete"):
        etcd.snapshot("api-server")
    assert list(etcd.SNAPSHOTS.iterdir()) == []


def test_only_the_latest_of_its_kind_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    whole(monkeypatch)
    etcd.SNAPSHOTS.mkdir()
    for day in range(1, 9):
        (etcd.SNAPSHOTS / f"2026010{day}T000000Z-api-server.db").write_text("")
    other = etcd.SNAPSHOTS / "20260101T000000Z-upgrade.db"
    other.write_text("")
    path = Path(etcd.snapshot("api-server"))
    kept = sorted(etcd.SNAPSHOTS.glob("*-api-server.db"))
    assert len(kept) == etcd.KEPT
    assert kept[-1] == path
    assert other.exists()


def test_the_first_snapshot_of_an_upgrade_that_goes_on_is_never_pushed_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole(monkeypatch)
    etcd.SNAPSHOTS.mkdir()
    first = etcd.SNAPSHOTS / "20260101T000000Z-upgrade.db"
    first.write_text("before the first change")
    for day in range(2, 9):
        (etcd.SNAPSHOTS / f"2026010{day}T000000Z-upgrade.db").write_text("")
    for _ in range(3):
        etcd.snapshot("upgrade", [first.name])
    assert first.read_text() == "before the first change"
    kept = set(etcd.SNAPSHOTS.glob("*-upgrade.db")) - {first}
    assert len(kept) <= etcd.KEPT


def test_the_one_just_written_is_kept_even_when_the_clock_was_set_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole(monkeypatch)
    etcd.SNAPSHOTS.mkdir()
    for year in range(2090, 2098):
        (etcd.SNAPSHOTS / f"{year}0101T000000Z-api-server.db").write_text("")
    path = Path(etcd.snapshot("api-server"))
    kept = sorted(etcd.SNAPSHOTS.glob("*-api-server.db"))
    assert kept[0] == path
    assert len(kept) == etcd.KEPT
    assert kept[1].name.startswith("2094")


def breaking(error: Exception) -> Iterator[bytes]:
    yield DATA
    raise error


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (etcd.SnapshotError("etcd sent no snapshot: timed out"), "timed out"),
        (OSError(errno.ENOSPC, "No space left on device"), "No space left.*run again"),
    ],
    ids=["the source breaks off", "the disk is full"],
)
def test_what_is_half_written_does_not_stay(
    monkeypatch: pytest.MonkeyPatch, error: Exception, words: str
) -> None:
    monkeypatch.setattr(etcd, "_blobs", lambda: breaking(error))
    with pytest.raises(etcd.SnapshotError, match=words):
        etcd.snapshot("member")
    assert list(etcd.SNAPSHOTS.iterdir()) == []


class CutOff:
    """etcd's gateway, which goes away in the middle of a message."""

    status = 200

    def request(self, *_words: str, body: bytes) -> None:
        assert body == b"{}"

    def getresponse(self) -> CutOff:
        return self

    def __iter__(self) -> Iterator[bytes]:
        yield b'{"result": {"blob": "AQEB"}}\n'
        yield b'{"result": {"blob": "AQ'

    def close(self) -> None:
        pass


def test_a_message_that_is_cut_off_is_no_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(etcd, "_connection", CutOff)
    with pytest.raises(etcd.SnapshotError, match="etcd sent no snapshot: Unterminated"):
        etcd.snapshot("member")
    assert list(etcd.SNAPSHOTS.iterdir()) == []


def half_written() -> Path:
    etcd.SNAPSHOTS.mkdir()
    path: Path = etcd.SNAPSHOTS / "20260101T000000Z-member.db.new"
    path.write_text("half")
    return path


def test_what_a_killed_one_left_half_written_is_removed_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left = half_written()

    def seen() -> list[bytes]:
        assert not left.exists()
        return blobs(DATA + hashlib.sha256(DATA).digest())

    monkeypatch.setattr(etcd, "_blobs", seen)
    path = Path(etcd.snapshot("api-server"))
    assert list(etcd.SNAPSHOTS.iterdir()) == [path]


def test_what_another_one_still_writes_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    whole(monkeypatch)
    others = half_written()
    etcd.SNAPSHOTS.chmod(0o700)
    handle = os.open(etcd.SNAPSHOTS, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_SH)
        path = Path(etcd.snapshot("api-server"))
    finally:
        os.close(handle)
    assert sorted(etcd.SNAPSHOTS.iterdir()) == sorted([others, path])


def test_two_at_once_are_distinguished(monkeypatch: pytest.MonkeyPatch) -> None:
    inner: list[str] = []

    def twice() -> list[bytes]:
        if not inner:
            inner.append("begun")
            with pytest.raises(etcd.SnapshotError, match="run again"):
                etcd.snapshot("member")
        return blobs(DATA + hashlib.sha256(DATA).digest())

    monkeypatch.setattr(etcd, "_blobs", twice)
    monkeypatch.setattr(etcd.time, "strftime", lambda *_: "20260101T000000Z")
    assert Path(etcd.snapshot("member")).read_bytes()[:-32] == DATA


MB = 1000 * 1000


def disk(monkeypatch: pytest.MonkeyPatch, free: int, database: int) -> None:
    with etcd.DATABASE.open("wb") as stream:
        stream.truncate(database)
    said = SimpleNamespace(f_bavail=free // 1000, f_bfree=free, f_frsize=1000)
    monkeypatch.setattr(etcd.os, "statvfs", lambda _path: said)


def test_nothing_is_begun_when_the_disk_has_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(etcd, "_blobs", lambda: pytest.fail("etcd was asked"))
    disk(monkeypatch, free=109 * MB, database=100 * MB)
    with pytest.raises(etcd.SnapshotError) as refused:
        etcd.snapshot("member")
    assert str(refused.value) == (
        f"no space for a snapshot of etcd: {etcd.SNAPSHOTS} has 109 MB free and 110 MB are "
        "needed (etcd's database and 10 percent); move older snapshots off this node, or free "
        "other disk space, then run again"
    )
    assert list(etcd.SNAPSHOTS.iterdir()) == []


def test_there_is_room_for_the_database_and_a_tenth(monkeypatch: pytest.MonkeyPatch) -> None:
    whole(monkeypatch)
    disk(monkeypatch, free=110 * MB, database=100 * MB)
    assert Path(etcd.snapshot("member")).exists()


def test_what_was_left_half_written_goes_before_the_room_is_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left = half_written()
    disk(monkeypatch, free=0, database=100 * MB)
    with pytest.raises(etcd.SnapshotError, match="no space"):
        etcd.snapshot("member")
    assert not left.exists()
