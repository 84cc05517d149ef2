"""Databases of a real PostgreSQL are dumped as for a backup, and tried as `backup verify` does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_restore_database import make
from tests.postgres_server import Postgres, serving
from tests.unit.modules.database_course import DirectJob, prepare

from ansible.module_utils import (  # isort: skip
    appliance_backup,
    appliance_backup_cluster,
    appliance_backup_database as trials,
)

pytestmark = pytest.mark.slow
ODD = 'extra."Odd ""name"'


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with serving() as found:
        yield found


@dataclass
class Saved:
    """What a backup has of a server, and the programs that try it."""

    folder: Path
    databases: dict[str, Any]
    paths: dict[str, Path]

    def dump(self, name: str) -> bytes:
        return self.paths[self.databases[name]["part"]].read_bytes()

    def tried(self, name: str, content: bytes | None = None, **changes: Any) -> dict[str, Any]:
        """Try a dump as the node does."""
        known = {**self.databases[name], **changes}
        path = self.folder / "tried.sql"
        path.write_bytes(self.dump(name) if content is None else content)
        unit = trials.Server(self.folder, DirectJob())
        found: dict[str, Any] = trials.trial(unit, path, known["rows"], known.get("digests"), name)
        return found


@pytest.fixture
def saved(server: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Saved]:
    """Databases of several encodings; one gives times and bytes in a form of its own."""
    prepare(monkeypatch, server.kubectl, tmp_path)
    monkeypatch.setattr(appliance_backup_cluster, "PROGRAM", str(server.kubectl))
    make(server)
    server.ask("template1", "CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1' "
               "LC_COLLATE 'C' LC_CTYPE 'C'")  # fmt: skip
    server.ask("template1", "ALTER DATABASE latin SET timezone TO 'Asia/Tokyo'")
    server.ask("template1", "ALTER DATABASE latin SET bytea_output TO 'escape'")
    server.ask(
        "latin",
        "CREATE TABLE notes (word text, at timestamptz, raw bytea, share float8, data jsonb)",
        "INSERT INTO notes VALUES (chr(233), '2026-01-01 00:00:00+00', '\\x00ff', 1/3.0, '{}')",
    )
    server.ask("keycloak", "INSERT INTO users VALUES (2, E'\\303\\251')")
    found, data = appliance_backup.Gathered(), tmp_path / "gathered"
    data.mkdir()
    appliance_backup_cluster.databases(found, data, DirectJob())
    assert found.missing == []
    parts = {name: (path, content) for name, path, content, _, _ in found.parts}
    counts = json.loads(parts["runai/counts.json"][1])["databases"]
    yield Saved(tmp_path, counts, {name: path for name, (path, _) in parts.items() if path})
    assert server.ask("template1", trials.LEFT) == [], "no scratch database is left"
    for name in server.ask("template1", "SELECT datname FROM pg_database WHERE datname <> "
                           "'postgres' AND NOT datistemplate"):  # fmt: skip
        server.ask("template1", f'DROP DATABASE "{name}" WITH (FORCE)')


def test_every_database_is_restored_and_compared_by_counts_and_digests(saved: Saved) -> None:
    found = {name: saved.tried(name) for name in saved.databases}
    assert found == {
        "backend": {"tables": 2, "rows": 252, "digests": True},
        "keycloak": {"tables": 1, "rows": 2, "digests": True},
        "latin": {"tables": 1, "rows": 1, "digests": True},
        "postgres": {"tables": 0, "rows": 0, "digests": True},
    }


CHANGED = {
    "a row": b"UPDATE public.projects SET name = 'evil' WHERE id = 1;",
    "a row of an odd name": b'UPDATE extra."Odd ""name" SET at = \'2000-01-01\' WHERE id = 7;',
    "a row in another's place": (
        b"DELETE FROM public.projects; INSERT INTO public.projects VALUES (1, 'before'), (3, 'x');"
    ),
}


@pytest.mark.parametrize("case", CHANGED)
def test_other_content_of_equal_counts_is_refused(saved: Saved, case: str) -> None:
    table = ODD if "odd" in case else "public.projects"
    content = saved.dump("backend") + b"\n" + CHANGED[case] + b"\n"
    with pytest.raises(trials.OtherContent, match="its digest is another") as raised:
        saved.tried("backend", content)
    assert table in str(raised.value)
    assert saved.tried("backend", content, digests=None) == {
        "tables": 2, "rows": 252, "digests": False
    }, "by counts alone nobody would notice"  # fmt: skip


def test_a_dump_that_is_not_the_one_of_these_digests_is_refused(saved: Saved) -> None:
    digests = {**saved.databases["backend"]["digests"], "public.projects": "0" * 64}
    with pytest.raises(trials.OtherContent, match=r"public\.projects .* digest is another"):
        saved.tried("backend", digests=digests)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (b"DELETE FROM public.projects WHERE id = 1;", "has 1 rows, and had 2"),
        (b"DROP TABLE public.projects CASCADE;", "was not restored"),
        (b"CREATE TABLE public.more (id int);", "the backup does not name it"),
        (b'SELECT setval(\'extra."Odd ""name_id_seq"\', 9);', "sequences"),
        (b"DROP VIEW public.v;", "other definitions"),
    ],
)
def test_other_tables_rows_and_definitions_are_refused(
    saved: Saved, more: bytes, words: str
) -> None:
    with pytest.raises(trials.OtherContent, match=words):
        saved.tried("backend", saved.dump("backend") + b"\n" + more + b"\n")


def test_definitions_that_another_server_wrote_are_not_compared(saved: Saved) -> None:
    dump = saved.dump("backend").replace(b"-- Dumped from database version", b"-- Dumped from X")
    found = saved.tried("backend", dump + b"\nDROP VIEW public.v;\n")
    assert found["digests"], "rows still are"


def test_a_backup_of_an_earlier_tool_is_compared_by_counts(saved: Saved) -> None:
    del saved.databases["backend"]["digests"]
    assert saved.tried("backend") == {"tables": 2, "rows": 252, "digests": False}
