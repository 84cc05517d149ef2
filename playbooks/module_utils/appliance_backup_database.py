"""Restore a dump from a backup into a scratch database of the backend's server, and compare it.

What was restored is dumped again: each table has to have the rows and the digest that the backup
noted of it. A backup without digests is compared by rows. The dump is the standard input. The
scratch database has a name of ours and our comment; it goes again when the trial ends, and the next
trial removes what a killed one left. Python 3.8, standard library. What must not be here: the
backend's own database, which is not touched.
"""

from __future__ import annotations

import json
import re
import shutil
import signal
import sys
import uuid

from ansible.module_utils import (
    appliance_backup,
    appliance_backup_cluster,
    appliance_backup_folder,
    appliance_backup_trial,
    appliance_dump_text,
)
from ansible.module_utils import runai_dump as dumps
from ansible.module_utils.appliance_job import JobError, NodeJob, explain
from ansible.module_utils.appliance_kubectl import KUBECONFIG, PROGRAM
from ansible.module_utils.appliance_programs import run
from ansible.module_utils.runai_upgrade_record import UpgradeError

COMMENT = "scratch database of appliance cluster backup verify"
NAME = re.compile(r"appliance_verify_[0-9a-f]{16}")
# Whose comment is not ours is not ours; one without a comment is of a trial that was killed.
LEFT = (
    "SELECT datname FROM pg_database WHERE datname LIKE 'appliance\\_verify\\_%' AND coalesce("
    "shobj_description(oid, 'pg_database'), 'scratch database of appliance cluster backup verify') "
    "= 'scratch database of appliance cluster backup verify'"
)
SHORT_SECONDS, RESTORE_SECONDS = 120, 3600
# A table of a dump, as pg_dump writes its name: quoted where it has to be.
_WORD = r'(?:[a-z_][a-z0-9_$]*|"(?:[^"]|"")+")'
TABLE = re.compile(r"%s(?:\.%s)?" % (_WORD, _WORD))
# Near the beginning of a dump: how its text is encoded, which is the encoding of its database.
ENCODING = re.compile(rb"^SET client_encoding = '([A-Z0-9_]{1,20})';$", re.MULTILINE)
# Of the server, and of pg_dump: others may write the same definitions otherwise.
WRITTEN_BY = re.compile(rb"^-- Dumped (?:from database|by pg_dump) version .*$", re.MULTILINE)
HEAD = 4096
TEMPLATE = "SELECT pg_encoding_to_char(encoding) FROM pg_database WHERE datname = 'template0'"
# What changes the text of the same rows, and pg_dump does not set itself.
SHAPES = (
    "SELECT coalesce(json_agg(format('ALTER DATABASE \"%s\" SET %%s TO %%s', "
    "quote_ident(split_part(one, '=', 1)), quote_literal(substr(one, strpos(one, '=') + 1)))), "
    "'[]') FROM pg_db_role_setting s JOIN pg_database d ON d.oid = setdatabase, unnest(setconfig) "
    "one WHERE setrole = 0 AND datname = '%s' AND lower(split_part(one, '=', 1)) IN ('timezone', "
    "'bytea_output', 'lc_monetary', 'xmlbinary')"
)
FROM_FILE = 'file=$1; shift; exec "$@" < "$file"'


class TrialError(Exception):
    """The dump could not be shown to be restorable; the text has the reason."""


class OtherContent(TrialError):
    """The dump was restored, and is not what the backup says of it; the text has the difference."""


