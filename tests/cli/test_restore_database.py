"""``appliance cluster restore --only database``: what is typed, asked and printed."""

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
from appliance.model.backup.restoring.database_view import Connection
from appliance.model.site.runai_settings import Runai
from appliance.workflows.cluster.restoring.database import DatabaseSources
from tests import samples
from tests.cli.faked_site import FakedSite
from tests.fakes import FakeJournal, FakeRack
from tests.unit.restore.database_rack import BACKUP, FakeBackup, FakeDatabases, journal_line

Capture = pytest.CaptureFixture[str]
Typed = Callable[..., int]


@pytest.fixture
def databases() -> FakeDatabases:
    return FakeDatabases()


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, databases: FakeDatabases) -> Typed:
    """Type words behind the command, with a file and a key."""
    site = replace(samples.site(1, 1, runai=Runai()), directory=tmp_path)
    desired = samples.desired(site)
    rack: Any = FakeRack(desired)
    journal = FakeJournal()
    journal.records.append(journal_line())

    class Site(FakedSite):
        journal: Any = None
        lock: Any = None

    def connect(_self: Application, _directory: Path, *_: Any, **__: Any) -> SiteSession:
        return Site(site, desired, rack, rack, None)

    monkeypatch.setattr(Application, "connect", connect)
    monkeypatch.setattr(
        "appliance.cli.wired.restore_database.database_ports",
        lambda *_: DatabaseSources(databases, FakeBackup()),
    )
    monkeypatch.setattr(SiteSession, "session", _session(rack, journal))
    write_key(tmp_path / "key.txt")

    def words(*more: str) -> int:
        file = str(tmp_path / f"{BACKUP}.backup")
        given = ["cluster", "restore", file, "--identity", str(tmp_path / "key.txt")]
        return run([*given, "--only", "database", "--site", str(tmp_path), *more])

    return words


def _session(rack: FakeRack, journal: FakeJournal) -> Any:
    from tests.sessions import fake_session

    return lambda *_a, **_k: fake_session(rack, journal)


def test_the_end_names_recovery_point_times_and_ways_back(typed: Typed, capsys: Capture) -> None:
    assert typed("--yes") == 0
    said = capsys.readouterr().out
    for words in (
        f"verified: backend, keycloak restored from the backup {BACKUP}",
        "recovery point: 2026-03-01T02:00:00+00:00",
        "30 s without Run:ai",
        "logged in; the cluster is connected; 3 projects",
        "the old backend is on the server as appliance_before_backend",
        "dumps of the state before: /var/lib/appliance/runai/before-restore-",
    ):
        assert words in said


def test_a_dry_run_shows_what_forbids_it_and_what_would_be_lost(
    typed: Typed, databases: FakeDatabases, capsys: Capture
) -> None:
    databases.view = replace(databases.view, fault="the pod is not Ready")
    assert typed("--dry-run") == 0
    said = capsys.readouterr().out
    assert "refused: cp1" in said
    assert "   backend: 48 rows now, 43 in the backup; at least" in said
    assert said.splitlines()[-1].startswith("cannot be done: 1 refusal,")
    assert databases.done == []


def test_a_dry_run_that_nothing_forbids_has_no_verdict_of_refusals(
    typed: Typed, databases: FakeDatabases, capsys: Capture
) -> None:
    assert typed("--dry-run") == 0
    said = capsys.readouterr().out
    assert said.startswith("restores Run:ai's databases")
    assert "cannot be done" not in said
    assert databases.done == []


def test_the_data_of_json_is_whole(typed: Typed, capsys: Capture) -> None:
    assert typed("--yes", "-o", "json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["done"] is True
    assert told["databases"][0] == {
        "name": "backend", "rows_now": 48, "rows_in_backup": 43, "lost": {"jobs": 5, "new": 1},
    }  # fmt: skip
    assert told["connection"] == {
        "checked": True, "why": "", "said": "connected", "shown": True, "projects": 3,
    }  # fmt: skip
    assert told["kept"]["keycloak"] == "appliance_before_keycloak"


def test_without_a_password_a_warning_says_that_nobody_logged_in(
    typed: Typed, databases: FakeDatabases, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setattr(databases, "check", lambda _key: Connection(why="the vault is empty"))
    assert typed("--yes") == 0
    assert "was not seen: the vault is empty" in capsys.readouterr().err


def test_without_a_terminal_nothing_is_changed(typed: Typed, databases: FakeDatabases) -> None:
    assert typed() == 3
    assert databases.done == []


@pytest.mark.parametrize("more", ["--without cp1", "--new-machines", "--bundle ."])
def test_what_does_not_go_with_it_is_a_usage_error(
    typed: Typed, databases: FakeDatabases, more: str
) -> None:
    assert typed(*shlex.split(more)) == 2
    assert databases.done == []


def test_a_site_without_run_ai_has_no_database(tmp_path: Path) -> None:
    from appliance.cli.wired.restore_database import database_ports
    from appliance.errors import ConfigError

    class Connected:
        site = samples.site(1, 1)

    connected: Any = Connected()
    with pytest.raises(ConfigError, match="no section runai"):
        database_ports(connected, tmp_path / "x", tmp_path / "y")
