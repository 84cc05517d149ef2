#!/usr/bin/python3
"""STANDIN of pg_dump, psql and pg_dumpall: the stand-in's documents, in the form of a plain dump.

Under the name ``psql`` it answers what the product asks of a server, and nothing else; under
``pg_dumpall`` it writes roles. A database is a folder, and a catalog has their names.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any

FOLDER = Path(os.environ.get("STORE_DIR", "/bitnami/postgresql/data"))
CATALOG = FOLDER / "catalog"
MARK = "--\n-- PostgreSQL database dump{}\n--\n\n"
CLUSTER = "--\n-- PostgreSQL database cluster dump{}\n--\n\n"
TABLE = "backend.documents"
# The documents of a backend that never had another database lie in the folder itself.
FIRST = {"backend": {"folder": "."}, "postgres": {"folder": "postgres"}}
ESCAPES = {"\\": "\\\\", "\n": "\\n", "\t": "\\t"}
NAME = '"([A-Za-z0-9_.-]+)"'
CREATE = re.compile(f"CREATE DATABASE {NAME} TEMPLATE template0.*")
DROP = re.compile(f"DROP DATABASE {NAME}")
RENAME = re.compile(f"ALTER DATABASE {NAME} RENAME TO {NAME}")
CLOSE = re.compile(f"ALTER DATABASE {NAME} ALLOW_CONNECTIONS (true|false)")
COMMENT = re.compile(f"COMMENT ON DATABASE {NAME} IS (NULL|'[^']*')")


class Databases:
    """The catalog of databases; a change of it is whole or not at all."""

    def __init__(self) -> None:
        self.known: dict[str, Any] = FIRST
        if CATALOG.exists():
            self.known = json.loads(CATALOG.read_text())

    def write(self) -> None:
        """Keep the catalog."""
        new = CATALOG.with_suffix(".new")
        new.write_text(json.dumps(self.known))
        new.replace(CATALOG)

    def folder(self, name: str) -> Path:
        """Where the documents of a database are."""
        if name not in self.known:
            _fail(f'database "{name}" does not exist')
        if self.known[name].get("closed"):
            _fail(f'database "{name}" is not currently accepting connections')
        return FOLDER / str(self.known[name]["folder"])

    def documents(self, name: str) -> list[Path]:
        """The documents of a database."""
        return sorted(self.folder(name).glob("*.json"))


def _fail(why: str) -> None:
    sys.stderr.write(f"STANDIN: error: {why}\n")
    raise SystemExit(2)


def main(arguments: list[str]) -> None:
    """Answer; without the password of the pod's own environment, refuse as the real one."""
    if arguments[:2] != ["-U", "postgres"] or not os.environ.get("PGPASSWORD"):
        sys.stderr.write("STANDIN pg_dump: error: fe_sendauth: no password supplied\n")
        raise SystemExit(1)
    os.umask(0o077)
    name = Path(sys.argv[0]).stem
    if name == "psql":
        _psql(arguments[2:])
    elif name == "pg_dumpall":
        sys.stdout.write(CLUSTER.format("") + "CREATE ROLE postgres;\n\n")
        sys.stdout.write(CLUSTER.format(" complete"))
    else:
        _dump(arguments[2])


def _dump(name: str) -> None:
    databases = Databases()
    found = databases.documents(name)
    sys.stdout.write(MARK.format(""))
    if found:
        sys.stdout.write(f"-- STANDIN\nCREATE TABLE {TABLE} (name text, content text);\n")
        sys.stdout.write(f"COPY {TABLE} (name, content) FROM stdin;\n")
        for path in found:
            content = "".join(ESCAPES.get(letter, letter) for letter in path.read_text())
            sys.stdout.write(f"{path.stem}\t{content}\n")
        sys.stdout.write("\\.\n\n")
    sys.stdout.write(MARK.format(" complete"))


def _psql(arguments: list[str]) -> None:
    database = arguments[arguments.index("-d") + 1] if "-d" in arguments else "template1"
    databases = Databases()
    if "-At0" in arguments:
        names = sorted(name for name, one in databases.known.items() if not one.get("closed"))
        sys.stdout.write("".join(f"{name}\0" for name in names))
        return
    if "-c" not in arguments:
        _load(database, sys.stdin)
        return
    statement = arguments[arguments.index("-c") + 1]
    if statement.startswith("SELECT"):
        for line in _answer(databases, database, statement):
            sys.stdout.write(f"{line}\n")
    else:
        for one in statement.split("; "):
            _change(databases, one)
        databases.write()


def _answer(databases: Databases, database: str, statement: str) -> Iterable[str]:
    if "pg_database_size" in statement:
        return [json.dumps([_described(name, one) for name, one in databases.known.items()])]
    if "LIKE 'appliance" in statement:
        return [name for name in databases.known if name.startswith("appliance_verify_")]
    fixed = {
        "datacl IS NOT NULL": "[false]",
        "aclexplode": "null",
        "pg_db_role_setting": "[]",
        "pg_terminate_backend": "0",
    }
    for words, answer in fixed.items():
        if words in statement:
            return [answer]
    count = len(databases.documents(database))
    counts = {
        "relkind = 'r'": json.dumps([TABLE] if count else []),
        f"'0', (SELECT count(*) FROM ONLY {TABLE})": json.dumps({"0": count}),  # noqa: S608
        f"SELECT count(*) FROM {TABLE}": str(count),  # noqa: S608
    }
    for words, answer in counts.items():
        if words in statement:
            return [answer]
    _fail(f"it does not know: {statement[:200]}")
    return []


def _described(name: str, one: dict[str, Any]) -> dict[str, Any]:
    plain = {"owner": "postgres", "encoding": "UTF8", "collate": "'C'", "ctype": "'C'"}
    return {"name": name, "comment": one.get("comment"), "bytes": 8192, "limit": -1, **plain}


def _change(databases: Databases, statement: str) -> None:
    known = databases.known
    if found := CREATE.fullmatch(statement):
        folder = f"database-{uuid.uuid4().hex}"
        (FOLDER / folder).mkdir()
        known[found[1]] = {"folder": folder}
    elif found := DROP.fullmatch(statement):
        folder = known.pop(found[1])["folder"]
        if folder != ".":
            shutil.rmtree(FOLDER / folder, ignore_errors=True)
    elif found := RENAME.fullmatch(statement):
        if found[1] not in known or found[2] in known:
            _fail(f"no such database, or one too many: {statement}")
        known[found[2]] = known.pop(found[1])
    elif found := CLOSE.fullmatch(statement):
        known[found[1]]["closed"] = found[2] == "false"
    elif found := COMMENT.fullmatch(statement):
        known[found[1]]["comment"] = None if found[2] == "NULL" else found[2][1:-1]
    else:
        _fail(f"it does not know: {statement[:200]}")


def _load(database: str, stream: Iterable[str]) -> None:
    """Take the documents of a dump."""
    folder, rows = Databases().folder(database), False
    backwards = {"\\\\": "\\", "\\n": "\n", "\\t": "\t"}
    for line in stream:
        text = line.rstrip("\n")
        if not rows:
            rows = text.startswith(f"COPY {TABLE} ")
        elif text == "\\.":
            rows = False
        else:
            name, _, content = text.partition("\t")
            plain = re.sub(r"\\[\\nt]", lambda found: backwards[found[0]], content)
            (folder / f"{name}.json").write_text(plain)


if __name__ == "__main__":
    main(sys.argv[1:])
