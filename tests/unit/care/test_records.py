"""What stays of the runs on this machine."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.backup.places import FolderPlace
from appliance.adapters.backup.store import BackupStore
from appliance.adapters.care.backups import kept_backups
from appliance.adapters.care.runs import RunFiles
from appliance.errors import Refused
from appliance.model.backup.kept import KeptBackups
from appliance.model.backup.record import sidecar_text
from appliance.model.state.journal import Record
from appliance.model.upkeep.care.items import going
from appliance.model.upkeep.care.records import (
    DAY,
    KEPT_RUNS,
    KeptRun,
    Known,
    StateSizes,
    record_items,
)
from tests.unit.backup.samples import NAME, sidecar

NOW = 1_790_000_000.0
OTHER = "rack7-20260922T141320Z"


def run_id(age_days: float, number: int = 0) -> str:
    stamp = f"{int((NOW - age_days * DAY) * 1000):012x}"
    return f"{stamp[:8]}-{stamp[8:]}-7000-8000-{number:012x}"


def record(run: str, **changes: Any) -> Record:
    plain = Record(run, 1, "install", "registry", ("w1",), (), "then", 1.0, "verified", "ada")
    return replace(plain, **changes)


OLD = run_id(200)
RUN = KeptRun(OLD, NOW - 200 * DAY, 4096, ("registry",))
NEWER = tuple(KeptRun(run_id(100, n), NOW - 100 * DAY, 1, ()) for n in range(1, KEPT_RUNS + 1))
KNOWN = Known([record(OLD)], ["a mark"], ["w1"], NOW)
CASES: dict[str, tuple[tuple[KeptRun, ...], Known, bool]] = {
    "old, verified, and not of the newest": ((RUN, *NEWER), KNOWN, True),
    "one of the newest": ((RUN, *NEWER[1:]), KNOWN, False),
    "young": ((replace(RUN, begun=NOW - 89 * DAY), *NEWER), KNOWN, False),
    "no record: it was killed": ((RUN, *NEWER), replace(KNOWN, records=[]), False),
    "a step failed": (
        (RUN, *NEWER), replace(KNOWN, records=[record(OLD, outcome="failed")]), False,
    ),
    "a later step was killed": ((replace(RUN, steps=("registry", "gpu")), *NEWER), KNOWN, False),
    "a node names it": ((RUN, *NEWER), replace(KNOWN, marks=[f'{{"run": "{OLD}"}}']), False),
    "what nodes name is unknown": ((RUN, *NEWER), replace(KNOWN, marks=None), False),
}  # fmt: skip


@pytest.mark.parametrize(("runs", "known", "goes"), CASES.values(), ids=CASES)
def test_which_runs_go(runs: tuple[KeptRun, ...], known: Known, goes: bool) -> None:
    found = going(record_items(runs, StateSizes(), known))
    assert [OLD in one.what for one in found] == [True] * goes


def test_the_journal_and_reports_stay_and_facts_of_strangers_go() -> None:
    sizes = StateSizes((7, 700), {"w1": 10, "gone": 20}, (1, 5))
    found = {one.what: one.goes for one in record_items((), sizes, KNOWN)}
    assert found == {"facts of gone": True, "7 records of the journal": False, "1 reports": False}


def test_only_the_folder_of_a_run_is_removed(tmp_path: Path) -> None:
    runs, files = tmp_path / "runs", RunFiles(tmp_path)
    for name in (OLD, run_id(3), run_id(4), "notes"):
        (runs / name / "registry").mkdir(parents=True)
        (runs / name / "inventory.json").write_text("{}")
    (runs / run_id(3) / "my letter.txt").write_text("mine")
    (runs / run_id(4)).replace(tmp_path / "elsewhere")
    (runs / run_id(4)).symlink_to(tmp_path / "elsewhere")
    assert [one.id for one in files.runs()] == [OLD]
    for name in (run_id(3), run_id(4), "notes", "..", "../elsewhere"):
        with pytest.raises(NotADirectoryError):
            files.remove_run(name)
    files.remove_run(OLD)
    assert sorted(one.name for one in runs.iterdir()) == sorted([run_id(3), run_id(4), "notes"])
    assert (tmp_path / "elsewhere/inventory.json").exists()


def test_facts_are_removed_by_the_name_of_a_node_alone(tmp_path: Path) -> None:
    folder, files = tmp_path / "facts/nodes", RunFiles(tmp_path)
    folder.mkdir(parents=True)
    (folder / "gone.json").write_text("{}")
    assert files.sizes().facts == {"gone": 2}
    with pytest.raises(FileNotFoundError):
        files.remove_facts("../nodes/gone")
    files.remove_facts("gone")
    assert files.sizes().facts == {}


def _store(target: str) -> BackupStore:
    if not target.startswith("/"):
        raise Refused(f"{target}: no answer")
    return BackupStore(FolderPlace(Path(target)))


def test_releases_of_backups_are_read_beside_them(tmp_path: Path) -> None:
    kept = partial(kept_backups, _store)
    assert "is not there" in kept(str(tmp_path / "absent")).unknown
    assert kept(str(tmp_path)) == KeptBackups()
    whole = sidecar(NAME)
    (tmp_path / f"{NAME}.backup.json").write_text(sidecar_text(whole))
    assert kept(str(tmp_path)) == KeptBackups(
        frozenset({whole.about.release}), frozenset({whole.sha256})
    )
    (tmp_path / f"{OTHER}.backup").write_bytes(b"interrupted")
    assert kept(str(tmp_path)).unknown == ""
    (tmp_path / f"{OTHER}.backup.json").write_text("half")
    found = kept(str(tmp_path))
    assert found.releases == {whole.about.release}
    assert f"{OTHER}: the file beside it" in found.unknown
    assert "no answer" in kept("sftp://ada@nas/backups").unknown