class Server:
    """The server of the backend's database.

    Args:
        data: a folder of our own for what it answers.
        job: runs commands, as :class:`NodeJob` does; None: a unit for trials.
    """

    def __init__(self, data, job=None):
        self._data = data
        self._want = {"kubectl": PROGRAM, "kubeconfig": KUBECONFIG}
        self._job = job or NodeJob("backup-verify", run, python=sys.executable)

    def ask(self, database, statement):
        """Return the lines that a statement answers.

        Raises:
            TrialError: it failed.
        """
        path = self._data / "answer.txt"
        query = ["psql", "-U", "postgres", "-v", "ON_ERROR_STOP=1", "-d", database, "-At"]
        command = dumps.in_pod(self._want, [*query, "-c", statement])
        try:
            dumps.to_file(self._job, path, command, SHORT_SECONDS)
        except (JobError, UpgradeError) as error:
            raise TrialError("the database server: %s" % error) from error
        return path.read_text("utf-8", "replace").splitlines()

    def load(self, database, dump):
        """Run a dump in a database, to its first error.

        Raises:
            TrialError: it failed, or psql would act on a line of it; then nothing of it was run.
        """
        try:
            for _ in appliance_dump_text.lines(dump):
                pass
        except appliance_dump_text.DumpError as error:
            raise TrialError(str(error)) from error
        program = ["psql", "-U", "postgres", "-v", "ON_ERROR_STOP=1", "-q", "-d", database]
        command = dumps.in_pod(self._want, program)
        command.insert(command.index("exec") + 1, "--stdin")
        argv = ["/bin/sh", "-c", FROM_FILE, "from-file", str(dump), *command]
        try:
            result, _ = self._job.run(argv, {}, "/", RESTORE_SECONDS)
        except JobError as error:
            raise TrialError("the dump: %s" % error) from error
        if result["rc"] != 0:
            raise TrialError("the dump was not restored: %s" % explain(result))

    def dump(self, database, path):
        """Dump a database into a file.

        Raises:
            TrialError: it failed.
        """
        try:
            dumps.take(self._want, self._job, path, database)
        except (JobError, UpgradeError) as error:
            raise TrialError("what was restored cannot be read: %s" % error) from error

    def remove_left(self):
        """Drop scratch databases of trials that were killed: by name and by our comment."""
        for name in self.ask("template1", LEFT):
            # A name like ours, but none of ours, stays.
            if NAME.fullmatch(name):
                self.drop(name)

    def drop(self, name):
        """Drop a scratch database: only one of our name, and with no comment but ours."""
        if not NAME.fullmatch(name):
            raise TrialError("%r is no scratch database of ours" % name[:100])
        if name in self.ask("template1", LEFT):
            self.ask("template1", 'DROP DATABASE "%s"' % name)


def counted(server, database, rows):
    """Return table -> number of rows in a restored database.

    Raises:
        TrialError: a name is none, or a table is not there.
    """
    found = {}
    for table in sorted(rows):
        if not TABLE.fullmatch(table):
            raise TrialError("%r is no name of a table" % table[:100])
        query = "SELECT count(*) FROM %s" % table  # noqa: S608  (checked above)
        (line,) = server.ask(database, query) or ("",)
        if not line.isdigit():
            raise TrialError("table %s cannot be counted" % table)
        found[table] = int(line)
    return found


def trial(server, dump, rows, digests=None, database=""):
    """Restore a dump, compare it, and drop what was restored.

    Args:
        server: of the scratch database.
        dump: the file.
        rows: table -> number of its rows.
        digests: table -> digest of its rows; None: the backup has none.
        database: that was dumped.

    Returns:
        tables, rows: their numbers; digests: whether digests were compared.

    Raises:
        OtherContent: it has other rows, or another content.
        TrialError: it was not restored.
    """
    server.remove_left()
    name = "appliance_verify_" + uuid.uuid4().hex[:16]
    server.ask("template1", 'CREATE DATABASE "%s" TEMPLATE template0%s' % (name, _as(server, dump)))
    try:
        server.ask("template1", "COMMENT ON DATABASE \"%s\" IS '%s'" % (name, COMMENT))
        for statement in _shapes(server, name, database):
            server.ask("template1", statement)
        server.load(name, dump)
        if digests is None:
            found = counted(server, name, rows)
        else:
            again = dump.with_name("again.sql")
            server.dump(name, again)
            tables = appliance_backup_cluster.tables_of(again)
            found = {table: number for table, (number, _) in tables.items()}
    finally:
        server.drop(name)
    _require_rows(found, rows)
    if digests is not None:
        _require_content(tables, digests)
        _require_definitions(dump, again)
    return {"tables": len(found), "rows": sum(found.values()), "digests": digests is not None}


