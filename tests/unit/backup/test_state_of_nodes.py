"""The journal and the passports that nodes have copies of: in a backup from any laptop."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.adapters.backup.sources import LocalFile
from appliance.errors import NodeUnreachable
from appliance.model.backup.record import Manifest
from appliance.model.backup.site_parts import site_parts
from tests.unit.backup.bench import Bench, bench_in
from tests.unit.backup.fake_sources import FakeSources

OURS, THEIRS = "state/journal/run-a-001.json", "state/journal/run-b-001.json"


class Laptop(FakeSources):
    """A second laptop: its own record, and an old passport."""

    def local(self) -> Iterator[LocalFile]:
        yield from super().local()
        yield LocalFile(OURS, b"of this laptop")
        yield LocalFile("state/journal/locked.json", fault="Permission denied")
        yield LocalFile("state/passports/w1.json", b"old")


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    found = bench_in(tmp_path)
    found.sources = Laptop()
    return found


def _made(bench: Bench) -> tuple[Manifest, dict[str, int]]:
    done = bench.create()
    assert done.sidecar is not None
    manifest = bench.manifest(done.sidecar.about.id)
    return manifest, {part.name: part.size for part in manifest.of_kind("state")}


def test_a_second_laptop_saves_what_the_first_one_did(bench: Bench) -> None:
    bench.archive.documents = {
        "journal/run-a-001.json": "a copy that a node changed",
        "journal/run-b-001.json": "of the first laptop",
        "journal/locked.json": "readable on the nodes",
        "passports/w1.json": "the newest one",
    }
    manifest, saved = _made(bench)
    assert saved == {
        OURS: len("of this laptop"),
        THEIRS: len("of the first laptop"),
        "state/journal/locked.json": len("readable on the nodes"),
        "state/passports/w1.json": len("the newest one"),
    }
    assert not [one for one in manifest.about.missing if one.what.startswith("state")]
    restored = site_parts(manifest).files
    assert restored[THEIRS] == ".appliance/journal/run-b-001.json"
    assert restored["state/passports/w1.json"] == ".appliance/passports/w1.json"


def test_names_that_are_not_ours_are_not_taken_from_nodes(bench: Bench) -> None:
    bench.archive.documents = {
        "journal/../../etc/passwd": "x",
        "journal/deep/er.json": "x",
        "journal/program.sh": "x",
        "passports/.hidden.json": "x",
    }
    _, saved = _made(bench)
    assert set(saved) == {OURS, "state/passports/w1.json"}


def test_more_than_a_backup_takes_is_left_out_and_named(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("appliance.workflows.cluster.backups.gathering.MOST_COPIES", 2)
    bench.archive.documents = {f"journal/run-{n}.json": "x" for n in range(5)}
    manifest, saved = _made(bench)
    assert {"state/journal/run-3.json", "state/journal/run-4.json"} <= set(saved)
    assert "state/journal/run-2.json" not in saved
    told = [(one.where, one.what, one.why) for one in manifest.about.missing]
    assert ("cluster", "state", "3 copies more than a backup takes") in told


def test_nodes_whose_copies_cannot_be_read_are_named(bench: Bench) -> None:
    bench.archive.away = NodeUnreachable("no control-plane node answers")
    manifest, saved = _made(bench)
    assert set(saved) == {OURS, "state/passports/w1.json"}
    missing = {(one.where, one.what) for one in manifest.about.missing}
    assert {("cluster", "state/journal"), ("cluster", "state/passports")} <= missing
