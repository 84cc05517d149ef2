"""A backup that a node makes: its layout, what goes, and what a killed run leaves."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.backup.age import fingerprint, read_identities
from appliance.adapters.backup.places import FolderPlace
from appliance.adapters.backup.reader import check_parts
from appliance.adapters.backup.store import BackupStore
from tests.unit.timers.timed_node import (
    Node,
    appliance_backup_folder,
    appliance_timer_archive,
    appliance_timer_backup,
    appliance_timer_record,
    placed,
    run,
    write_settings,
)


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    return placed(tmp_path, monkeypatch)


@contextmanager
def at(moment: float, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patched:
        patched.setattr(appliance_timer_backup.time, "time", lambda: moment)
        yield


def test_what_a_node_writes_is_a_backup_for_every_command(node: Node) -> None:
    assert run() == 0
    store = BackupStore(FolderPlace(node.place))
    (held,) = store.held()
    sidecar = store.check(held.id)
    assert (held.state, sidecar.about.kinds) == ("whole", ("etcd", "control_plane"))
    with (node.place / f"{held.id}.backup").open("rb") as stream:
        manifest = check_parts(stream, read_identities(node.key), sidecar.sha256)
    assert manifest.about == sidecar.about
    assert manifest.etcd is not None
    assert manifest.etcd.revision == 7
    assert [(one.name, one.node) for one in manifest.parts] == [
        ("etcd/snapshot.db", "cp1"),
        ("control_plane/cp1/pki/ca.key", "cp1"),
    ]
    assert [(one.where, one.what) for one in sidecar.about.missing] == [
        ("this machine", "site"),
        ("cp1", "objects"),
    ]
    assert sidecar.about.recipients == (fingerprint(node.public),)


@pytest.mark.parametrize(("told", "version"), [("1.24.17", "1.24.17"), ("", ""), (None, "")])
def test_a_backup_says_what_runs_on_its_node(node: Node, told: str | None, version: str) -> None:
    """Its release is of the last install there, and stays that after an upgrade."""
    node.kubernetes = told
    assert run() == 0
    store = BackupStore(FolderPlace(node.place))
    (held,) = store.held()
    about = store.check(held.id).about
    assert (about.kubernetes, about.release) == (version, "k8s-1.23.5-r1")
    with (node.place / f"{held.id}.backup").open("rb") as stream:
        assert check_parts(stream, read_identities(node.key)).about == about


def test_no_plain_text_and_no_secret_stays(node: Node, capfd: pytest.CaptureFixture[str]) -> None:
    assert run() == 0
    everything = b"".join(path.read_bytes() for path in node.place.iterdir())
    everything += json.dumps(node.record).encode() + "".join(capfd.readouterr()).encode()
    for canary in (b"key of the CA", b"abcdef.0123", b"snapshot of etcdsnapshot"):
        assert canary not in everything
    assert list((node.folder / "work").iterdir()) == []
    assert {path.stat().st_mode & 0o777 for path in node.place.iterdir()} == {0o600}
    assert node.place.stat().st_mode & 0o777 == 0o700


def test_the_newest_stay_and_nothing_of_others_goes(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.place.mkdir(mode=0o700)
    strange = ("rack8-20200101T000000Z.backup", "notes.txt", "rack7-x-20200101T000000Z.backup")
    for name in strange:
        (node.place / name).write_text("of somebody else")
    (node.place / "rack7-20200101T000000Z.backup.json").write_text('{"id": "another"}')
    for hour in range(4):
        with at(1_800_000_000 + 3600 * hour, monkeypatch):
            assert run() == 0
    names = sorted(path.name for path in node.place.iterdir())
    assert [name for name in names if name.startswith("rack7-2027") and "json" not in name] == [
        "rack7-20270115T100000Z.backup",
        "rack7-20270115T110000Z.backup",
    ]
    assert set(strange) < set(names)
    assert "rack7-20200101T000000Z.backup.json" in names


def whole_ones(node: Node) -> list[str]:
    """Names of the backups that lie there, in order."""
    return sorted(path.name[:-12] for path in node.place.glob("*.backup.json"))


def test_a_clock_that_was_wrong_for_a_night_costs_no_new_backup(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    for moment in (4_000_000_000, 4_000_003_600, 1_800_000_000, 1_800_003_600):
        with at(moment, monkeypatch):
            assert run() == 0
        assert node.record["success"]["id"] in whole_ones(node)
    assert whole_ones(node) == ["rack7-20270115T080000Z", "rack7-20270115T090000Z"]


@pytest.mark.parametrize("lack", ["objects", "databases"])
def test_backups_that_lack_something_push_out_no_whole_one(
    node: Node, monkeypatch: pytest.MonkeyPatch, lack: str
) -> None:
    plain = node.gather

    def gather(want: dict[str, Any], data: Path) -> Any:
        found = plain(want, data)
        if appliance_timer_backup.time.time() == 1_800_000_000:
            found.text("objects/digest.json", b"{}")
        elif lack == "databases":
            found.text("objects/digest.json", b"{}")
            found.lacks("runai/databases", "no answer")
        return found

    monkeypatch.setattr(appliance_timer_backup.appliance_backup, "gather", gather)
    for hour in range(4):
        with at(1_800_000_000 + 3600 * hour, monkeypatch):
            assert run() == 0
    assert whole_ones(node) == [f"rack7-20270115T{hour}0000Z" for hour in ("08", "10", "11")]


@pytest.mark.parametrize("left", [".backup.partial", ".backup", ".backup.json.partial"], ids=str)
def test_what_a_killed_run_left_is_no_backup_and_goes(node: Node, left: str) -> None:
    node.place.mkdir(mode=0o700)
    half = node.place / f"rack7-20260101T000000Z{left}"
    half.write_bytes(b"half")
    assert all(one.state != "whole" for one in BackupStore(FolderPlace(node.place)).held())
    assert run() == 0
    assert not half.exists()


FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "no room below the limit": ({"most_gb": 0}, "most_gb"),
    "a recipient that is none": ({"recipients": ["age1no"]}, "age ended with 1"),
    "settings of another version": ({"keep": None, "most_gb": None}, "TypeError"),
}


@pytest.mark.parametrize("case", FAULTS)
def test_a_failed_run_leaves_the_old_ones_and_says_why(
    case: str, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    with at(1_800_000_000, monkeypatch):
        assert run() == 0
    before = {path.name: path.read_bytes() for path in node.place.iterdir()}
    more, told = FAULTS[case]
    write_settings(node, node.want(**more))
    assert run() == 1
    assert {path.name: path.read_bytes() for path in node.place.iterdir()} == before
    assert told in node.record["last"]["why"]
    assert (node.record["last"]["outcome"], node.record["failures"]) == ("failed", 1)
    assert node.record["success"]["id"] == "rack7-20270115T080000Z"


def test_without_a_snapshot_there_is_no_backup(node: Node) -> None:
    node.etcd = None
    assert run() == 1
    assert list(node.place.iterdir()) == []
    assert "etcd is not healthy" in node.record["last"]["why"]
    assert "hunter2" not in json.dumps(node.record)


def test_a_disk_that_is_nearly_full_is_left_alone(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(appliance_timer_backup, "RESERVE", 1 << 60)
    assert run() == 1
    assert "MB free" in node.record["last"]["why"]


def test_what_a_killed_run_left_goes_before_room_is_looked_for(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = node.folder / "work/timer-rack7-20260101T000000Z"
    (left / "data").mkdir(parents=True)
    (left / "data/database-backend.sql").write_text("plain text")
    (left / "backup.json").write_bytes(appliance_backup_folder.marker(left))
    monkeypatch.setattr(appliance_timer_backup, "RESERVE", 1 << 60)
    assert run() == 1
    assert not left.exists()


def test_a_disk_that_becomes_full_meanwhile_is_not_filled(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(appliance_timer_backup, "SPARE", 1 << 60)
    assert run() == 1
    assert list(node.place.iterdir()) == []
    assert "stay free for the node" in node.record["last"]["why"]


def fill(path: Path, recipient: str) -> None:
    limits = {"recipients": [recipient], "most_bytes": 1 << 16, "spare_bytes": 0}
    with appliance_timer_archive.encrypted(path, limits) as stream:
        for _ in range(200):
            stream.write(os.urandom(1 << 16))


def test_the_file_may_not_grow_without_an_end(node: Node) -> None:
    path = node.folder / "grown"
    with pytest.raises(appliance_timer_record.TimerError, match="most_gb"):
        fill(path, node.public)


@pytest.mark.parametrize("fault", [SystemExit(143), KeyboardInterrupt()], ids=["term", "int"])
def test_a_run_that_is_ended_is_written_down(node: Node, fault: BaseException) -> None:
    node.fault = fault
    with pytest.raises(type(fault)):
        run()
    assert node.record["last"]["outcome"] == "failed"
    assert node.record["last"]["why"] == "it was ended from outside"


def test_a_killed_run_shows_as_one_that_began(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    class Killed(BaseException):
        pass

    def kill(*_: Any) -> None:
        raise Killed

    write = appliance_timer_record._write
    monkeypatch.setattr(appliance_timer_backup, "make", kill)

    def only_the_first(name: str, document: dict[str, Any]) -> None:
        if document["last"]["outcome"] == "began":
            write(name, document)

    monkeypatch.setattr(appliance_timer_record, "_write", only_the_first)
    with pytest.raises(Killed):
        run_raising()
    assert node.record["last"]["outcome"] == "began"


def run_raising() -> None:
    """A killed process writes nothing and returns nothing."""
    with appliance_timer_record.alone("backup"):
        appliance_timer_record._write("backup", {"last": {"outcome": "began", "began": 1}})
        appliance_timer_backup.make({})


def test_two_runs_at_once_are_excluded(node: Node) -> None:
    with appliance_timer_record.alone("backup"):
        assert run() == 0
    assert not node.place.exists()


@pytest.mark.parametrize(("age", "skipped"), [(5.0, True), (600.0, False)])
def test_a_run_gives_way_to_a_command_that_is_at_work(
    node: Node, age: float, skipped: bool
) -> None:
    lock = node.folder / "lock"
    lock.mkdir()
    (lock / "holder").write_text('r1 {"command": "cluster upgrade", "run": "r1"}\n')
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    up = float(Path("/proc/uptime").read_text().split()[0]) - age
    (lock / "beat").write_text(f"{boot} {up}\n")
    assert run() == 0
    last = node.record["last"]
    assert last["outcome"] == ("skipped" if skipped else "done")
    assert ("cluster upgrade" in last["why"]) is skipped


HIDDEN = {
    "password=hunter2 rest": "hunter2",
    'PGPASSWORD: "a b c"': "a b c",
    "https://admin:hunter2@registry/": "hunter2",
    "bearer eyJhbGciOi": "eyJhbGciOi",
    "AGE-SECRET-KEY-1: QQQQ": "QQQQ",
}


@pytest.mark.parametrize("text", HIDDEN)
def test_reasons_have_no_secret(text: str) -> None:
    assert HIDDEN[text] not in appliance_timer_record.plain(text)
