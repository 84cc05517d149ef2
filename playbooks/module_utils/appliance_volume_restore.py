"""Restore folders of the export that this node serves: the acts of the course, one for each call.

An archive becomes a new folder beside the present one, is compared, and takes its name by a rename;
the present folder is kept under a name that says when. Each act may be repeated, and what is there
says how far a killed run came. Python 3.8, standard library. What must not be here: which backup is
restored, and whether it may be.
"""

from __future__ import annotations

import contextlib
import fcntl
import gzip
import hashlib
import json
import os
import re
import shutil
import sys
import zlib
from pathlib import Path

from ansible.module_utils import appliance_backup
from ansible.module_utils import appliance_volume_archive as archive
from ansible.module_utils import appliance_volume_backup as volumes
from ansible.module_utils import appliance_volume_extract as extract
from ansible.module_utils.appliance_files import write

HOME, RECORD = Path("/var/lib/appliance/volumes"), "restore.json"
# Left free in the export, beside what is restored.
RESERVE = 1 << 30
MOST_STEM_BYTES = 180
KEPT = re.compile(r".*\.before-[0-9]{8}T[0-9]{6}Z")
STAMP = re.compile(r"[0-9]{8}T[0-9]{6}Z")
MOST_KEPT = 200
ACTS = ("look", "load", "swap", "end")
ERRORS = (*volumes.ERRORS, EOFError, zlib.error)


class RestoreError(ValueError):
    """A volume was not restored; the text has the reason."""


