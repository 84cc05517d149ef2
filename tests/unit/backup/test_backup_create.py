"""The workflow: what is asked of whom, what is missing, what is left when it ends anywhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.backup.age import Sink
from appliance.adapters.backup.places import FolderPlace
from appliance.adapters.backup.store import BackupStore
from appliance.errors import ApplianceError, ClusterError, Refused
from appliance.model.backup.freshness import NEWEST
from appliance.model.backup.retention import Keep
from appliance.workflows.cluster.backup import (
    BackupRequest,
    create_backup,
)
from tests.fake_documents import FakeDocuments
from tests.fakes import FakeJournal, FakeRack, run
from tests.sessions import fake_session
from tests.unit.backup.bench import Bench, Killed, bench_in


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return bench_in(tmp_path)


def test_everything_is_in_it(bench: Bench) -> None:
    done = bench.create()
    assert done.sidecar is not None
    name = done.sidecar.about.id
    manifest = bench.manifest(name)
    assert {part.kind for part in manifest.parts} == {
        *("etcd", "control_plane", "site", "tls", "registry", "objects", "runai")
    }
    assert [one.what for one in manifest.about.missing] == ["site/locked", "site/ [2J"]
    assert bench.names() == [f"{name}.backup", f"{name}.backup.json"]
    told = [line for record in bench.journal.records for line in record.why]
    assert any(done.sidecar.sha256 in line for line in told)
    assert done.sidecar.sha256 in bench.archive.documents[NEWEST]


def test_a_control_plane_node_that_is_away_is_named(bench: Bench) -> None:
    bench.sources.away = {"cp1"}
    done = bench.create()
    assert done.sidecar is not None
    manifest = bench.manifest(done.sidecar.about.id)
    missing = {(one.where, one.what) for one in manifest.about.missing}
    assert {("cp1", "etcd"), ("cp1", "control_plane")} <= missing
    assert manifest.etcd is not None
    assert {part.node for part in manifest.of_kind("control_plane")} == {"cp2", "cp3"}
    assert manifest.of_kind("etcd")[0].node == "cp2"


@pytest.mark.parametrize(
    ("told", "away", "version"),
    [
        ({}, "", "1.23.5"),
        (dict.fromkeys(("cp1", "cp2", "cp3"), "1.24.17"), "", "1.24.17"),
        # Half-way through an upgrade, or where one does not say it: the release decides.
        ({"cp1": "1.23.17"}, "", ""),
        ({"cp3": ""}, "", ""),
        ({}, "cp2", ""),
    ],
)
def test_a_backup_says_which_kubernetes_ran(
    bench: Bench, told: dict[str, str], away: str, version: str
) -> None:
    bench.sources.kubernetes = told
    bench.sources.away = {away}
    done = bench.create()
    assert done.sidecar is not None
    assert done.sidecar.about.kubernetes == version
    assert bench.manifest(done.sidecar.about.id).about == done.sidecar.about
    several = any("cp1 1.23.17" in str(words) for _, *words in bench.observer.said)
    assert several is ("cp1" in told and not version)


@pytest.mark.parametrize("breaks", [False, True])
def test_another_node_gives_the_snapshot(bench: Bench, breaks: bool) -> None:
    if breaks:
        bench.sources.breaks[("cp1", "etcd")] = 0
    else:
        bench.sources.without_etcd = {"cp1"}
    done = bench.create()
    assert done.sidecar is not None
    manifest = bench.manifest(done.sidecar.about.id)
    assert manifest.of_kind("etcd")[0].node == "cp2"
    assert len(manifest.abandoned) == int(breaks)


def test_a_node_that_sends_more_and_then_breaks_off_gave_no_snapshot(bench: Bench) -> None:
    bench.sources.before_etcd = ("etcd/more",)
    for name in ("cp1", "cp2", "cp3"):
        bench.sources.breaks[name, "etcd"] = 1
    with pytest.raises(ClusterError, match="no control-plane node gave a snapshot"):
        bench.create()
    assert bench.names() == []


def test_without_a_snapshot_there_is_no_backup(bench: Bench) -> None:
    bench.sources.without_etcd = {"cp1", "cp2"}
    bench.sources.away = {"cp3"}
    with pytest.raises(ClusterError, match="no control-plane node gave a snapshot") as caught:
        bench.create()
    assert len(caught.value.details) == 3
    assert bench.names() == []
    assert bench.journal.records[-1].outcome == "failed"


def test_a_connection_that_breaks_costs_the_rest_of_that_node(bench: Bench) -> None:
    bench.sources.breaks[("cp2", "control_plane")] = 1
    done = bench.create()
    assert done.sidecar is not None
    manifest = bench.manifest(done.sidecar.about.id)
    parts = [part.name for part in manifest.of_kind("control_plane") if part.node == "cp2"]
    assert parts == ["control_plane/cp2/0"]
    missing = [one.what for one in manifest.about.missing if one.where == "cp2"]
    assert missing == ["control_plane/cp2/1", "control_plane/cp2/2"]


def test_a_dry_run_writes_nothing(bench: Bench) -> None:
    done = bench.create(dry_run=True)
    assert (done.sidecar, bench.names(), bench.journal.records) == (None, [], [])
    assert any("a snapshot of etcd" in line for line in done.planned)
    assert any("only one key opens it" in line for line in done.planned)
    assert bench.sources.asked == []


def test_superseded_ones_go_once_the_new_one_is_whole(bench: Bench) -> None:
    names = []
    for _ in range(4):
        done = bench.create()
        assert done.sidecar is not None
        names.append(done.sidecar.about.id)
        bench.clock.time += 2 * 86_400
    kept = sorted(f"{name}.backup{more}" for name in names[-2:] for more in ("", ".json"))
    assert bench.names() == kept
    assert done.removed == (names[1],)


def test_a_place_that_lost_the_newest_may_not_be_mounted(bench: Bench) -> None:
    first = bench.create().sidecar
    assert first is not None
    bench.clock.time += 3600
    assert not any("mounted" in line for line in bench.create(dry_run=True).planned)
    for path in bench.folder.iterdir():
        path.unlink()
    line = f"the newest backup, {first.about.id}, is not in {bench.folder} any more: is that"
    assert any(line in one for one in bench.create(dry_run=True).planned)
    assert any(line in str(words) for _, *words in bench.observer.said)


def test_a_whole_backup_is_no_rest_of_a_run_although_the_list_is_cut_off(bench: Bench) -> None:
    class Cut(FolderPlace):
        def sizes(self) -> dict[str, int]:
            return {n: s for n, s in super().sizes().items() if not n.endswith(".json")}

    made = bench.create().sidecar
    assert made is not None
    assert not BackupStore(Cut(bench.folder)).remove_unfinished(made.about.id)
    assert len(bench.names()) == 2


def test_thousands_of_large_files_beside_backups_are_not_read(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest are read; what is not read is damaged, so it does not go."""
    for _ in range(3):
        bench.create()
        bench.clock.time += 60
    size = max(path.stat().st_size for path in bench.folder.glob("*.json"))
    monkeypatch.setattr("appliance.adapters.backup.store.MOST_BESIDE_BYTES", size + 1)
    held = BackupStore(FolderPlace(bench.folder)).held()
    assert [one.state for one in held] == ["damaged", "damaged", "whole"]


