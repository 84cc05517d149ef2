"""Restore Run:ai's databases from a backup: the acts of the course, one for each call.

Each act may be repeated; a run that is killed leaves what the next one needs on the server, on the
workloads, and in a record on this node. Python 3.8, standard library. What must not be here: which
backup is restored, and whether it may be.
"""

from __future__ import annotations

import json
import shutil
import ssl
import sys
import time
from pathlib import Path

from ansible.module_utils import (
    appliance_backup,
    appliance_backup_cluster,
    appliance_backup_folder,
    appliance_backup_trial,
    appliance_dump_text,
    appliance_restore_database,
    appliance_restore_writers,
    runai_backend_api,
)
from ansible.module_utils import appliance_backup_database as trials
from ansible.module_utils import runai_dump as dumps
from ansible.module_utils.appliance_files import write
from ansible.module_utils.appliance_job import JobError, NodeJob
from ansible.module_utils.appliance_kubectl import KUBECONFIG, PROGRAM, KubectlError
from ansible.module_utils.appliance_programs import run
from ansible.module_utils.runai_upgrade_record import UpgradeError

HOME = Path("/var/lib/appliance/runai")
RECORD = "database-restore.json"
AUTHORITY = "/etc/appliance/runai/backend-ca.crt"
MOST_PASSWORD_BYTES = 4096
ERRORS = (
    JobError,
    KubectlError,
    UpgradeError,
    OSError,
    ValueError,
    LookupError,
    appliance_backup_folder.FolderError,
    appliance_dump_text.DumpError,
    appliance_restore_database.RestoreError,
    appliance_restore_writers.WriterError,
    runai_backend_api.BackendError,
    trials.TrialError,
)


