"""A dump is read as psql reads it: nothing that psql acts on by itself is taken for data."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.modules import database_course  # noqa: F401  (loads the modules)

from ansible.module_utils import appliance_dump_text  # isort: skip

HOW_PG_DUMP_WRITES = {
    "around": rb"\restrict aB3" + b"\n" + rb"\unrestrict aB3" + b"\n",
    "rows": b"COPY public.t (id, name) FROM stdin;\n\\N\t\\\\x41\n--\\! x\n'\t$a$\n\\.\n",
    "rows of an odd name": b'COPY public."a ""b;\n c" (id, "x(") FROM stdin;\n1\n\\.\n',
    "strings": b"SELECT 'a\\', E'b\\'\\\\', '''\\'\n;\nSELECT '\\';\n",
    "names": b'ALTER TABLE public."a\\b" OWNER TO "c""\\";\n',
    "comments": b"-- Name: it's \\! \"x\n/* \\! /* ' */ $$ */\nSELECT 1;\n",
    "functions": b"CREATE FUNCTION f() AS $_$\n\\! x\nCOPY a FROM stdin;\n$$ ' $_$;\nSELECT 1;\n",
    "words": b"SELECT a$b$, name'x\\', $1;\n",
    "its setting": b"SET standard_conforming_strings = on;\n",
}
STRANGE = {
    "at the beginning": (b"\\! id\n", "has a command for psql"),
    "behind a space": (b" \\! id\n", "has a command for psql"),
    "within a statement": (b"SELECT 1 \\g |id\n", "has a command for psql"),
    "behind a restriction": (b"\\restrict a\\! id\n", "has a command for psql"),
    "a restriction within": (b"SELECT 1\n\\unrestrict a\n;\n", "has a command for psql"),
    "behind a comment": (b"-- Name: x\r\\! id\n", "carriage return"),
    "behind a string": (b"SELECT E'\\\\' \\! id\n", "has a command for psql"),
    "behind rows in a string": (
        b"SELECT '\nCOPY x FROM stdin;\n';\n\\! id\n",
        "line 4 .* has a command for psql",
    ),
    "behind rows in a comment": (b"/*\nCOPY x FROM stdin;\n*/ \\! id\n", "line 3 .* for psql"),
    "behind rows in a name": (
        b"COPY \"x FROM stdin;\n\" FROM PROGRAM 'id';\n",
        "a program or a file",
    ),
    "behind rows": (b"COPY x FROM stdin;\n1\n\\.\r\n\\! id\n", "line 4 .* for psql"),
    "on the line of rows": (b"COPY x FROM stdin; \\! id\n", "more behind the rows"),
    "a program": (b"COPY x FROM PROGRAM 'id';\n", "a program or a file"),
    "a program below": (b"SELECT 1; /* */ copy x\nFROM\nPROGRAM 'id';\n", "a program or a file"),
    "a file": (b"COPY x TO '/etc/passwd';\n", "a program or a file"),
    "code": (b"DO $$ BEGIN EXECUTE 'COPY x TO PROGRAM ''id'''; END $$;\n", "a block of code"),
    "other strings": (b"SET standard_conforming_strings = off;\n", "a backslash in quotes"),
    "rows without an end": (b"COPY x FROM stdin;\n1\n", "ends within"),
    "a string without an end": (b"SELECT 'x\n;\n", "ends within"),
}


def written(folder: Path, content: bytes) -> Path:
    path = folder / "dump.sql"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("case", HOW_PG_DUMP_WRITES)
def test_what_pg_dump_writes_is_read_to_its_end(tmp_path: Path, case: str) -> None:
    content = HOW_PG_DUMP_WRITES[case]
    found = list(appliance_dump_text.lines(written(tmp_path, content)))
    assert b"".join(line for _, line in found) == content


@pytest.mark.parametrize("case", STRANGE)
def test_what_psql_would_act_on_is_refused(tmp_path: Path, case: str) -> None:
    content, words = STRANGE[case]
    with pytest.raises(appliance_dump_text.DumpError, match=words):
        list(appliance_dump_text.lines(written(tmp_path, content)))


@pytest.mark.parametrize("row", ["\\N\tada", "\\\\x41\tada", "--\tada"])
def test_every_row_is_in_the_digest(tmp_path: Path, row: str) -> None:
    """Rows that begin with no value or with bytes look like a command, and are none."""
    text = f"-- Name: t\nCOPY t (a, b) FROM stdin;\n{row}\n\\.\n"
    sums = [
        appliance_dump_text.content_sum(written(tmp_path, one.encode()))
        for one in (text, text.replace("ada", "eve"), text.replace("Name: t", "Name: u"))
    ]
    assert sums[0] != sums[1]
    assert sums[0] == sums[2]
