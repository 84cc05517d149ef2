"""Restore a dump from a backup into a scratch database of the backend's server, and count its rows.

The dump is the standard input. The scratch database has a name of ours and our comment; it goes
again when the trial ends, and the next trial removes what a killed one left. Python 3.8, standard
library. What must not be here: the backend's own database, which is not touched.
"""

from __future__ import annotations

import json
import re
import signal
import sys
import uuid

from ansible.module_utils import (
    appliance_backup,
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
FROM_FILE = 'file=$1; shift; exec "$@" < "$file"'


class TrialError(Exception):
    """The dump could not be shown to be restorable; the text has the reason."""


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


def trial(server, dump, rows):
    """Restore a dump, compare its rows, and drop what was restored.

    Raises:
        TrialError: it was not restored, or has other rows.
    """
    server.remove_left()
    name = "appliance_verify_" + uuid.uuid4().hex[:16]
    server.ask("template1", 'CREATE DATABASE "%s" TEMPLATE template0' % name)
    try:
        server.ask("template1", "COMMENT ON DATABASE \"%s\" IS '%s'" % (name, COMMENT))
        server.load(name, dump)
        found = counted(server, name, rows)
    finally:
        server.drop(name)
    differing = [table for table in sorted(rows) if found[table] != rows[table]]
    if differing:
        table = differing[0]
        raise TrialError("table %s has %d rows, and had %d" % (table, found[table], rows[table]))
    return {"tables": len(found), "rows": sum(found.values())}


def main():
    """Receive and try the dump that the JSON in the first argument describes."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, appliance_backup.ended)
    want, out = json.loads(sys.argv[1]), sys.stdout.buffer
    beat = appliance_backup.Beat(out)
    beat.start()
    try:
        with appliance_backup_folder.working_folder("database-trial") as data:
            rows = json.loads(sys.stdin.buffer.read(int(want["rows_bytes"])))
            # It runs as the server's superuser, so nothing of it does before its sha256 is right.
            dump, size = data / "dump.sql", int(want["size"])
            appliance_backup_trial.receive(dump, size, sys.stdin.buffer, want["sha256"])
            found = trial(Server(data), dump, rows)
        beat.end()
        out.write(json.dumps(found).encode() + b"\n")
        out.flush()
    except (TrialError, appliance_backup_folder.FolderError, OSError, ValueError) as error:
        sys.stderr.write("%s\n" % " ".join(str(error).split()))
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
