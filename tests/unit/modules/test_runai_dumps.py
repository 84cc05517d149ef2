"""Every database of the server is dumped before an upgrade of Run:ai, and what they share."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.local.content import STANDINS
from tests.unit.modules.test_runai_upgrade_modules import (
    DUMP,
    GLOBALS,
    Job,
    dumps,
    records,
    rolled_back,
    save,
    saved_state,
    wanted,
)

WANT = {"kubectl": "kubectl", "kubeconfig": "admin.conf"}
EMPTY = DUMP.replace("CREATE TABLE backend.projects (id integer, name text);\n", "")


class Server:
    """A PostgreSQL whose files are these; a file without a text fails."""

    def __init__(self, databases: str = "backend\0keycloak\n", **texts: str | None) -> None:
        self.texts: dict[str, str | None] = {"databases": databases, "globals": GLOBALS, **texts}
        self.programs: list[list[str]] = []

    def run(self, command: list[str], *_: Any) -> tuple[dict[str, Any], bool]:
        self.programs.append(command[command.index("dump") + 1 :])
        text = self.texts.get(Path(command[4]).stem, DUMP)
        if text is not None:
            Path(command[4]).write_text(text)
        rc = int(text is None)
        return {"rc": rc, "stdout": "", "stderr": "permission denied", "job": "x"}, True


def test_each_other_database_has_a_file_and_its_name_in_the_record(tmp_path: Path) -> None:
    server = Server("backend\0keycloak\0postgres\n", **{"other-postgres": EMPTY})
    others, told = dumps.take_all(WANT, server, tmp_path)
    assert [(one["database"], Path(one["path"]).name, one["tables"]) for one in others] == [
        ("keycloak", "other-keycloak.sql", 1),
        ("postgres", "other-postgres.sql", 0),
    ]
    assert (Path(told["path"]).name, told["bytes"]) == ("globals.sql", len(GLOBALS))
    assert server.programs == [
        ["psql", "-U", "postgres", "-d", "template1", "-At0", "-c", dumps.LIST],
        ["pg_dump", "-U", "postgres", "keycloak"],
        ["pg_dump", "-U", "postgres", "postgres"],
        ["pg_dumpall", "-U", "postgres", "--globals-only"],
    ]


@pytest.mark.parametrize(
    "name", ["--file=/etc/x", "host=elsewhere", "postgresql://x/y", "a b", "../x", "two\nlines"]
)
def test_no_name_of_a_database_is_an_option_an_address_or_a_path(tmp_path: Path, name: str) -> None:
    server = Server(f"backend\0{name}\0")
    (one,), _ = dumps.take_all(WANT, server, tmp_path)
    assert server.programs[1] == ["env", f"PGDATABASE={name}", "pg_dump", "-U", "postgres"]
    assert Path(one["path"]).parent == tmp_path
    assert one["database"] == name


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ({"databases": None}, "the databases were not listed"),
        ({"databases": "keycloak\0"}, "lists none of its name"),
        ({"other-keycloak": None}, "the database keycloak was not dumped"),
        ({"other-keycloak": DUMP.replace("dump complete", "dump")}, "lacks the end"),
        ({"globals": GLOBALS.replace("dump complete", "dump")}, "lacks the end"),
        ({"globals": DUMP}, "lacks the beginning"),
    ],
)
def test_what_is_not_whole_stops_the_upgrade(
    tmp_path: Path, texts: dict[str, str | None], said: str
) -> None:
    databases = texts.pop("databases", "backend\0keycloak\n")
    server = Server()
    server.texts |= {**texts, "databases": databases}
    with pytest.raises(dumps.UpgradeError, match=said):
        dumps.take_all(WANT, server, tmp_path)


def test_a_server_that_does_not_tell_its_roles_does_not_stop_it(tmp_path: Path) -> None:
    _, told = dumps.take_all(WANT, Server(globals=None), tmp_path)
    assert "permission denied" in told["error"]


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The record of this node, in a folder of the test."""
    path = tmp_path / "upgrade.json"
    monkeypatch.setattr(records, "PATH", path)
    return path


def _cut(folder: Path) -> None:
    (folder / "other-keycloak.sql").write_text("cut")


def _no_globals(folder: Path) -> None:
    (folder / "globals.sql").unlink()


def _older_tool(_folder: Path) -> None:
    found = records.read()
    del found["others"]
    records.keep(found)


@pytest.mark.usefixtures("record")
@pytest.mark.parametrize("loss", [_cut, _no_globals, _older_tool])
def test_all_of_it_is_saved_again_where_one_file_is_not_whole(
    tmp_path: Path, loss: Callable[[Path], None]
) -> None:
    folder = tmp_path / "before"
    told, _ = save(wanted(folder))
    assert [one["database"] for one in records.read()["others"]] == ["keycloak"]
    assert saved_state.is_saved(wanted(folder), records.read(), told["taken"])
    loss(folder)
    assert not saved_state.is_saved(wanted(folder), records.read(), told["taken"])


@pytest.mark.parametrize("changed", [False, True])
def test_another_database_that_was_migrated_forbids_the_way_back(
    tmp_path: Path, changed: bool
) -> None:
    (tmp_path / "database.sql").write_text(DUMP)
    (tmp_path / "other-keycloak.sql").write_text(DUMP)
    found = {
        "folder": str(tmp_path),
        "dump": dumps.examined(tmp_path / "database.sql"),
        "others": [dict(dumps.examined(tmp_path / "other-keycloak.sql"), database="keycloak")],
    }
    new = DUMP.replace("name text", "name text, email text") if changed else DUMP

    def dump(command: list[str]) -> None:
        Path(command[4]).write_text(new if "keycloak" in command[4] else DUMP)

    if not changed:
        rolled_back.require_same_form(WANT, found, Job(dump))
        return
    with pytest.raises(dumps.UpgradeError, match="after-keycloak"):
        rolled_back.require_same_form(WANT, found, Job(dump))
    assert (tmp_path / "other-keycloak.sql").read_text() == DUMP


def test_the_stand_in_answers_as_psql_and_pg_dumpall_do(tmp_path: Path) -> None:
    program = STANDINS / "vendor_bundle_standin/images/pg_dump.py"
    said = {}
    for name, words in (("psql", ["-At0"]), ("pg_dumpall", ["--globals-only"])):
        link = tmp_path / name
        link.write_text(program.read_text())
        argv = [sys.executable, str(link), "-U", "postgres", *words]
        environment = {"STORE_DIR": str(tmp_path), "PGPASSWORD": "any"}
        done = subprocess.run(argv, env=environment, capture_output=True, timeout=60, check=True)
        said[name] = done.stdout.decode()
    server = Server(said["psql"], globals=said["pg_dumpall"])
    others, told = dumps.take_all(WANT, server, tmp_path)
    assert [one["database"] for one in others] == ["postgres"]
    assert told["bytes"] > 0
