"""A dump is restored into a database of ours, which goes again; nothing else is dropped."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path
from typing import Any

import pytest

from tests.unit.modules.loading import load, load_utils

load("runai_saved_state", role="runai_upgrade")
trials = load_utils("appliance_backup_database")
trial_file = trials.appliance_backup_trial
OURS, OTHER = "appliance_verify_0123456789abcdef", "backend"


class FakeServer(trials.Server):  # type: ignore[misc, name-defined]
    """A server that keeps names of databases, and answers counts."""

    def __init__(self, rows: dict[str, int], left: tuple[str, ...] = ()) -> None:
        self.rows = rows
        self.databases = {OTHER, *left}
        self.asked: list[str] = []
        self.fails = ""
        self.restored = ""

    def ask(self, database: str, statement: str) -> list[str]:
        self.asked.append(statement)
        if self.fails and self.fails in statement:
            raise trials.TrialError("the database server: it failed")
        words = statement.split()
        if statement == trials.LEFT:
            return sorted(name for name in self.databases if name.startswith("appliance_verify_"))
        if words[0] == "CREATE":
            self.databases.add(words[2].strip('"'))
        elif words[0] == "DROP":
            self.databases.remove(words[2].strip('"'))
        elif words[0] == "SELECT":
            assert trials.NAME.fullmatch(database)
            return [str(self.rows[statement.partition(" FROM ")[2]])]
        return []

    def load(self, database: str, dump: Path) -> None:
        assert trials.NAME.fullmatch(database)
        if b"broken" in dump.read_bytes():
            raise trials.TrialError("the dump was not restored: a syntax error")

    def dump(self, database: str, path: Path) -> None:
        assert trials.NAME.fullmatch(database)
        path.write_text(self.restored)


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    path = tmp_path / "dump.sql"
    path.write_text("-- PostgreSQL database dump\n")
    return path


ROWS = {"public.projects": 3, 'public."Odd name"': 0}


def test_the_rows_are_compared_and_the_database_goes(dump: Path) -> None:
    server = FakeServer(ROWS, left=(OURS,))
    assert trials.trial(server, dump, ROWS) == {"tables": 2, "rows": 3, "digests": False}
    assert server.databases == {OTHER}


def test_a_database_of_a_name_like_ours_stays_and_is_no_hindrance(dump: Path) -> None:
    server = FakeServer(ROWS, left=(OURS, "appliance_verify_notes"))
    assert trials.trial(server, dump, ROWS) == {"tables": 2, "rows": 3, "digests": False}
    assert server.databases == {OTHER, "appliance_verify_notes"}


def test_a_dump_with_another_sha256_runs_nowhere(tmp_path: Path) -> None:
    path, content = tmp_path / "dump.sql", b"-- dump"
    with pytest.raises(OSError, match="its sha256 is another"):
        trial_file.receive(path, len(content), io.BytesIO(content), "0" * 64)
    path.unlink()
    trial_file.receive(path, len(content), io.BytesIO(content), hashlib.sha256(content).hexdigest())
    assert path.read_bytes() == content


def test_other_rows_are_told_and_the_database_goes(dump: Path) -> None:
    server = FakeServer({**ROWS, "public.projects": 2})
    with pytest.raises(trials.TrialError, match=r"public.projects has 2 rows, and had 3"):
        trials.trial(server, dump, ROWS)
    assert server.databases == {OTHER}


@pytest.mark.parametrize("fails", ["COMMENT", "count"])
def test_a_trial_that_fails_leaves_nothing(dump: Path, fails: str) -> None:
    server = FakeServer(ROWS)
    server.fails = fails
    with pytest.raises(trials.TrialError, match="it failed"):
        trials.trial(server, dump, ROWS)
    assert server.databases == {OTHER}


def test_a_dump_that_does_not_load_leaves_nothing(dump: Path) -> None:
    server = FakeServer(ROWS)
    dump.write_text("broken;\n")
    with pytest.raises(trials.TrialError, match="was not restored"):
        trials.trial(server, dump, ROWS)
    assert server.databases == {OTHER}


TEXT = "-- PostgreSQL database dump\nCOPY public.projects (id) FROM stdin;\n1\n2\n\\.\n"


def sums(dump: Path) -> tuple[dict[str, int], dict[str, str]]:
    found = trials.appliance_backup_cluster.tables_of(dump)
    rows = {table: number for table, (number, _) in found.items()}
    return rows, {table: digest for table, (_, digest) in found.items()}


@pytest.mark.parametrize(
    ("restored", "words"),
    [
        (TEXT.replace("2\n", "3\n"), "as many rows as it had, and others: its digest is another"),
        (TEXT.replace("2\n", ""), "has 1 rows, and had 2"),
        (TEXT.replace("projects", "x"), "projects was not restored"),
        (
            TEXT + "COPY x (id) FROM stdin;\n\\.\n",
            "x was restored, and the backup does not name it",
        ),
        (TEXT + "CREATE INDEX i ON x (y);\n", "other definitions or sequences"),
    ],
)
def test_what_was_restored_is_dumped_and_has_to_be_the_same(
    dump: Path, restored: str, words: str
) -> None:
    server = FakeServer({})
    dump.write_text(TEXT)
    rows, digests = sums(dump)
    server.restored = TEXT
    assert trials.trial(server, dump, rows, digests)["digests"]
    server.restored = restored
    with pytest.raises(trials.OtherContent, match=words):
        trials.trial(server, dump, rows, digests)
    assert server.databases == {OTHER}


def test_a_trial_needs_room_for_two_dumps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free = trials.shutil.disk_usage(str(tmp_path)).free
    monkeypatch.setattr(trials.dumps, "RESERVE", 0)
    monkeypatch.setattr(trials.dumps, "STEP", 0)
    trials.require_room(tmp_path, 1)
    with pytest.raises(trials.TrialError, match="MB free, and to restore a dump of"):
        trials.require_room(tmp_path, free)


def test_nothing_runs_of_a_dump_that_psql_would_take_commands_from(dump: Path) -> None:
    class Job:
        def run(self, *_: Any) -> Any:
            pytest.fail("psql was started")

    dump.write_text("SELECT 1; \\! id\n")
    with pytest.raises(trials.TrialError, match="line 1 of the dump has a command for psql"):
        trials.Server(dump.parent, Job()).load(OURS, dump)


@pytest.mark.parametrize("name", [OTHER, "appliance_verify_", f'{OURS}"; DROP', "template1"])
def test_no_other_database_is_dropped(name: str) -> None:
    server: Any = FakeServer(ROWS)
    with pytest.raises(trials.TrialError, match="no scratch database of ours"):
        server.drop(name)
    assert server.asked == []


TABLES = {
    "public.projects": True,
    'public."Odd name"': True,
    'public."a""b"': True,
    "projects": True,
    "public.projects; DROP DATABASE backend": False,
    'public."a"b"': False,
    "": False,
    "pg_sleep(9)": False,
}


@pytest.mark.parametrize("name", TABLES)
def test_names_of_tables_are_judged(name: str) -> None:
    assert (trials.TABLE.fullmatch(name) is not None) is TABLES[name]
