"""A trial removes only what a trial wrote, and a file that is no snapshot is refused by name."""

from __future__ import annotations

import os
import random
import struct
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.unit.modules.loading import load_utils

file = load_utils("appliance_etcd_file")
folders = load_utils("appliance_etcd_folder")
trial = load_utils("appliance_etcd_trial")


@pytest.fixture(autouse=True)
def trials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(folders, "TRIALS", tmp_path / "trials")
    monkeypatch.setattr(folders, "LIVE", tmp_path / "etcd")
    monkeypatch.setattr(trial.appliance_etcd_folder, "LIVE", tmp_path / "etcd")
    (tmp_path / "snapshot.db").write_bytes(b"")
    return tmp_path / "trials"


def left(trials: Path) -> Path:
    """What a trial that was killed leaves."""
    folder = trials / "0123"
    (folder / "data/member").mkdir(parents=True)
    (folder / "data/member/wal").write_text("x")
    (folder / "etcd.log").write_text("x")
    (folder / "trial.json").write_bytes(folders.marker(folder))
    return folder


def begin(tmp_path: Path) -> None:
    with folders.folder_of_our_own(tmp_path / "snapshot.db") as (folder, _):
        assert folder.stat().st_mode & 0o777 == 0o700
        (folder / "data").mkdir()


def test_what_a_killed_trial_left_is_taken_away(trials: Path, tmp_path: Path) -> None:
    left(trials)
    (trials / "4567").mkdir()
    begin(tmp_path)
    assert list(trials.iterdir()) == []


def no_marker(folder: Path) -> None:
    (folder / "trial.json").unlink()


def another_marker(folder: Path) -> None:
    (folder / "trial.json").write_text('{"made_by": "somebody", "folder": "0123"}')


def marker_of_another_folder(folder: Path) -> None:
    (folder / "trial.json").write_bytes(folders.marker(folder.with_name("9999")))


def marker_by_link(folder: Path) -> None:
    (folder / "trial.json").rename(folder.parent.parent / "elsewhere")
    (folder / "trial.json").symlink_to(folder.parent.parent / "elsewhere")


def a_stranger(folder: Path) -> None:
    (folder / "backup.db").write_text("x")


def data_by_link(folder: Path) -> None:
    (folder / "data").rename(folder.parent.parent / "theirs")
    (folder / "data").symlink_to(folder.parent.parent / "theirs")


def folder_by_link(folder: Path) -> None:
    folder.rename(folder.parent.parent / "theirs")
    folder.symlink_to(folder.parent.parent / "theirs")


def a_file(folder: Path) -> None:
    (folder.parent / "0000").write_text("x")


@pytest.mark.parametrize(
    "change",
    [
        *(no_marker, another_marker, marker_of_another_folder, marker_by_link, a_stranger),
        *(data_by_link, folder_by_link, a_file),
    ],
    ids=lambda change: change.__name__,
)
def test_what_no_trial_wrote_stays(
    trials: Path, tmp_path: Path, change: Callable[[Path], None]
) -> None:
    change(left(trials))
    before = {path: path.lstat().st_ino for path in tmp_path.rglob("*")}
    with pytest.raises(folders.FolderError, match="then run again"):
        begin(tmp_path)
    assert {path: path.lstat().st_ino for path in tmp_path.rglob("*")} == before


