"""The bundles that the services node holds: each in a folder named by its digest.

``/var/lib/appliance/bundles/DIGEST`` holds a bundle, ``bundles/DIGEST.files`` what was verified of
it, and ``bundle.verified`` the digests of all whole ones, one a line. ``/var/lib/appliance/bundle``
is a link to the bundle that is served. What must not be here: the modules' options.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ansible.module_utils.appliance_files import write

BLOCK = 1 << 20
FOLDERS = ("apt", "bin", "charts", "cni", "controller", "images", "updates", "wheels")
MOST_BYTES = 16 << 20
SHA256 = re.compile(r"[0-9a-f]{64}")
DOCUMENTS = ("manifest.json", "manifest.json.sig")
PART = re.compile(r"[A-Za-z0-9._+~%@:=,!-]{1,255}")


def sha256(path):
    """Return the digest of a regular file; a link, a pipe or a device is an OSError."""
    found = hashlib.sha256()
    handle = os.open(str(path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb", buffering=0) as stream:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError("%s is not a regular file" % path)
        for block in iter(lambda: stream.read(BLOCK), b""):
            found.update(block)
    return found.hexdigest()


def signature(path):
    """Return the values that change whenever a file is written, or None."""
    try:
        state = path.lstat()
    except OSError:
        return None
    return [state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino]


def is_confined(name):
    """Return whether a path stays below one of a bundle's folders."""
    parts = name.split("/")
    return (
        len(parts) > 1
        and parts[0] in FOLDERS
        and all(PART.fullmatch(part) and part not in (".", "..") for part in parts)
    )


def is_number(value):
    """Return whether a value is a number of bytes."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def files_of(text):
    """Return the files that a manifest lists.

    ValueError where it is not valid: no part of it is used then.
    """
    try:
        document = json.loads(text)
    except RecursionError:
        raise ValueError("its manifest is nested too deeply") from None
    files = document.get("files") if isinstance(document, dict) else None
    if not isinstance(files, list):
        raise ValueError("its manifest has no list of files")
    for entry in files:
        found = entry if isinstance(entry, dict) else {}
        name, digest = found.get("path"), found.get("sha256")
        if not isinstance(name, str) or not is_confined(name):
            raise ValueError("its manifest lists %r, which is not a path of a bundle" % (name,))
        if not isinstance(digest, str) or not SHA256.fullmatch(digest):
            raise ValueError("its manifest has no sha256 for %s" % name)
        if not is_number(found.get("size")):
            raise ValueError("its manifest has no size for %s" % name)
    return files


def record_of(path):
    """Return the file that records what was verified of a bundle's folder."""
    return path.with_name(path.name + ".files")


def marked(marker):
    """Return the digests of the bundles that are verified, in order."""
    try:
        return [word for word in marker.read_text().split() if SHA256.fullmatch(word)]
    except OSError:
        return []


def mark(marker, digest, complete):
    """Add a digest to the marker, or take it out; without any digest there is no marker."""
    before = marked(marker)
    after = [word for word in before if word != digest] + ([digest] if complete else [])
    if digest in before and complete:
        return
    if after:
        write(marker, "".join(word + "\n" for word in after))
    elif marker.exists():
        marker.unlink()


def names_below(path):
    """Yield every file and link below a bundle's folders, relative to it."""
    for folder in FOLDERS:
        top = path / folder
        if top.is_symlink():
            yield folder
            continue
        for root, names, leaves in os.walk(str(top)):
            links = [name for name in names if (Path(root) / name).is_symlink()]
            names[:] = [name for name in names if name not in links]
            for name in links + leaves:
                yield str((Path(root) / name).relative_to(path))


class Verification:
    """Compares the bundle on disk with its manifest."""

    def __init__(self, path, digest, marker):
        self.path = Path(path)
        self.digest = digest
        self.marker = Path(marker)
        self.record = record_of(self.path)

    def known(self):
        """Return the signatures of files that were verified for this digest."""
        try:
            record = json.loads(self.record.read_text())
        except (OSError, ValueError, RecursionError):
            return {}
        if not isinstance(record, dict) or record.get("digest") != self.digest:
            return {}
        files = record.get("files")
        return files if isinstance(files, dict) else {}

    def is_marked(self):
        """Return whether the marker has the digest of this bundle."""
        return self.digest in marked(self.marker)

    def files(self):
        """Return the files that the manifest lists; None where it is not that of this bundle."""
        manifest = self.path / "manifest.json"
        if manifest.is_symlink() or not manifest.is_file() or sha256(manifest) != self.digest:
            return None
        if manifest.stat().st_size > MOST_BYTES:
            raise ValueError("its manifest is larger than %d bytes" % MOST_BYTES)
        return files_of(manifest.read_text())

    def look(self):
        """Return (faults, paths that differ, signatures of verified files)."""
        manifest = self.path / "manifest.json"
        if manifest.is_symlink() or not manifest.is_file():
            return ["manifest.json is missing"], [], {}
        files = self.files()
        if files is None:
            return ["manifest.json is that of another bundle"], [], {}
        known = self.known()
        with ThreadPoolExecutor(max_workers=min(8, os.cpu_count() or 1)) as pool:
            seen = dict(pool.map(lambda entry: (entry["path"], self._fault(entry, known)), files))
        faulty = {path: fault for path, fault in seen.items() if fault}
        told = ["%s %s" % item for item in sorted(faulty.items())]
        differing = [path for path, fault in faulty.items() if fault == "differs"]
        verified = {path: signature(self.path / path) for path in seen if path not in faulty}
        return told, differing, verified

    def _fault(self, entry, known):
        path = self.path / entry["path"]
        if path.parent.resolve() != self.path.resolve() / Path(entry["path"]).parent:
            return "is below a link"
        now = signature(path)
        if now is None:
            return "is absent"
        if not stat.S_ISREG(path.lstat().st_mode):
            return "is not a regular file"
        if now == known.get(entry["path"]):
            return None
        if now[0] != entry["size"] or sha256(path) != entry["sha256"]:
            return "differs"
        return None

    def settle(self, differing, verified, complete):
        """Record the result; remove files that differ, so that they are copied again."""
        for name in differing:
            # A regular file below the bundle's own folders, because the manifest was checked.
            (self.path / name).unlink()
        if complete:
            self.keep(verified)
        mark(self.marker, self.digest, complete)

    def keep(self, verified):
        """Record the signatures of verified files."""
        write(self.record, json.dumps({"digest": self.digest, "files": verified}))

    def prune(self, check=False):
        """Remove what the manifest does not list from the bundle's folders; return its paths."""
        listed = {entry["path"] for entry in files_of((self.path / "manifest.json").read_text())}
        strangers = sorted(name for name in names_below(self.path) if name not in listed)
        for name in strangers if not check else ():
            # A file or a link below a folder that is ours alone; no link was followed to it.
            (self.path / name).unlink()
        return strangers