class Names:
    """The names of one volume in the export.

    Attributes:
        folder: of the volume.
        filling: the new folder while it is filled; ours alone.
        whole: the new folder, once it was compared.
        before: the folder that was there.
    """

    def __init__(self, folder, stamp):
        volumes.require_step(folder)
        if not STAMP.fullmatch(stamp):
            raise RestoreError("%r is no moment" % stamp[:40])
        stem = folder
        if len(os.fsencode(stem)) > MOST_STEM_BYTES:
            known = hashlib.sha256(os.fsencode(folder)).hexdigest()[:12]
            stem = "%s-%s" % (folder[: MOST_STEM_BYTES // 4], known)
        self.folder = folder
        self.filling, self.whole, self.before = (
            "%s.%s-%s" % (stem, word, stamp) for word in ("restoring", "restored", "before")
        )


class Course:
    """One restore.

    Args:
        want: ``key``, ``stamp`` and ``volumes``, and what the act needs.
        export: handle of the exported folder.
    """

    def __init__(self, want, export):
        self._want, self._export = want, export
        self._names = {one["claim"]: Names(one["folder"], want["stamp"]) for one in want["volumes"]}

    def look(self, _stream):
        """Return what a restore is planned by; nothing changes."""
        record, seen = read_record(), os.fstatvfs(self._export)
        known = record["exchanged"] if record.get("key") == self._want["key"] else []
        found = {}
        for claim, names in self._names.items():
            there, made = self._is_there(names.folder), self._is_there(names.whole)
            # By the folder: a claim that was made again meanwhile has another one.
            swapped = names.folder in known and there and not made
            found[claim] = {"there": there, "whole": made, "swapped": swapped}
        listed = [name for name in archive.names_in(self._export) if KEPT.fullmatch(name)]
        return {
            "free_bytes": max(0, seen.f_bavail * seen.f_frsize - RESERVE),
            "record": {key: record[key] for key in RECORDED} if record else None,
            "volumes": found,
            "kept": [name.encode("ascii", "replace").decode() for name in listed[:MOST_KEPT]],
        }

    def load(self, stream):
        """Make a new folder of an archive beside the present one, and compare it."""
        claim, told = self._want["claim"], self._want["told"]
        names, record = self._names[claim], self._begun()
        if self._is_there(names.whole) or self._is_exchanged(names, record):
            return {"digest": told["digest"]}
        self._take_away(names.filling)
        try:
            self._fill(names.filling, claim, told, stream)
        except ERRORS:
            # An export that is full would stay so for all pods.
            self._take_away(names.filling)
            raise
        os.sync()
        os.rename(names.filling, names.whole, src_dir_fd=self._export, dst_dir_fd=self._export)
        os.fsync(self._export)
        return {"digest": told["digest"]}

    def _fill(self, name, claim, told, stream):
        os.mkdir(name, extract.PRIVATE, dir_fd=self._export)
        with volumes.folder_of(self._export, name) as top:
            for acl in archive.xattrs_of(top):
                # Of the export, for what is made in it; the volume's own ones come with it.
                os.removexattr(top, acl)
            came = _Part(stream, int(told["size"]))
            packed = gzip.GzipFile(fileobj=came)
            entries = sum(int(number) for number in told["counts"].values())
            listing = extract.extract(packed, top, int(told["data_bytes"]), entries)
            came.require(told["sha256"])
            _, there = archive.listing_of(top)
            if {listing.told()["digest"], there.told()["digest"]} != {told["digest"]}:
                raise RestoreError("%s: what was restored is not what was saved" % claim)

    def swap(self, _stream):
        """Let the new folders take the names; what was there is kept."""
        record = self._own_record()
        missing = [
            claim
            for claim, names in self._names.items()
            if not self._is_there(names.whole) and not self._is_exchanged(names, record)
        ]
        if missing:
            raise RestoreError("%s was not restored beside the present folder" % missing[0])
        begun = {names.folder for names in self._names.values()}
        write_record(dict(record, exchanged=sorted({*record["exchanged"], *begun})))
        for names in self._names.values():
            if not self._is_there(names.whole):
                continue
            if self._is_there(names.folder):
                if self._is_there(names.before):
                    raise RestoreError(
                        "%s is there again, and %s too: move one of them away"
                        % (names.folder, names.before)
                    )
                self._rename(names.folder, names.before)
            self._rename(names.whole, names.folder)
        return self._kept()

    def end(self, _stream):
        """Note that it ended."""
        write_record(dict(self._own_record(), ended=True))
        return self._kept()

    def _kept(self):
        found = {claim: names.before for claim, names in self._names.items()}
        there = {claim: name for claim, name in found.items() if self._is_there(name)}
        return {"kept": there}

    def _rename(self, old, new):
        os.rename(old, new, src_dir_fd=self._export, dst_dir_fd=self._export)
        os.fsync(self._export)

    def _is_cut(self, names, record):
        """Whether an exchange was killed between its renames: the claim has no folder."""
        cut = names.folder in record["exchanged"] and not self._is_there(names.folder)
        return cut and self._is_there(names.whole) and self._is_there(names.before)

    def _is_exchanged(self, names, record):
        return names.folder in record["exchanged"] and self._is_there(names.folder)

    def _is_there(self, name):
        try:
            os.stat(name, dir_fd=self._export, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return True

    def _begun(self):
        """The record of this restore; what an abandoned one left half made goes."""
        record, folders = read_record(), {names.folder for names in self._names.values()}
        if record.get("key") == self._want["key"]:
            known = dict(record, folders=sorted({*record["folders"], *folders}))
            write_record(known)
            return known
        for folder in record["folders"] if record else ():
            names = Names(folder, record["stamp"])
            self._take_away(names.filling)
            if self._is_cut(names, record):
                self._rename(names.whole, names.folder)
            self._take_away(names.whole)
        keys = ("key", "stamp", "backup", "file_sha256")
        new = {"schema": 1, "folders": sorted(folders), "exchanged": [], "ended": False}
        new.update({key: self._want[key] for key in keys})
        write_record(new)
        return new

    def _own_record(self):
        record = read_record()
        if record.get("key") != self._want["key"]:
            raise RestoreError("this node has no record of the restore %s" % self._want["key"])
        return record

    def _take_away(self, name):
        """Remove a folder that a restore made and that never was a volume, by its recorded name."""
        if not self._is_there(name):
            return
        path = Path("/proc/self/fd/%d" % self._export) / name
        if path.is_symlink() or KEPT.fullmatch(name):
            raise RestoreError("%s is no folder of a restore" % name)
        shutil.rmtree(str(path))


class _Part:
    """The standard input up to the size of a part, summed up."""

    def __init__(self, stream, size):
        self._stream, self._left, self._sum = stream, size, hashlib.sha256()

    def read(self, size=-1):
        """Return so many bytes of the part at most."""
        wanted = self._left if size is None or size < 0 else min(size, self._left)
        piece = self._stream.read(wanted) if wanted else b""
        self._left -= len(piece)
        self._sum.update(piece)
        return piece

    def require(self, sha256):
        """Read what is left, and compare all of it.

        Raises:
            RestoreError: it is not what was saved.
        """
        while self.read(archive.CHUNK):
            pass
        if self._left or self._sum.hexdigest() != sha256:
            raise RestoreError("what came is not what was saved: its sha256 is another")


RECORDED = ("key", "stamp", "backup", "file_sha256", "ended")


def read_record():
    """Return the record of the latest restore on this node, or an empty dictionary."""
    try:
        found = json.loads((HOME / RECORD).read_text())
    except (OSError, ValueError):
        return {}
    if not isinstance(found, dict):
        return {}
    lists = all(isinstance(found.get(key), list) for key in ("folders", "exchanged"))
    return found if lists and all(key in found for key in RECORDED) else {}


def write_record(record):
    """Keep the record, whole or not at all."""
    HOME.mkdir(mode=0o700, parents=True, exist_ok=True)
    write(HOME / RECORD, json.dumps(record, sort_keys=True), 0o600)


def act_of(want, stream):
    """Carry out one act.

    Raises:
        RestoreError: there is no such act, or it failed.
    """
    if want["act"] not in ACTS:
        raise RestoreError("this node knows no such act")
    with volumes.export_at(want["export"]) as export:
        course = Course(want, export)
        if want["act"] == "look":
            return course.look(stream)
        with _alone():
            return getattr(course, want["act"])(stream)


@contextlib.contextmanager
def _alone():
    """One run at a time: one whose connection broke may still be at work."""
    HOME.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(str(HOME), os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise RestoreError("an interrupted run is still at work: wait a minute") from error
    finally:
        os.close(handle)


def main():
    """Carry out the act that the JSON in the first argument describes."""
    want = json.loads(sys.argv[1])
    return appliance_backup.answer(lambda: act_of(want, sys.stdin.buffer), ERRORS)


if __name__ == "__main__":
    raise SystemExit(main())