class Course:
    """One restore on the node that has kubectl and helm.

    Args:
        want: what is asked for: ``key``, and what its act needs.
        data: a folder of our own, which goes when this call ends.
        kubectl: of this node.
        job: runs commands, as :class:`NodeJob` does.
    """

    def __init__(self, want, data, kubectl, job):
        self._want, self._data, self._kubectl, self._job = want, data, kubectl, job
        self._databases = appliance_restore_database.Databases(
            trials.Server(data, job), want["key"]
        )

    # -- what a restore is planned by

    def look(self, _stream):
        """Return what a restore is planned by; nothing changes."""
        fault = appliance_restore_writers.fault_of_database(self._kubectl)
        found = {"fault": fault, "record": read_record(), "free_bytes": _free()}
        if fault:
            return dict(found, versions={}, databases={}, writers={}, stopped=[], kept=[])
        known, listed = self._databases.known(), appliance_restore_writers.listed(self._kubectl)
        versions = appliance_backup_cluster.versions()
        return dict(
            found,
            versions=versions,
            databases={name: self._told(known, name) for name in self._want["names"]},
            writers={"%s/%s" % (one.kind, one.name): one.count for one in listed},
            stopped=sorted(one.name for one in listed if one.was is not None),
            kept=sorted(name for name in known if appliance_restore_database.OURS.fullmatch(name))[
                :100
            ],
        )

    def _told(self, known, name):
        """Return size and rows of a database; None where it is not there."""
        appliance_restore_database.require_names([name])
        if name not in known:
            return None
        rows = self._databases.rows(name)
        return {
            "bytes": known[name]["bytes"],
            "rows": rows,
            "whole": self._databases.is_whole(known, name, self._want["sha256"].get(name, "")),
            "swapped": self._databases.is_swapped(known, name),
        }

    # -- acts

    def save(self, _stream):
        """Dump the present state into a folder that stays; after the exchange it is another one.

        A run that goes on before it dumps again: the interrupted one may be of last week.
        """
        names = self._names()
        folder = HOME / ("before-restore-" + self._databases.key)
        record, known = read_record(), self._databases.known()
        swapped = any(self._databases.is_swapped(known, name) for name in names)
        if record.get("key") == self._databases.key and swapped:
            return {"dumps": record["dumps"]}
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = [
            dict(self._dump(name, folder / dumps.file_of(name, "database")), database=name)
            for name in names
        ]
        keys = ("key", "backup", "file_sha256")
        begun = {"schema": 1, "dumps": found, "databases": names, "ended": False}
        write_record(dict(begun, **{key: self._want[key] for key in keys}))
        return {"dumps": found}

    def _dump(self, name, path):
        want = {"kubectl": PROGRAM, "kubeconfig": KUBECONFIG}
        return dumps.take(want, self._job, path, name)

    def load(self, stream):
        """Restore one dump into a new database, and compare it."""
        (name,), sha256 = self._names(), self._want["sha256"]
        record = self._own_record()
        rows = json.loads(stream.read(int(self._want["rows_bytes"])))
        dump, again = self._data / "dump.sql", self._data / "again.sql"
        # Nothing of it runs before its sha256 is right.
        appliance_backup_trial.receive(dump, int(self._want["size"]), stream, sha256)
        if self._want["same_form"]:
            (before,) = [one for one in record["dumps"] if one["database"] == name]
            if dumps.form(dump) != dumps.form(Path(before["path"])):
                raise appliance_restore_database.RestoreError(
                    "the backup does not say of which version of Run:ai it is, and the tables of "
                    "%s have another form now: use a backup of the version that runs" % name
                )
        new = self._databases.make(name)
        self._databases.fill(name, dump, rows)
        self._dump(new, again)
        sums = [appliance_dump_text.content_sum(path) for path in (dump, again)]
        if sums[0] != sums[1]:
            raise appliance_restore_database.RestoreError(
                "%s: what was restored has other content than the dump" % name
            )
        self._databases.seal(name, sha256)
        return {"tables": len(rows), "rows": sum(rows.values()), "digest": sums[0]}

    def swap(self, _stream):
        """Stop what writes, let the new databases take the names, and start it again."""
        names, stopped, began = self._names(), [], time.monotonic()
        self._own_record()
        try:
            if self._databases.due(names):
                if self._want["confirms"]:
                    # First: a plan shows what is open, if this ends between stop and start.
                    note = {runai_backend_api.UNCONFIRMED: "true"}
                    runai_backend_api.Record(self._kubectl).note(note)
                stopped = appliance_restore_writers.stop(self._kubectl)
                self._databases.swap(names)
        finally:
            # Also after an error: what is there is the old state or the new one, never half of it.
            appliance_restore_writers.start(self._kubectl)
        appliance_restore_writers.wait_until_ready(self._kubectl)
        return {"stopped": stopped, "seconds": round(time.monotonic() - began, 1)}

    def check(self, stream):
        """Log in, and wait until the backend sees the cluster."""
        password = stream.read(MOST_PASSWORD_BYTES).decode().strip("\n")
        want = dict(self._want["login"], password=password)
        backend = runai_backend_api.Backend(
            want["domain"], ssl.create_default_context(cafile=AUTHORITY)
        )
        record = runai_backend_api.Record(self._kubectl)
        uuid, said, _ = runai_backend_api.insist(
            lambda: runai_backend_api.connection(backend, record, want), int(want["seconds"])
        )
        shown = runai_backend_api.is_shown(said)
        return {"said": said, "shown": shown, "projects": len(backend.projects(uuid) or ())}

    def end(self, _stream):
        """Drop what earlier restores kept; this one's old databases stay."""
        record = self._own_record()
        gone = self._databases.remove_others()
        kept = {
            name: appliance_restore_database.before_of(self._databases.key, name)
            for name in record["databases"]
        }
        write_record(dict(record, ended=True))
        return {"removed": gone, "kept": kept}

    def _names(self):
        names = [str(name) for name in self._want["names"]]
        appliance_restore_database.require_names(names)
        return names

    def _own_record(self):
        record = read_record()
        if record.get("key") != self._databases.key:
            raise appliance_restore_database.RestoreError(
                "this node has no record of the restore %s: the present state was not saved"
                % self._databases.key
            )
        return record


ACTS = ("look", "save", "load", "swap", "check", "end")


def read_record():
    """Return the record of the latest restore on this node, or an empty dictionary."""
    try:
        found = json.loads((HOME / RECORD).read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) and isinstance(found.get("dumps"), list) else {}


def write_record(record):
    """Keep the record, whole or not at all."""
    HOME.mkdir(mode=0o755, parents=True, exist_ok=True)
    write(HOME / RECORD, json.dumps(record, sort_keys=True), 0o600)


def _free():
    there = HOME if HOME.is_dir() else HOME.parent.parent
    return shutil.disk_usage(str(there)).free


def act_of(want, kubectl, job, stream):
    """Carry out one act.

    Raises:
        RestoreError: there is no such act.
    """
    if want["act"] not in ACTS:
        raise appliance_restore_database.RestoreError("this node knows no such act")
    with appliance_backup_folder.working_folder("database-restore-" + want["act"]) as data:
        return getattr(Course(want, data, kubectl, job), want["act"])(stream)


def main():
    """Carry out the act that the JSON in the first argument describes."""
    want = json.loads(sys.argv[1])

    def acted():
        job = NodeJob("database-restore", run, python=sys.executable)
        return act_of(want, appliance_backup_cluster.kubectl_here(), job, sys.stdin.buffer)

    return appliance_backup.answer(acted, ERRORS)


if __name__ == "__main__":
    raise SystemExit(main())
