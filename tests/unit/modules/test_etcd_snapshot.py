"""A snapshot of etcd is whole and private, or there is none."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tests.unit.modules.loading import load_utils

etcd = load_utils("appliance_etcd_snapshot")
DATA = b"\x01" * 512 * 5


def blobs(text: bytes, size: int = 700) -> list[bytes]:
    return [text[i : i + size] for i in range(0, len(text), size)]


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(etcd, "SNAPSHOTS", tmp_path / "snapshots")


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
    with pytest.raises(etcd.SnapshotError, match="is not whole"):
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