def _as(server, dump):
    """Return more of the statement that makes the database, for a dump of another encoding."""
    found = ENCODING.search(_head(dump))
    encoding = found.group(1).decode() if found else ""
    if not encoding or server.ask("template1", TEMPLATE) == [encoding]:
        return ""
    return " ENCODING '%s' LC_COLLATE 'C' LC_CTYPE 'C'" % encoding


def _shapes(server, name, database):
    if not dumps.PLAIN.fullmatch(database):
        return []
    try:
        return json.loads("\n".join(server.ask("template1", SHAPES % (name, database))))
    except ValueError as error:
        raise TrialError("the database server does not answer in JSON: %s" % error) from error


def _head(path):
    with path.open("rb") as stream:
        return stream.read(HEAD)


def _require_rows(found, rows):
    for table in sorted({*found, *rows}):
        if table not in found:
            raise OtherContent("table %s was not restored" % table)
        if table not in rows:
            raise OtherContent("table %s was restored, and the backup does not name it" % table)
        if found[table] != rows[table]:
            told = (table, found[table], rows[table])
            raise OtherContent("table %s has %d rows, and had %d" % told)


def _require_content(tables, digests):
    for table in sorted({*tables, *digests}):
        if table not in tables or tables[table][1] != digests.get(table):
            raise OtherContent(
                "table %s has as many rows as it had, and others: its digest is another" % table
            )


def _require_definitions(dump, again):
    """Require the same sequences, indexes and other definitions, where the same programs wrote."""
    if WRITTEN_BY.findall(_head(dump)) != WRITTEN_BY.findall(_head(again)):
        return
    try:
        sums = [appliance_dump_text.content_sum(path) for path in (dump, again)]
    except appliance_dump_text.DumpError as error:
        raise TrialError(str(error)) from error
    if sums[0] != sums[1]:
        raise OtherContent("what was restored has other definitions or sequences than the dump")


def require_room(folder, size):
    """Require room for the dump, and for that of what was restored.

    Raises:
        TrialError: there is too little.
    """
    needed = 2 * size + dumps.RESERVE + dumps.STEP
    free = shutil.disk_usage(str(folder)).free
    if free < needed:
        raise TrialError(
            "this node has %d MB free, and to restore a dump of %d MB takes %d MB"
            % (free // 10**6, size // 10**6, -(-needed // 10**6))
        )


def _line(error):
    text = "".join(letter if letter.isprintable() else " " for letter in str(error)[:900])
    return " ".join(text.split())


def main():
    """Receive and try the dump that the JSON in the first argument describes."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, appliance_backup.ended)
    want, out = json.loads(sys.argv[1]), sys.stdout.buffer
    beat = appliance_backup.Beat(out)
    beat.start()
    try:
        with appliance_backup_folder.working_folder("database-trial") as data:
            known = json.loads(sys.stdin.buffer.read(int(want["counts_bytes"])))
            # It runs as the server's superuser, so nothing of it does before its sha256 is right.
            dump, size = data / "dump.sql", int(want["size"])
            require_room(data, size)
            appliance_backup_trial.receive(dump, size, sys.stdin.buffer, want["sha256"])
            given = (known["rows"], known["digests"], want["database"])
            try:
                found = trial(Server(data), dump, *given)
            except OtherContent as error:
                found = {"tables": 0, "rows": 0, "fault": _line(error)}
        beat.end()
        out.write(json.dumps(found).encode() + b"\n")
        out.flush()
    except (TrialError, appliance_backup_folder.FolderError, OSError, ValueError) as error:
        sys.stderr.write("%s\n" % " ".join(str(error).split()))
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
