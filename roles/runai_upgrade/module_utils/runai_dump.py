"""A dump of the backend's database: taken, examined, and compared with one of another time.

Python 3.8, standard library. What must not be here: when one is taken, and what follows from it.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import time
from pathlib import Path

from ansible.module_utils.appliance_job import explain
from ansible.module_utils.runai_upgrade_record import UpgradeError

POD, DATABASE, SECONDS = "runai-backend-postgresql-0", "backend", 3600
# The password stays in the pod: its image gets it by one of these two names.
IN_POD = (
    'PGPASSWORD="${POSTGRES_POSTGRES_PASSWORD:-$POSTGRES_PASSWORD}" exec pg_dump -U postgres "$1"'
)
# Left free, because etcd's data may be on the same disk. In steps: with another limit, the dump of
# a run that was killed is waited for, and made again.
RESERVE, STEP = 2 << 30, 256 << 20
# POSIX: ulimit -f counts these.
BLOCK = 512
TO_FILE = """\
set -eu
umask 077
file=$1
ulimit -f "$2"
shift 2
trap 'rm -f "$file.new"' EXIT
trap 'exit 1' HUP INT TERM
"$@" > "$file.new"
sync "$file.new"
mv "$file.new" "$file"
"""
BEGIN, END = b"-- PostgreSQL database dump", b"-- PostgreSQL database dump complete"
TABLE = b"CREATE TABLE "
HEAD, TAIL = 4096, 16
# The tables in which tools of migrations write down how far they came: Liquibase, Flyway, others.
MIGRATIONS = re.compile(rb"migrat|changelog|schema_?(version|history|info)", re.I)
LOCK = re.compile(rb"lock", re.I)
COPY = re.compile(rb"^COPY (\S+) ")
SERVER = re.compile(rb"^-- Dumped from database version (\d+)")


def take(want, job, path):
    """Dump the database into a file; return its description.

    Raises:
        UpgradeError, JobError: it failed.
    """
    began = time.time()
    pod = [want["kubectl"], "--kubeconfig=" + want["kubeconfig"], "--namespace=runai-backend"]
    pod += ["exec", want.get("pod", POD), "--", "/bin/sh", "-c", IN_POD, "dump"]
    pod += [want.get("database", DATABASE)]
    try:
        to_file(job, path, pod, want.get("deadline_seconds", SECONDS))
    except UpgradeError as error:
        raise UpgradeError("the database was not dumped: %s" % error) from error
    return dict(examined(path), taken=began)


def to_file(job, path, command, seconds):
    """Let a unit write what a command says into a file that only root reads, whole or not at all.

    Raises:
        UpgradeError, JobError: it failed, or the node has too little space.
    """
    room = (shutil.disk_usage(str(Path(path).parent)).free - RESERVE) // STEP * STEP
    if room <= 0:
        raise UpgradeError(
            "%s was not written: its disk has too little space, because %d MB stay free for the "
            "node" % (path, RESERVE >> 20)
        )
    argv = ["/bin/sh", "-c", TO_FILE, "to-file", str(path), str(room // BLOCK), *command]
    result, _ = job.run(argv, {}, "/", seconds)
    if result["rc"] != 0:
        raise UpgradeError("%s was not written: %s" % (path, explain(result)))


def examined(path):
    """Return the description of a dump.

    Raises:
        UpgradeError: it is none, or its end is missing.
    """
    digest, tables, size, head, tail = hashlib.sha256(), 0, 0, [], []
    with Path(path).open("rb") as stream:
        for line in stream:
            digest.update(line)
            tables += line.startswith(TABLE)
            if size < HEAD:
                head.append(line.strip())
            size += len(line)
            tail = [*tail[-TAIL:], line.rstrip(b"\n")]
    if BEGIN not in head or not _is_end(tail):
        what = "end" if BEGIN in head else "beginning"
        raise UpgradeError("the dump %s lacks the %s that pg_dump writes" % (path, what))
    if not tables:
        raise UpgradeError("the dump %s creates no table" % path)
    return {"path": str(path), "bytes": size, "sha256": digest.hexdigest(), "tables": tables}


def _is_end(lines):
    """Return whether the last line that says something is pg_dump's own last line."""
    said = [one for one in lines if one not in (b"", b"--") and not one.startswith(b"\\unrestrict")]
    return bool(said) and said[-1] == END


def names_one(path, names):
    """Return whether a dump names at least one of these projects; true where there are none."""
    wanted = [name.encode() for name in names]
    if not wanted:
        return True
    with Path(path).open("rb") as stream:
        return any(name in line for line in stream for name in wanted)


def form(path):
    """Return the digest of what migrations change, and users do not.

    These are the definitions, the major version of the server, and the rows of the tables in which
    tools of migrations write down how far they came.
    """
    digest, table = hashlib.sha256(), None
    with Path(path).open("rb") as stream:
        for line in stream:
            if table is not None:
                is_note = MIGRATIONS.search(table) and not LOCK.search(table)
                if line.rstrip(b"\n") == b"\\.":
                    table = None
                elif is_note:
                    digest.update(line)
                continue
            copied = COPY.match(line)
            if copied:
                table = copied.group(1)
            else:
                digest.update(_definition(line))
    return digest.hexdigest()


def _definition(line):
    """Return what of a line outside of rows belongs to the form."""
    server = SERVER.match(line)
    if server:
        return server.group(1)
    is_other = line.startswith((b"--", b"\\", b"SELECT pg_catalog.setval(")) or not line.strip()
    return b"" if is_other else line
