"""Volumes on the command line: ``restore --only volumes`` and ``backup create --volume``."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.backup.key_file import write_key
from appliance.cli.app import Application
from appliance.cli.exits import run
from appliance.cli.site_session import SiteSession
from appliance.model.site.recovery.backup_settings import Backup
from appliance.workflows.cluster.restoring.volumes import VolumeRestoreSources
from tests import samples
from tests.cli.faked_site import FakedSite
from tests.fakes import FakeArchive, FakeClock, FakeJournal, FakeRack
from tests.unit.backup import volume_samples
from tests.unit.backup.fake_sources import ETCD, FakeSources
from tests.unit.restore.database_rack import BACKUP, journal_line
from tests.unit.restore.volume_rack import IDLE, FakeBackup, FakeVolumes

Capture = pytest.CaptureFixture[str]
Typed = Callable[..., int]


class Site(FakedSite):
    """A site whose adapters are fakes."""

    journal: Any = None
    lock: Any = None

    @property
    def archive(self) -> Any:
        return self.nodes.archive  # type: ignore[attr-defined]

    @property
    def clock(self) -> Any:
        return self.nodes.clock  # type: ignore[attr-defined]


@pytest.fixture
def volumes() -> FakeVolumes:
    return FakeVolumes()


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, volumes: FakeVolumes) -> Typed:
    """Type words behind the command, with a file and a key."""
    site = replace(volume_samples.site(), directory=tmp_path)
    desired = samples.desired(site)
    rack: Any = FakeRack(desired)
    journal = FakeJournal()
    journal.records.append(journal_line())

    def connect(_self: Application, _directory: Path, *_: Any, **__: Any) -> SiteSession:
        return Site(site, desired, rack, rack, None)

    def session(*_a: Any, **_k: Any) -> Any:
        from tests.sessions import fake_session

        return fake_session(rack, journal, clock=FakeClock())

    monkeypatch.setattr(Application, "connect", connect)
    monkeypatch.setattr(
        "appliance.cli.wired.volumes.volume_restore_ports",
        lambda *_: VolumeRestoreSources(volumes, FakeBackup()),
    )
    monkeypatch.setattr(SiteSession, "session", session)
    write_key(tmp_path / "key.txt")

    def words(*more: str) -> int:
        file = str(tmp_path / f"{BACKUP}.backup")
        given = ["cluster", "restore", file, "--identity", str(tmp_path / "key.txt")]
        return run([*given, "--only", "volumes", "--site", str(tmp_path), *more])

    return words


def test_the_end_names_what_was_there(typed: Typed, capsys: Capture) -> None:
    assert typed("--yes") == 0
    said = capsys.readouterr().out
    for words in (
        f"verified: team/data, team/busy restored from the backup {BACKUP}",
        "recovery point: 2026-03-01T02:00:00+00:00",
        "team/data: 2 files, 2000 bytes",
        "what was there: team/data.before in the export on cp1",
    ):
        assert words in said


def test_a_dry_run_shows_what_forbids_it(
    typed: Typed, volumes: FakeVolumes, capsys: Capture
) -> None:
    volumes.listed = [IDLE]
    assert typed("--dry-run") == 0
    said = capsys.readouterr().out
    assert "refused: team/data: volumes: found no claim of that name" in said
    assert "   restores the data of team/busy from the backup" in said
    assert said.splitlines()[-1].startswith("cannot be done: 1 refusal,")
    assert volumes.done == []


def test_the_data_of_json_is_whole(typed: Typed, capsys: Capture) -> None:
    assert typed("--yes", "--volume", "team/data", "-o", "json") == 0
    told = json.loads(capsys.readouterr().out)
    (one,) = told["volumes"]
    assert (told["done"], one["claim"], one["kept"]) == (True, "team/data", "team/data.before")
    assert one["digest"] == "d1" * 32


def test_without_a_terminal_nothing_is_changed(typed: Typed, volumes: FakeVolumes) -> None:
    assert typed() == 3
    assert volumes.done == []


@pytest.mark.parametrize("more", ["--without cp1", "--new-machines", "--bundle ."])
def test_what_does_not_go_with_it_is_a_usage_error(
    typed: Typed, volumes: FakeVolumes, more: str
) -> None:
    assert typed(*shlex.split(more)) == 2
    assert volumes.done == []


def test_a_volume_belongs_to_volumes_alone(typed: Typed, volumes: FakeVolumes) -> None:
    assert typed("--only", "database", "--volume", "team/data") == 2
    assert volumes.done == []


def test_a_volume_is_saved_and_proved_where_it_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Capture
) -> None:
    class Sources(FakeSources):
        def try_snapshot(self, *_: Any) -> Any:
            return ETCD

    _, record, archive = volume_samples.saved(tmp_path / "node", monkeypatch)
    saving, sources = volume_samples.FakeVolumes(record, archive), Sources()
    (tmp_path / "place").mkdir()
    wanted = Backup(recipients=(write_key(tmp_path / "key.txt"),), to=str(tmp_path / "place"))
    plain = volume_samples.site()
    settings = plain.settings.model_copy(update={"backup": wanted, "runai": None})
    site = replace(plain, settings=settings, directory=tmp_path)
    desired = samples.desired(site)
    fake: Any = FakeRack(desired)
    fake.archive, fake.clock = FakeArchive(), FakeClock()

    class Saved(FakedSite):
        @property
        def archive(self) -> Any:
            return fake.archive

        @property
        def clock(self) -> Any:
            return fake.clock

    monkeypatch.setattr(
        Application, "connect", lambda *_a, **_k: Saved(site, desired, fake, fake, None)
    )
    monkeypatch.setattr(Application, "site", lambda *_: site)
    monkeypatch.setattr("appliance.cli.wired.backups.sources_of", lambda _: sources)
    monkeypatch.setattr("appliance.cli.wired.volumes.volume_sources", lambda _: saving)
    where = ("--site", str(tmp_path))
    words = ("cluster", "backup", "create", "--volume", "team/data", "--yes")
    assert run([*words, *where, "-o", "json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert "volumes" in made["backup"]["kinds"]
    file = str(tmp_path / "place" / f"{made['backup']['id']}.backup")
    key = str(tmp_path / "key.txt")
    assert run(["cluster", "backup", "verify", file, "--identity", key, *where]) == 0
    assert "team/data: compared: 2 files, 200006 bytes" in capsys.readouterr().out
