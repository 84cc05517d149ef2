"""Give the data of volumes to a backup: folders of the export that this node serves.

Each becomes an archive in a folder of the run's own, which goes when it ends; the export is only
read. Pods may write meanwhile: the copy is what a crash would leave, and files that changed are
named. Python 3.8, standard library. What must not be here: whose volumes they are.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import shutil
import sys
from pathlib import Path

from ansible.module_utils import appliance_backup, appliance_backup_folder
from ansible.module_utils import appliance_volume_archive as archive

# Role nfs_server writes down which folder it exports, and the same id inside of it.
MARK, MARKER = Path("/var/lib/appliance/nfs-export.json"), "appliance-export.json"
MOST_MARK_BYTES = 1 << 16
# Left free for the node, beside the archives.
RESERVE = 2 << 30
LEVEL, LOOK_EVERY = 1, 64 << 20
MOST_NAMED = 5
ERRORS = (archive.ArchiveError, OSError, ValueError, LookupError)


@contextlib.contextmanager
def export_at(path):
    """Yield a handle of the exported folder.

    Raises:
        OSError: it is not there, or not the one that was exported.
    """
    real = os.path.realpath(path)
    handle = os.open(real, archive.OPENED | os.O_DIRECTORY)
    try:
        inside, outside = _id_in(MARKER, handle), _id_in(str(MARK), None)
        if outside is None or (outside and inside != outside):
            raise OSError("%s is not the folder that was exported: is its disk mounted?" % path)
        yield handle
    finally:
        os.close(handle)


def _id_in(name, folder):
    """Return the id in a mark; empty where it has none, None where there is no mark."""
    try:
        handle = os.open(name, archive.OPENED, dir_fd=folder)
    except FileNotFoundError:
        return None
    with os.fdopen(handle, "rb") as stream:
        found = json.loads(stream.read(MOST_MARK_BYTES))
    return str(found.get("id") or "")


@contextlib.contextmanager
def folder_of(export, name):
    """Yield a handle of a folder directly in the export.

    Raises:
        OSError: it is not there, or is no folder.
    """
    require_step(name)
    handle = os.open(name, archive.OPENED | os.O_DIRECTORY, dir_fd=export)
    try:
        yield handle
    finally:
        os.close(handle)


def require_step(name):
    """Refuse what is no name of a folder directly in the export.

    Raises:
        ValueError: it leads elsewhere.
    """
    if not name or name in (".", "..") or "/" in name or "\0" in name or name == MARKER:
        raise ValueError("%r is no folder of the export" % name[:100])


def measured(export, name):
    """Return how much one folder holds; nothing of its data is read."""
    listing = archive.Listing()
    with folder_of(export, name) as handle:
        for entry, _ in archive.Walk(handle).entries():
            listing.add(entry)
    return {"entries": sum(listing.counts.values()), "data_bytes": listing.data_bytes}


def look(want):
    """Return what a backup of volumes is planned by."""
    found = {}
    with export_at(want["export"]) as export:
        for one in want["volumes"]:
            try:
                found[one["claim"]] = dict(measured(export, one["folder"]), fault="")
            except ERRORS as error:
                why = getattr(error, "strerror", None) or str(error)
                found[one["claim"]] = {"entries": 0, "data_bytes": 0, "fault": why}
    return {"volumes": found, "free_bytes": free_bytes()}


def free_bytes():
    """Return how much archives may take on this node."""
    place = appliance_backup_folder.PLACE
    while not place.is_dir():
        place = place.parent
    free = shutil.disk_usage(str(place)).free + appliance_backup_folder.left_bytes()
    return max(0, free - RESERVE)


def of_volumes(found, want, data):
    """The archives of all volumes that were asked for, each after what is known of it."""
    with export_at(want["export"]) as export:
        for number, one in enumerate(want["volumes"]):
            top, path = "volumes/%s" % one["claim"], data / ("%d.tar.gz" % number)
            try:
                with folder_of(export, one["folder"]) as handle:
                    walk, listing = _pack(handle, path)
            except ERRORS as error:
                found.lacks(top, error)
                continue
            told = {key: one[key] for key in ("claim", "volume", "uid", "folder")}
            told.update(listing.told(), archive=top + "/data.tar.gz")
            told.update(changed=walk.changed.total, left_out=walk.left_out.total)
            # First, so that whoever reads the archive knows what should be in it.
            found.text(top + "/volume.json", json.dumps(told, sort_keys=True).encode())
            found.file(top + "/data.tar.gz", path)
            _name(found, top, walk)


def _name(found, top, walk):
    """Name what is not as a whole copy would have it."""
    if walk.changed:
        named = ", ".join(_shown(path) for path in walk.changed[:MOST_NAMED])
        why = "%d files or folders changed while they were read: %s" % (walk.changed.total, named)
        found.lacks(top, why)
    if walk.left_out:
        told = ("%s: %s" % (_shown(path), why) for path, why in walk.left_out[:MOST_NAMED])
        found.lacks(top, "%d entries left out: %s" % (walk.left_out.total, ", ".join(told)))


def _shown(path):
    return path.encode("ascii", "replace").decode()[:80]


def _pack(handle, path):
    private = os.open(str(path), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(private, "wb") as file:
        packed = gzip.GzipFile("", "wb", LEVEL, _Watched(file, path), mtime=0)
        with packed:
            return archive.write(handle, packed)


class _Watched:
    """A file that is written as long as the node keeps its reserve."""

    def __init__(self, file, path):
        self._file, self._path, self._left = file, path, 0

    def write(self, data):
        """Write it.

        Raises:
            OSError: there is too little space.
        """
        self._left -= len(data)
        if self._left <= 0:
            self._left = LOOK_EVERY
            if shutil.disk_usage(str(self._path.parent)).free < RESERVE:
                raise OSError("%s has too little space for the archive" % self._path.parent)
        return self._file.write(data)

    def flush(self):
        """Hand on what is kept."""
        self._file.flush()


def main():
    """Look, or gather and send, as the JSON in the first argument says."""
    want = json.loads(sys.argv[1])
    if want["act"] == "gather":
        appliance_backup.KINDS["volumes"] = of_volumes
        return appliance_backup.main()
    return appliance_backup.answer(lambda: look(want), ERRORS)


if __name__ == "__main__":
    raise SystemExit(main())