def test_those_of_another_site_of_the_same_name_stay(bench: Bench) -> None:
    """Two racks of one name share a place; each has a journal of its own."""
    bench.keep = Keep(1, 1)
    theirs = bench.create().sidecar
    bench.clock.time += 3600
    bench.journal, bench.documents = FakeJournal(), FakeDocuments()
    first = bench.create().sidecar
    bench.clock.time += 5 * 86_400
    planned = bench.create(dry_run=True).planned
    second = bench.create()
    assert theirs is not None
    assert first is not None
    assert second.removed == (first.about.id,)
    assert f"{theirs.about.id}.backup" in bench.names()
    assert any("1 backups of this name stay" in line for line in planned)


def test_one_that_was_changed_is_not_removed(bench: Bench) -> None:
    bench.keep = Keep(1, 1)
    first = bench.create().sidecar
    assert first is not None
    file = bench.folder / f"{first.about.id}.backup"
    file.write_bytes(bytes(first.size))
    bench.clock.time += 5 * 86_400
    done = bench.create()
    assert (done.removed, len(done.stayed)) == ((), 1)
    assert file.exists()


class _Dying(FolderPlace):
    """A place at which the process is killed after some bytes; nothing tidies up."""

    def __init__(self, folder: Path, after: int) -> None:
        super().__init__(folder)
        self.after = after
        self._folder_path = folder

    @contextmanager
    def new(self, name: str) -> Iterator[Sink]:
        partial = self._folder_path / f"{name}.partial"
        with partial.open("xb") as stream:
            yield _DyingSink(self, stream)
        if self.after < 0:
            raise Killed
        partial.rename(self._folder_path / name)

    def count(self, size: int) -> None:
        self.after -= size


