"""Databases of a real PostgreSQL are restored from dumps, beside the old ones, and swapped."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.postgres_server import Postgres, serving
from tests.unit.modules.database_course import KEY, Course, DirectJob, DyingJob, Killed, prepare
from tests.unit.modules.fake_backend import Backend

from ansible.module_utils import appliance_restore_course, appliance_restore_database  # isort: skip

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with serving() as found:
        yield found


@pytest.fixture
def backend() -> Backend:
    return Backend()


@pytest.fixture
def course(
    server: Postgres, backend: Backend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Course]:
    """Two databases, saved and then changed: a project came after the backup."""
    prepare(monkeypatch, server.kubectl, tmp_path)
    make(server)
    dumps = {name: server.dump(name) for name in ("backend", "keycloak")}
    server.ask("backend", "INSERT INTO projects VALUES (3, 'after')")
    server.ask("backend", "DELETE FROM projects WHERE name = 'before'")
    yield Course(backend, dumps)
    for name in server.ask("template1", "SELECT datname FROM pg_database WHERE datname <> "
                           "'postgres' AND NOT datistemplate"):  # fmt: skip
        server.ask("template1", f'DROP DATABASE "{name}" WITH (FORCE)')


def make(server: Postgres) -> None:
    roles = server.ask("template1", "SELECT rolname FROM pg_roles WHERE rolname = 'runai'")
    if not roles:
        server.ask("template1", "CREATE ROLE runai LOGIN")
    server.ask("template1", "CREATE DATABASE backend OWNER runai TEMPLATE template0")
    server.ask("template1", "CREATE DATABASE keycloak TEMPLATE template0 ENCODING 'SQL_ASCII' "
               "LC_COLLATE 'C' LC_CTYPE 'C'")  # fmt: skip
    server.ask("template1", "REVOKE CONNECT ON DATABASE backend FROM PUBLIC")
    server.ask("template1", "GRANT CREATE ON DATABASE keycloak TO runai WITH GRANT OPTION")
    server.ask("template1", "ALTER DATABASE backend SET search_path TO extra, public")
    server.ask("template1", "ALTER ROLE runai IN DATABASE backend SET work_mem TO '9MB'")
    server.ask("template1", "COMMENT ON DATABASE backend IS 'the vendor''s'")
    server.ask(
        "backend",
        "CREATE SCHEMA extra AUTHORIZATION runai",
        "CREATE TABLE public.projects (id int PRIMARY KEY, name text)",
        "ALTER TABLE public.projects OWNER TO runai",
        "INSERT INTO public.projects VALUES (1, 'before'), (2, E'a\\\\b\\n\\\\.')",
        'CREATE TABLE extra."Odd ""name" (id serial, at timestamptz DEFAULT now())',
        'INSERT INTO extra."Odd ""name" SELECT FROM generate_series(1, 250)',
        "CREATE FUNCTION public.f() RETURNS text LANGUAGE sql AS $$ SELECT 'x' $$",
        "CREATE VIEW public.v AS SELECT name FROM public.projects",
        "GRANT SELECT ON public.v TO PUBLIC",
    )
    server.ask("keycloak", "CREATE TABLE users (id int, name text)")
    server.ask("keycloak", "INSERT INTO users VALUES (1, 'ada')")


def names_of(server: Postgres) -> set[str]:
    return set(server.ask("template1", "SELECT datname FROM pg_database WHERE NOT datistemplate"))


def projects(server: Postgres) -> list[str]:
    return server.ask("backend", "SELECT id FROM public.projects ORDER BY 1")


PROPERTIES = (
    "SELECT pg_get_userbyid(datdba), array(SELECT unnest(datacl)::text ORDER BY 1), encoding, "
    "datcollate, shobj_description(oid, 'pg_database'), datallowconn FROM pg_database WHERE "
    "datname IN ('backend', 'keycloak') ORDER BY datname"
)
SETTINGS = (
    "SELECT datname, setrole::regrole, setconfig FROM pg_db_role_setting s JOIN pg_database d ON "
    "d.oid = setdatabase WHERE datname IN ('backend', 'keycloak') ORDER BY 1, 2"
)


def test_rows_after_the_backup_are_gone_and_rows_before_it_are_there(
    server: Postgres, course: Course, backend: Backend
) -> None:
    before = [server.ask("template1", one) for one in (PROPERTIES, SETTINGS)]
    seen = course.look()
    assert seen["fault"] == ""
    assert seen["databases"]["backend"]["rows"]["public.projects"] == 2
    assert seen["databases"]["backend"]["rows"]['extra."Odd ""name"'] == 250
    course.whole()
    assert projects(server) == ["1", "2"]
    after = [server.ask("template1", one) for one in (PROPERTIES, SETTINGS)]
    assert after == before, "owner, rights, encoding, comment and settings are those of before"
    kept = {appliance_restore_database.before_of(KEY, name) for name in course.dumps}
    assert names_of(server) == {"postgres", "backend", "keycloak", *kept}
    assert backend.counts() == {"web": 2, "metrics": 1, "cleaner": 1, "postgresql": 1}
    assert backend.marks() == []


def test_the_present_state_is_dumped_first_and_the_old_database_keeps_its_rows(
    server: Postgres, course: Course
) -> None:
    course.whole()
    record = appliance_restore_course.read_record()
    (dump,) = [Path(one["path"]) for one in record["dumps"] if one["database"] == "backend"]
    assert b"after" in dump.read_bytes()
    assert dump.stat().st_mode & 0o777 == 0o600
    old = appliance_restore_database.before_of(KEY, "backend")
    server.ask("template1", f'ALTER DATABASE "{old}" ALLOW_CONNECTIONS true')
    assert server.ask(old, "SELECT id FROM public.projects ORDER BY 1") == ["2", "3"]


def test_one_that_goes_on_later_dumps_the_state_of_then_and_never_the_restored_one(
    server: Postgres, course: Course
) -> None:
    """A later restore drops the old databases; then the dump is the only copy of that state."""
    course.act("save")
    server.ask("backend", "INSERT INTO projects VALUES (4, 'while it was interrupted')")
    course.whole()
    (dump,) = [
        Path(one["path"])
        for one in appliance_restore_course.read_record()["dumps"]
        if one["database"] == "backend"
    ]
    assert b"while it was interrupted" in dump.read_bytes()
    dump.unlink()
    course.act("save", ["backend", "keycloak"], backup="b", file_sha256="f")
    assert not dump.exists(), "the restored state would pass for the one before"


def test_a_second_restore_lets_go_of_what_the_first_one_kept(
    server: Postgres, course: Course
) -> None:
    course.whole()
    server.ask("template1", "CREATE DATABASE appliance_before_notes")
    again = Course(course.backend, course.dumps, KEY.replace("1010Z", "2020Z"))
    again.whole()
    kept = {appliance_restore_database.before_of(again.key, name) for name in course.dumps}
    assert names_of(server) == {
        "postgres", "backend", "keycloak", "appliance_before_notes", *kept
    }  # fmt: skip


def test_a_session_that_stays_is_ended(server: Postgres, course: Course) -> None:
    words = ["psql", "-U", "postgres", "-h", str(server.socket), "-d", "backend", "-c"]
    with subprocess.Popen([*words, "SELECT pg_sleep(60)"], stderr=subprocess.DEVNULL) as stays:
        course.whole()
        assert stays.wait(10) != 0
    assert projects(server) == ["1", "2"]


REFUSED: dict[str, tuple[Any, dict[str, Any], str]] = {
    "another sha256": (lambda dump: dump, {"sha256": "1" * 64}, "sha256 is another"),
    "a command for psql": (
        lambda dump: dump + b"\n\\! touch owned\n", {}, "has a command for psql"
    ),
    "a program": (
        lambda dump: dump + b"\nCOPY x FROM PROGRAM 'id';\n", {}, "a program or a file"
    ),
    "a command behind a space": (
        lambda dump: dump + b"\nSELECT 1 \\! touch owned\n;\n", {}, "has a command for psql"
    ),
    "a command behind text that looks like rows": (
        lambda dump: dump + b"\nSELECT '\nCOPY x FROM stdin;\n';\n\\! touch owned\n",
        {}, "has a command for psql",
    ),
    "a row less": (lambda dump: dump.replace(b"1\tbefore\n", b""), {}, "has 1 rows, and had 2"),
    "a statement that fails": (lambda dump: dump + b"\nSELECT 1/0;\n", {}, "division by zero"),
    "other content": (
        lambda dump: dump + b"\nUPDATE public.projects SET name = 'evil' WHERE id = 1;\n",
        {}, "other content than the dump",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_a_dump_that_is_not_what_was_saved_changes_nothing(
    server: Postgres, course: Course, case: str
) -> None:
    change, more, words = REFUSED[case]
    course.act("save")
    with pytest.raises(appliance_restore_course.ERRORS, match=words):
        course.load("backend", change(course.dumps["backend"]), **more)
    with pytest.raises(appliance_restore_course.ERRORS, match="not compared to its end"):
        course.act("swap", ["backend"], confirms=True)
    assert projects(server) == ["2", "3"]
    assert course.backend.counts()["web"] == 2
    assert not Path("owned").exists()


def test_another_form_is_refused_where_the_backup_does_not_say_its_version(
    server: Postgres, course: Course
) -> None:
    course.act("save")
    course.load("backend", same_form=True)
    server.ask("keycloak", "ALTER TABLE users ADD COLUMN migrated int")
    fresh = Course(course.backend, course.dumps, KEY + "2")
    fresh.act("save")
    with pytest.raises(appliance_restore_course.ERRORS, match="another form now"):
        fresh.load("keycloak", same_form=True)


def test_killed_before_any_command_the_same_acts_end_it(server: Postgres, course: Course) -> None:
    """Each command of the server and of kubectl is the last of one run; the next goes on."""
    del course.dumps["keycloak"]
    kills = 0
    while True:
        look = course.look()
        course.job = course.backend.dies = DyingJob(1 + kills)
        try:
            course.whole(look)
            break
        except Killed:
            kills += 1
        course.job, course.backend.dies = DirectJob(), None
        assert projects(server) in (["2", "3"], ["1", "2"])
    assert kills > 15
    assert projects(server) == ["1", "2"]
    kept = appliance_restore_database.before_of(KEY, "backend")
    assert names_of(server) == {"postgres", "backend", "keycloak", kept}
    assert course.backend.counts() == {"web": 2, "metrics": 1, "cleaner": 1, "postgresql": 1}
    assert course.backend.marks() == []
