"""Write a backup on this node: a gzipped tar that ``age`` encrypts, its manifest last.

The layout is that of ``cluster backup create`` (appliance/adapters/backup/writer.py), so the same
commands verify and restore it. Plain text goes through a pipe only. The file beside it is written
last: without it, nothing takes a file for a backup. Python 3.8, standard library. What must not be
here: what is in a backup.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import json
import os
import re
import stat
import subprocess
import tarfile
import time
from pathlib import Path

from ansible.module_utils.appliance_timer_record import TimerError, plain

AGE = "/var/lib/appliance/timer-programs/age"
PLACE = Path("/var/backups/appliance")
SUFFIX, BESIDE, PARTIAL = ".backup", ".backup.json", ".partial"
FORMAT, LEVEL, CHUNK = 1, 1, 1 << 18
SECONDS, END_SECONDS = 6 * 3600, 120
LIMIT = ["timeout", "--kill-after=5", str(SECONDS)]
KINDS = ("etcd", "control_plane", "tls", "registry", "runai", "objects")
MOST_MISSING, MOST_BESIDE = 300, 4 << 20
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}-[0-9]{8}T[0-9]{6}Z")
_UNFIT = re.compile(r"[^A-Za-z0-9._-]+")


def backup_id(site, moment):
    """Return the name of a backup without its suffix."""
    fit = _UNFIT.sub("-", site).strip("-._")[:80] or "site"
    return "%s-%s" % (fit, time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(moment)))


def place():
    """Return the folder of backups: ours, readable by root only.

    Raises:
        TimerError: what is there is not.
    """
    PLACE.mkdir(mode=0o700, parents=True, exist_ok=True)
    seen = PLACE.lstat()
    if not stat.S_ISDIR(seen.st_mode) or seen.st_uid != os.geteuid():
        raise TimerError("%s is no folder of ours: move it away" % PLACE)
    PLACE.chmod(0o700)
    return PLACE


def kept(site):
    """Return (name, size, what the file beside it says) of this site's whole backups, oldest first.

    A name alone is no evidence: the file beside it has to say the same name, site and size.
    """
    found = []
    for beside in place().glob("*" + BESIDE):
        name = beside.name[: -len(BESIDE)]
        try:
            told = json.loads(_read(beside))
            size = _regular(PLACE / (name + SUFFIX))
        except (OSError, ValueError):
            continue
        ours = isinstance(told, dict) and (told.get("id"), told.get("site")) == (name, site)
        if ours and _ID.fullmatch(name) and told.get("size") == size:
            found.append((name, size, told))
    return sorted(found, key=lambda one: one[0][-16:])


def _read(path):
    _regular(path)
    with path.open("rb") as stream:
        return stream.read(MOST_BESIDE)


def _regular(path):
    seen = path.lstat()
    if not stat.S_ISREG(seen.st_mode):
        raise OSError("%s is no regular file" % path)
    return seen.st_size


def tidy(site):
    """Remove what runs that were killed left: files of such a name without the file beside them."""
    start = backup_id(site, 0)[: -len("19700101T000000Z")]
    gone = []
    for path in sorted(place().iterdir()):
        name = path.name
        for ending in (SUFFIX + PARTIAL, BESIDE + PARTIAL, SUFFIX):
            if not name.endswith(ending):
                continue
            stem = name[: -len(ending)]
            ours = _ID.fullmatch(stem) and stem[: -len("19700101T000000Z")] == start
            alone = not (PLACE / (stem + BESIDE)).exists()
            if ours and alone and path.is_file() and not path.is_symlink():
                path.unlink()
                gone.append(name)
            break
    return gone


def retire(site, keep, made):
    """Remove whole backups of this site beyond the newest; return their names.

    The last one of each kind of parts stays, and the last one of those that lack least: a cluster
    that is half restored, or whose databases give nothing, does not push out what is whole. One
    that is dated after the one just made is of a clock that was wrong: it counts as the oldest.

    Args:
        site: its name.
        keep: how many stay, the one just made included.
        made: the name of the one just made.
    """
    moment = made[-16:]
    ours = sorted(kept(site), key=lambda one: (one[0][-16:] <= moment, one[0][-16:]))
    stays = {made, *_last_of_their_kind(ours)}
    gone = []
    for name, _, _ in ours[: -max(keep, 1)]:
        if name in stays:
            continue
        # First what makes it a backup: whatever ends this run, half of one is none.
        (PLACE / (name + BESIDE)).unlink()
        (PLACE / (name + SUFFIX)).unlink()
        gone.append(name)
    return gone


def _last_of_their_kind(ours):
    """As the control host does (appliance/model/backup/retention.py)."""
    last = {}
    lacks = {name: len(told.get("missing") or ()) for name, _, told in ours}
    for name, _, told in ours:
        last.update(dict.fromkeys(map(str, told.get("kinds") or ()), name))
        if lacks[name] == min(lacks.values()):
            last["whole"] = name
    return set(last.values())


def used():
    """Return how many bytes lie in the folder."""
    sizes = []
    for path in place().iterdir():
        with contextlib.suppress(OSError):
            sizes.append(_regular(path))
    return sum(sizes)


class Pipe:
    """A stream into age, whose output is a file of limited size on a disk that is not filled."""

    def __init__(self, stream, out, limits):
        self._stream, self._out, self._limits = stream, out, limits

    def write(self, content):
        """Hand on all of it.

        Raises:
            TimerError: the file became larger than it may, or the disk has too little left.
        """
        if os.fstat(self._out).st_size > self._limits["most_bytes"]:
            raise TimerError(
                "the backups of this node would be larger than backup: schedule: most_gb allows"
            )
        disk = os.fstatvfs(self._out)
        if disk.f_bavail * disk.f_frsize < self._limits["spare_bytes"]:
            raise TimerError(
                "the disk of %s became full: %d MB stay free for the node, whose etcd may be there"
                % (PLACE, self._limits["spare_bytes"] // 10**6)
            )
        self._stream.write(content)
        return len(content)

    def flush(self):
        """Hand on what was held back."""
        self._stream.flush()


@contextlib.contextmanager
def encrypted(path, limits):
    """Yield a stream whose content arrives encrypted in a new file, synced when the block ends.

    Args:
        path: the file.
        limits: as :func:`write` has them.

    Raises:
        TimerError: age failed, the file became too large, or the disk full.
        OSError: the disk did not take it.
    """
    out = os.open(str(path), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    options = ["--encrypt"]
    for one in limits["recipients"]:
        options += ["--recipient", one]
    argv = [*LIMIT, AGE, *options]
    try:
        with _running(argv, out) as process:
            broken = False
            try:
                yield Pipe(process.stdin, out, limits)
                process.stdin.close()
            except BrokenPipeError:
                broken = True  # it says why
            rc = process.wait(END_SECONDS)
            if rc != 0 or broken:
                said = process.stderr.read(2000).decode("utf-8", "replace")
                raise TimerError("age ended with %d: %s" % (rc, plain(said)))
        os.fsync(out)
    finally:
        os.close(out)


@contextlib.contextmanager
def _running(argv, out):
    """Yield the running program; it is ended with the block."""
    try:
        process = subprocess.Popen(  # noqa: S603  (no shell; arguments are our own)
            argv, stdin=subprocess.PIPE, stdout=out, stderr=subprocess.PIPE, close_fds=True
        )
    except OSError as error:
        raise TimerError("%s cannot be started: %s" % (argv[0], error)) from error
    try:
        yield process
    finally:
        with contextlib.suppress(OSError):
            process.stdin.close()
        if process.poll() is None:
            process.terminate()
            process.wait(END_SECONDS)
        process.stderr.close()


def write(about, gathered, told, limits):
    """Write a backup of what was gathered; return the document beside it.

    Args:
        about: id, site, created, release, tool_version, recipients (fingerprints), kubernetes.
        gathered: parts and missing, as ``appliance_backup.Gathered`` has them.
        told: endpoint, versions, etcd, node, and missing things of elsewhere.
        limits: recipients (public keys), most_bytes of the file, spare_bytes of the disk.

    Raises:
        TimerError, OSError: there is no backup; what was written of it is gone.
    """
    name = about["id"]
    file = place() / (name + SUFFIX)
    half = file.with_name(file.name + PARTIAL)
    try:
        with encrypted(half, limits) as stream:
            document = _archive(stream, about, gathered, told)
        beside = dict(document, size=half.stat().st_size, sha256=_sha256(half))
        os.link(str(half), str(file))
    finally:
        with contextlib.suppress(FileNotFoundError):
            half.unlink()
    _beside(file, beside)
    return beside


def _beside(file, document):
    path = file.with_name(file.name[: -len(SUFFIX)] + BESIDE)
    half = path.with_name(path.name + PARTIAL)
    handle = os.open(str(half), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "w") as stream:
        stream.write(json.dumps(document, indent=2) + "\n")
        stream.flush()
        os.fsync(handle)
    half.rename(path)
    folder = os.open(str(path.parent), os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _sha256(path):
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        for piece in iter(lambda: stream.read(CHUNK), b""):
            digest.update(piece)
    return digest.hexdigest()


def _archive(stream, about, gathered, told):
    """Write parts and manifest; return what inside and beside have in common."""
    parts, moment = [], int(told["moment"])
    packed = gzip.GzipFile(fileobj=stream, mode="wb", compresslevel=LEVEL, mtime=moment)
    with packed, tarfile.open(fileobj=packed, mode="w|", format=tarfile.PAX_FORMAT) as archive:
        for name, path, content, size, digest in gathered.parts:
            source = _Content(io.BytesIO(content) if path is None else _open(path))
            _add(archive, name, size, moment, source)
            if source.digest() != digest:
                raise TimerError("%s changed while it was written" % plain(name, 200))
            parts.append({"name": name, "sha256": digest, "size": size, "node": told["node"]})
        missing = told["missing"] + [
            {"where": told["node"], "what": plain(what, 200), "why": plain(why)}
            for what, why in gathered.missing
        ]
        document = dict(about, format=FORMAT, kinds=_kinds(parts), missing=_few(missing))
        manifest = dict(
            document,
            endpoint=told["endpoint"],
            versions=told["versions"],
            abandoned=[],
            etcd=told["etcd"],
            parts=[dict(one, kind=one["name"].partition("/")[0]) for one in parts],
        )
        text = (json.dumps(manifest, indent=1) + "\n").encode()
        _add(archive, "manifest.json", len(text), moment, io.BytesIO(text))
    return document


def _kinds(parts):
    return list(dict.fromkeys(one["name"].partition("/")[0] for one in parts))


def _few(missing):
    if len(missing) <= MOST_MISSING:
        return missing
    more = {"where": "all of it", "what": "and more", "why": "too many to be named"}
    return [*missing[:MOST_MISSING], more]


def _add(archive, name, size, moment, source):
    member = tarfile.TarInfo(name)
    member.size, member.mode, member.mtime = size, 0o600, moment
    archive.addfile(member, source)
    archive.members.clear()


def _open(path):
    handle = os.open(str(path), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    return os.fdopen(handle, "rb")


class _Content:
    """A stream that knows the sha256 of what was read from it."""

    def __init__(self, stream):
        self._stream, self._sum = stream, hashlib.sha256()

    def read(self, size=-1):
        """Return the next bytes."""
        piece = self._stream.read(size)
        self._sum.update(piece)
        return piece

    def digest(self):
        """Return the sha256 of all that was read."""
        self._stream.close()
        return self._sum.hexdigest()