class _DyingSink:
    def __init__(self, place: _Dying, stream: Any) -> None:
        self._place, self._stream = place, stream

    def write(self, content: bytes, /) -> int:
        self._place.count(len(content))
        if self._place.after >= 0:
            self._stream.write(content)
        return len(content)


@pytest.mark.parametrize("after", [0, 100, 5_000])
def test_what_a_kill_leaves_is_no_backup_and_goes_with_the_next(bench: Bench, after: int) -> None:
    first = bench.create().sidecar
    assert first is not None
    bench.clock.time += 3600
    with pytest.raises(Killed):
        bench.create(_Dying(bench.folder, after))
    states = {one.id: one.state for one in BackupStore(FolderPlace(bench.folder)).held()}
    assert list(states.values()) == ["whole", "interrupted"]
    bench.clock.time += 3600
    done = bench.create()
    assert done.sidecar is not None
    assert bench.names() == sorted(
        f"{name}.backup{more}"
        for name in (first.about.id, done.sidecar.about.id)
        for more in ("", ".json")
    )


def test_a_kill_before_the_file_beside_it_leaves_no_backup(bench: Bench) -> None:
    class NoSidecar(_Dying):
        @contextmanager
        def new(self, name: str) -> Iterator[Sink]:
            if name.endswith(".json"):
                raise Killed
            with super().new(name) as sink:
                yield sink

    with pytest.raises(Killed):
        bench.create(NoSidecar(bench.folder, 1 << 30))
    assert [one.state for one in BackupStore(FolderPlace(bench.folder)).held()] == ["interrupted"]
    bench.clock.time += 60
    done = bench.create()
    assert done.sidecar is not None
    assert len(bench.names()) == 2


def test_a_kill_while_nodes_are_asked_leaves_what_the_next_run_removes(bench: Bench) -> None:
    def die() -> None:
        raise Killed

    bench.sources.on_ask = die
    with pytest.raises(Killed):
        bench.create()
    bench.sources.on_ask = lambda: None
    (done,) = (bench.create(),)
    assert done.sidecar is not None
    assert len(bench.names()) == 2


def test_files_of_others_stay(bench: Bench) -> None:
    strange = {
        "rack7-20200101T000000Z.backup.partial": b"of another site",
        "notes.txt": b"notes",
        "other-20200101T000000Z.backup": b"x",
    }
    for name, content in strange.items():
        (bench.folder / name).write_bytes(content)
    bench.create()
    assert {name: (bench.folder / name).read_bytes() for name in strange} == strange


def test_a_control_plane_without_a_majority_does_not_undo_it(bench: Bench) -> None:
    bench.archive.away = ApplianceError("fewer than a majority")
    assert bench.create().sidecar is not None
    said = [words for kind, *words in bench.observer.said if kind == "note"]
    assert any("other machines do not know" in str(words) for words in said)


def test_who_does_not_confirm_has_no_backup(bench: Bench) -> None:
    rack = FakeRack(bench.desired)
    asked: list[Sequence[str]] = []

    def refuse(lines: Sequence[str]) -> bool:
        asked.append(lines)
        return False

    session = fake_session(
        rack,
        bench.journal,
        backup_store=BackupStore(FolderPlace(bench.folder)),
        backup_sources=bench.sources,
    )
    request = BackupRequest(
        bench.desired.site, run("cluster backup create"), (bench.recipient,), Keep(1, 1), "0.1.0"
    )
    with pytest.raises(Refused):
        create_backup(request, session, refuse)
    assert (len(asked), bench.names(), bench.sources.asked) == (1, [], [])