def test_what_is_mounted_below_stays(
    trials: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = left(trials)
    (tmp_path / "proc/self").mkdir(parents=True)
    line = f"36 35 98:0 / {folder}/data rw,noatime master:1 - ext4 /dev/root rw\n"
    (tmp_path / "proc/self/mountinfo").write_text(line)
    monkeypatch.setattr(folders, "PROC", tmp_path / "proc")
    with pytest.raises(folders.FolderError, match="no trial writes"):
        begin(tmp_path)
    assert (folder / "data/member/wal").exists()


def test_a_trial_that_still_runs_is_left_alone(
    trials: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders._lock_once_quiet, "__defaults__", (0,))
    folder = left(trials)
    handle = os.open(folder / "trial.json", os.O_RDONLY)
    try:
        folders.fcntl.flock(handle, folders.fcntl.LOCK_EX)
        with pytest.raises(folders.FolderError, match="still runs"):
            begin(tmp_path)
    finally:
        os.close(handle)
    assert (folder / "data/member/wal").exists()


def test_no_trial_begins_within_the_data_of_the_living_etcd(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "etcd").mkdir()
    monkeypatch.setattr(folders, "TRIALS", tmp_path / "etcd/trials")
    with pytest.raises(folders.FolderError, match="lies within"):
        begin(tmp_path)


def test_no_trial_begins_without_space(
    trials: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = SimpleNamespace(f_bavail=268, f_frsize=1000 * 1000)
    monkeypatch.setattr(folders.os, "statvfs", lambda _path: said)
    with pytest.raises(folders.FolderError, match="has 268 MB free and 269 MB are needed"):
        begin(tmp_path)
    assert list(trials.iterdir()) == []


def running(proc: Path, pid: str, program: str, *words: str, socket: int = 0) -> Path:
    beside = proc / pid / "root/usr/local/bin"
    beside.mkdir(parents=True)
    (proc / pid / "fd").mkdir()
    (proc / pid / "fd/3").symlink_to(f"socket:[{socket}]")
    (proc / pid / "exe").symlink_to(program)
    (proc / pid / "cmdline").write_bytes("\0".join(words).encode())
    return beside


def test_the_programs_are_those_of_the_etcd_with_the_nodes_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proc, live = tmp_path / "proc", f"--data-dir={tmp_path / 'etcd'}"
    monkeypatch.setattr(trial, "PROC", proc)
    listening(proc, (2379, "0A", 7), (2379, "01", 8), (2380, "0A", 9))
    etcd = "/usr/local/bin/etcd"
    running(proc, "10", "/usr/bin/bash", "bash", live)
    running(proc, "11", etcd, "etcd", "--data-dir=/srv/theirs", socket=7)
    with pytest.raises(trial.TrialError, match="no etcd with the data folder"):
        trial.running_programs()
    beside = running(proc, "12", etcd, "etcd", live, socket=7)
    with pytest.raises(trial.TrialError, match="neither etcdutl nor etcdctl"):
        trial.running_programs()
    (beside / "etcdutl").symlink_to("/usr/bin/false")
    (beside / "etcdctl").write_text("")
    found = trial.running_programs()
    assert found == (str(proc / "12/exe"), str(beside / "etcdctl"))


def listening(proc: Path, *sockets: tuple[int, str, int]) -> None:
    """Port, state and inode of each, as the kernel lists them."""
    (proc / "net").mkdir(parents=True)
    line = "   0: 0100007F:%04X 00000000:0000 %s 00000000:00000000 00:00000000 00000000 0 0 %d 1\n"
    lines = [line % one for one in sockets]
    (proc / "net/tcp").write_text("  sl  local_address rem_address   st\n" + "".join(lines))


@pytest.mark.parametrize("socket", [0, 8, 9])
def test_a_program_of_a_pod_that_looks_like_etcd_is_not_run_by_root(
    socket: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proc, live = tmp_path / "proc", f"--data-dir={tmp_path / 'etcd'}"
    monkeypatch.setattr(trial, "PROC", proc)
    listening(proc, (2379, "0A", 7), (2379, "01", 8), (2380, "0A", 9))
    beside = running(proc, "12", "/usr/local/bin/etcd", "etcd", live, socket=socket)
    (beside / "etcdutl").write_text("")
    with pytest.raises(trial.TrialError, match="no etcd with the data folder"):
        trial.running_programs()
    genuine = running(proc, "99", "/usr/local/bin/etcd", "etcd", live, socket=7)
    (genuine / "etcdutl").write_text("")
    assert trial.running_programs() == (str(proc / "99/exe"), str(genuine / "etcdutl"))


META = b"\x00" * 16


def meta(root: int, page: int = 4096) -> bytes:
    head = file.META.pack(file.MAGIC, 2, page, 0, root, 0, 0, 9, 1, 0)[:-8]
    found: bytes = META + head + struct.pack("<Q", file._fnv(head))
    return found.ljust(page, b"\0")


def page(number: int, flags: int, count: int, rest: bytes = b"") -> bytes:
    head: bytes = file.PAGE.pack(number, flags, count, 0)
    return (head + rest).ljust(4096, b"\0")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", "is empty"),
        (b"\0" * 9000, "no database"),
        (b"not a database", "no database"),
        (meta(2), "damaged|read"),
        (meta(1 << 60), "damaged|read"),
        (meta(2) + meta(2) + page(2, 0x02, 0), "no bucket key"),
        (meta(2) + meta(2) + page(2, 0x10, 0), "of no known kind"),
        (meta(2) + meta(2) + page(2, 0x01, 1, file.BRANCH.pack(0, 0, 2)), "circle"),
        (meta(2) + meta(2) + page(2, 0x02, 1, file.LEAF.pack(1, 16, 9, 1 << 30)), "beyond"),
        (meta(2) + meta(2) + page(2, 0x02, 65535), "bucket key|beyond|damaged"),
    ],
)
def test_what_is_no_snapshot_is_refused(tmp_path: Path, text: bytes, words: str) -> None:
    path = tmp_path / "file.db"
    path.write_bytes(text)
    with pytest.raises(file.FileError, match=words):
        file.content(path)


def test_any_bytes_end_in_an_error_of_ours(tmp_path: Path) -> None:
    rng = random.Random(16)  # noqa: S311  (cases, not secrets)
    path = tmp_path / "file.db"
    for _ in range(200):
        path.write_bytes(meta(2) + meta(2) + rng.randbytes(4096 * 2))
        with pytest.raises(file.FileError):
            file.content(path, seconds=5)
