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
IN_POD = 'PGPASSWORD="${POSTGRES_POSTGRES_PASSWORD:-$POSTGRES_PASSWORD}" exec "$@"'
# A database that lets nobody in cannot be dumped; none of the server's own is one.
LIST = "SELECT datname FROM pg_database WHERE NOT datistemplate AND datallowconn ORDER BY 1"
LIST_SECONDS = 120
# pg_dump takes any other name for options or for the address of a server.
PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
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
GLOBALS_BEGIN = b"-- PostgreSQL database cluster dump"
GLOBALS_END = b"-- PostgreSQL database cluster dump complete"
TABLE = b"CREATE TABLE "
HEAD, TAIL = 4096, 16
# The tables in which tools of migrations write down how far they came: Liquibase, Flyway, others.
MIGRATIONS = re.compile(rb"migrat|changelog|schema_?(version|history|info)", re.I)
LOCK = re.compile(rb"lock", re.I)
COPY = re.compile(rb"^COPY (\S+) ")
SERVER = re.compile(rb"^-- Dumped from database version (\d+)")


def take(want, job, path, database=None):
    """Dump a database into a file; return its description. None is the backend's.

    Raises:
        UpgradeError, JobError: it failed.
    """
    began, name = time.time(), database or want.get("database", DATABASE)
    dump = ["pg_dump", "-U", "postgres"]
    is_plain = PLAIN.fullmatch(name)
    program = [*dump, name] if is_plain else ["env", "PGDATABASE=" + name, *dump]
    try:
        to_file(job, path, in_pod(want, program), want.get("deadline_seconds", SECONDS))
    except UpgradeError as error:
        if database is None:
            raise UpgradeError("the database was not dumped: %s" % error) from error
        raise UpgradeError("the database %s was not dumped: %s" % (name, error)) from error
    # Only the backend's is known to have a table.
    return dict(examined(path, is_empty=database is not None), taken=began)


def take_all(want, job, folder):
    """Dump every other database of the server, and what belongs to all of them.

    Returns:
        (descriptions, each with its ``database``; description of the globals, or {"error": why}
        where the server does not let them be read).

    Raises:
        UpgradeError, JobError: the databases cannot be listed, or one cannot be dumped.
    """
    own = want.get("database", DATABASE)
    names = [name for name in listed(want, job, folder) if name != own]
    found = [dict(take(want, job, folder / file_of(name), name), database=name) for name in names]
    return found, take_globals(want, job, folder / "globals.sql")


def listed(want, job, folder):
    """Return the names of the databases that are no templates.

    Raises:
        UpgradeError, JobError: the server does not tell them.
    """
    path = folder / "databases.txt"
    query = ["psql", "-U", "postgres", "-d", "template1", "-At0", "-c", LIST]
    try:
        to_file(job, path, in_pod(want, query), LIST_SECONDS)
    except UpgradeError as error:
        raise UpgradeError("the databases were not listed: %s" % error) from error
    # Between two names is a zero byte: a name may hold any other.
    names = [name for name in path.read_text("utf-8").rstrip("\n").split("\0") if name]
    if want.get("database", DATABASE) not in names:
        raise UpgradeError("the server of the backend's database lists none of its name")
    return names


def take_globals(want, job, path):
    """Write the roles and tablespaces of the server; return the description of the file.

    A server whose superuser somebody else holds does not tell them: then the reason is returned.

    Raises:
        JobError: it cannot be told whether it failed.
        UpgradeError: what was written is cut off.
    """
    program = ["pg_dumpall", "-U", "postgres", "--globals-only"]
    try:
        to_file(job, path, in_pod(want, program), want.get("deadline_seconds", SECONDS))
    except UpgradeError as error:
        return {"error": str(error)}
    return examined(path, (GLOBALS_BEGIN, GLOBALS_END), is_empty=True)


def in_pod(want, program):
    """Return the command that runs a program in the pod of the database, with its password."""
    argv = [want["kubectl"], "--kubeconfig=" + want["kubeconfig"], "--namespace=runai-backend"]
    argv += ["exec", want.get("pod", POD), "--", "/bin/sh", "-c", IN_POD, "dump", *program]
    return argv


def file_of(name, prefix="other"):
    """Return the name of the file for the dump of a database."""
    plain = name if PLAIN.fullmatch(name) else hashlib.sha256(name.encode()).hexdigest()[:16]
    return "%s-%s.sql" % (prefix, plain)


def are_there(described):
    """Return whether the files of these descriptions are there in full."""
    paths = [(Path(str(one.get("path") or "/nowhere")), one.get("bytes")) for one in described]
    return all(path.is_file() and path.stat().st_size == size for path, size in paths)


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


def examined(path, marks=(BEGIN, END), *, is_empty=False):
    """Return the description of a dump.

    Args:
        path: the file.
        marks: the lines it begins and ends with.
        is_empty: it may create no table.

    Raises:
        UpgradeError: it is none, or its end is missing.
    """
    begin, end = marks
    digest, tables, size, head, tail = hashlib.sha256(), 0, 0, [], []
    with Path(path).open("rb") as stream:
        for line in stream:
            digest.update(line)
            tables += line.startswith(TABLE)
            if size < HEAD:
                head.append(line.strip())
            size += len(line)
            tail = [*tail[-TAIL:], line.rstrip(b"\n")]
    if begin not in head or not _is_end(tail, end):
        what = "end" if begin in head else "beginning"
        raise UpgradeError("the dump %s lacks the %s that pg_dump writes" % (path, what))
    if not tables and not is_empty:
        raise UpgradeError("the dump %s creates no table" % path)
    return {"path": str(path), "bytes": size, "sha256": digest.hexdigest(), "tables": tables}


def _is_end(lines, end):
    """Return whether the last line that says something is pg_dump's own last line."""
    said = [one for one in lines if one not in (b"", b"--") and not one.startswith(b"\\unrestrict")]
    return bool(said) and said[-1] == end


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
