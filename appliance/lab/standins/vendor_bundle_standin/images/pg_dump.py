#!/usr/bin/python3
"""STANDIN of pg_dump, psql and pg_dumpall: the stand-in's documents, in the form of a plain dump.

Under the name ``psql`` it lists the databases, under ``pg_dumpall`` it writes roles.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

FOLDER = Path(os.environ.get("STORE_DIR", "/bitnami/postgresql/data"))
MARK = "--\n-- PostgreSQL database dump{}\n--\n\n"
CLUSTER = "--\n-- PostgreSQL database cluster dump{}\n--\n\n"


def main(arguments: list[str]) -> None:
    """Write the dump; without the password of the pod's own environment, refuse as the real one."""
    if arguments[:2] != ["-U", "postgres"] or not os.environ.get("PGPASSWORD"):
        sys.stderr.write("STANDIN pg_dump: error: fe_sendauth: no password supplied\n")
        raise SystemExit(1)
    name = Path(sys.argv[0]).stem
    if name == "psql":
        sys.stdout.write("backend\0postgres\n")
    elif name == "pg_dumpall":
        sys.stdout.write(CLUSTER.format("") + "CREATE ROLE postgres;\n\n")
        sys.stdout.write(CLUSTER.format(" complete"))
    elif arguments[2:] == ["backend"]:
        _dump()
    else:
        sys.stdout.write(MARK.format("") + MARK.format(" complete"))


def _dump() -> None:
    sys.stdout.write(MARK.format(""))
    sys.stdout.write("-- STANDIN\nCREATE TABLE backend.documents (name text, content text);\n")
    sys.stdout.write("COPY backend.documents (name, content) FROM stdin;\n")
    for path in sorted(FOLDER.glob("*.json")):
        content = path.read_text().replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t")
        sys.stdout.write(f"{path.stem}\t{content}\n")
    sys.stdout.write("\\.\n\n" + MARK.format(" complete"))


if __name__ == "__main__":
    main(sys.argv[1:])
