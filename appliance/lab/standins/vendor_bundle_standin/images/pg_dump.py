#!/usr/bin/python3
"""STANDIN of pg_dump: the documents of the stand-in's database, in the form of a plain dump."""

from __future__ import annotations

import os
import sys
from pathlib import Path

FOLDER = Path(os.environ.get("STORE_DIR", "/bitnami/postgresql/data"))
MARK = "--\n-- PostgreSQL database dump{}\n--\n\n"


def main(arguments: list[str]) -> None:
    """Write the dump; without the password of the pod's own environment, refuse as the real one."""
    if arguments != ["-U", "postgres", "backend"] or not os.environ.get("PGPASSWORD"):
        sys.stderr.write("STANDIN pg_dump: error: fe_sendauth: no password supplied\n")
        raise SystemExit(1)
    sys.stdout.write(MARK.format(""))
    sys.stdout.write("-- STANDIN\nCREATE TABLE backend.documents (name text, content text);\n")
    sys.stdout.write("COPY backend.documents (name, content) FROM stdin;\n")
    for path in sorted(FOLDER.glob("*.json")):
        content = path.read_text().replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t")
        sys.stdout.write(f"{path.stem}\t{content}\n")
    sys.stdout.write("\\.\n\n" + MARK.format(" complete"))


if __name__ == "__main__":
    main(sys.argv[1:])
