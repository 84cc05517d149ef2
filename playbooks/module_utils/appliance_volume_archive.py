"""Archives a folder as a tar stream, and reads such a stream back, within bounded memory.

Folders come before what is in them, in the order of their names' bytes. A file with holes has the
records APPLIANCE.size and APPLIANCE.extents, and only its data; a pod may change everything while
it is read, so each step is opened by itself and no link is followed. Python 3.8, standard library.
What must not be here: writing files, and which folder it is.
"""

from __future__ import annotations

import base64
import contextlib
import errno
import hashlib
import json
import os
import stat
import struct
import tarfile
import urllib.parse

CHUNK, BLOCK = 1 << 18, 1 << 16
MOST_DEPTH, MOST_STEP_BYTES, MOST_ENTRIES = 200, 255, 1 << 27
MOST_FILE_BYTES, MOST_EXTENTS, MOST_HEADER_BYTES = 1 << 46, 5000, 1 << 18
MOST_XATTR_BYTES, MOST_XATTRS = 1 << 16, 100
# Of the first names of files that have several; a file beyond that is saved again by each name.
MOST_NAMES_BYTES, MOST_NOTED = 1 << 28, 100
# A file with more holes than that is read whole, up to this size.
MOST_WHOLE_BYTES = 1 << 38
MOST_ID = (1 << 32) - 2
XATTRS = ("user.", "system.posix_acl_")
ACL = "system.posix_acl_access"
XATTR, SIZE, EXTENTS = "LIBARCHIVE.xattr.", "APPLIANCE.size", "APPLIANCE.extents"
TAR = 512
ZEROS = bytes(BLOCK)
KINDS = {
    "file": tarfile.REGTYPE,
    "folder": tarfile.DIRTYPE,
    "link": tarfile.SYMTYPE,
    "hard": tarfile.LNKTYPE,
    "pipe": tarfile.FIFOTYPE,
}
OPENED = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class ArchiveError(Exception):
    """It is no archive of a volume, or a file cannot be in one; the text has the reason."""


class Entry:
    """One file, folder, link or pipe.

    Attributes:
        path: below the folder; ``.`` is the folder itself.
        kind: a key of :data:`KINDS`; ``hard`` is a further name of a file.
        state: mode, owner's ids of user and group, and mtime in nanoseconds.
        size: of a file, in bytes, holes included.
        extents: (offset, bytes) of a file's data.
        target: of a link, or the first name of a file.
        xattrs: name -> value.
    """

    def __init__(self, path, kind, state, **more):
        self.path, self.kind, self.state = path, kind, state
        self.size, self.extents = more.get("size", 0), list(more.get("extents", ()))
        self.target, self.xattrs = more.get("target", ""), dict(more.get("xattrs") or {})

    @property
    def stored(self):
        """How many bytes of data it has."""
        return sum(length for _, length in self.extents)

    def line(self, content):
        """Return what the listing has of it."""
        values = {
            name: base64.b64encode(value).decode() for name, value in sorted(self.xattrs.items())
        }
        # A link's own time cannot be kept everywhere.
        state = self.state[:3] if self.kind in ("link", "hard") else self.state
        fields = [os.fsencode(self.path).hex(), self.kind, list(state), self.size, content]
        return json.dumps([*fields, os.fsencode(self.target).hex(), values]).encode() + b"\n"


class Content:
    """A sum over a file's data that no hole changes: blocks of zeros do not count."""

    def __init__(self):
        self._sum, self._index, self._block = hashlib.sha256(), 0, bytearray(BLOCK)

    def feed(self, offset, data):
        """Take data; offsets go up."""
        data = memoryview(data)
        while data:
            index, at = divmod(offset, BLOCK)
            if index != self._index:
                self._flush()
                self._index = index
            piece = data[: BLOCK - at]
            self._block[at : at + len(piece)] = piece
            offset, data = offset + len(piece), data[len(piece) :]

    def _flush(self):
        if self._block != ZEROS:
            self._sum.update(struct.pack(">Q", self._index) + bytes(self._block))
            self._block = bytearray(BLOCK)

    def digest(self):
        """Return the sum of all that was fed."""
        self._flush()
        return self._sum.hexdigest()


class Listing:
    """Counts, and a sha256, over the entries of a folder in their order."""

    def __init__(self):
        self.counts = dict.fromkeys(KINDS, 0)
        self.bytes = self.data_bytes = 0
        self._sum = hashlib.sha256()

    def add(self, entry, content=""):
        """Count one entry; content is the sum of a file's data."""
        self.counts[entry.kind] += 1
        self.bytes += entry.size
        self.data_bytes += entry.stored
        if sum(self.counts.values()) > MOST_ENTRIES:
            raise ArchiveError("it has more entries than any volume")
        self._sum.update(entry.line(content))

    def told(self):
        """Return it as plain data; ``data_bytes`` depend on how the disk keeps holes."""
        return {
            "counts": dict(self.counts),
            "bytes": self.bytes,
            "data_bytes": self.data_bytes,
            "digest": self._sum.hexdigest(),
        }


class Noted(list):
    """The first of what is noted; ``total`` counts all, however much a pod causes."""

    total = 0

    def append(self, one):
        """Count one; keep it where it is among the first."""
        self.total += 1
        if len(self) < MOST_NOTED:
            super().append(one)


class Walk:
    """All entries below an open folder.

    Attributes:
        left_out: (path, why) of what is in no archive.
        changed: paths of files and folders that changed while they were read.
    """

    def __init__(self, handle):
        self._top, self._names, self._device = handle, {}, os.fstat(handle).st_dev
        self._names_bytes = 0
        self.left_out, self.changed = Noted(), Noted()

    def entries(self):
        """Yield (entry, handle); the handle of a file is open until the next one."""
        seen = os.fstat(self._top)
        yield self._entry(".", "folder", seen, self._top), None
        yield from self._below(self._top, "", 1)
        self._note_names(".", seen, self._top)

    def _below(self, folder, above, depth):
        for name in names_in(folder):
            path = above + name
            try:
                seen = os.stat(name, dir_fd=folder, follow_symlinks=False)
                yield from self._one(folder, name, path, seen, depth)
            except FileNotFoundError:
                self.changed.append(path)
            except (OSError, ArchiveError) as error:
                self.left_out.append((path, getattr(error, "strerror", None) or str(error)))

    def _one(self, folder, name, path, seen, depth):
        mode = seen.st_mode
        if seen.st_dev != self._device:
            raise ArchiveError("another file system is mounted there")
        if stat.S_ISLNK(mode):
            target = os.readlink(name, dir_fd=folder)
            yield self._entry(path, "link", seen, None, target=target), None
        elif stat.S_ISFIFO(mode):
            yield self._entry(path, "pipe", seen, None), None
        elif stat.S_ISDIR(mode):
            if depth >= MOST_DEPTH:
                raise ArchiveError("it is deeper than %d folders" % MOST_DEPTH)
            with _opened(folder, name, os.O_DIRECTORY) as handle:
                seen = os.fstat(handle)
                yield self._entry(path, "folder", seen, handle), None
                yield from self._below(handle, path + "/", depth + 1)
                self._note_names(path, seen, handle)
        elif stat.S_ISREG(mode):
            with _opened(folder, name, 0) as handle:
                yield from self._file(path, handle)
        else:
            what = "a socket" if stat.S_ISSOCK(mode) else "a device"
            raise ArchiveError("%s, which is in no backup" % what)

    def _note_names(self, path, seen, handle):
        """A name that came or went while a folder was read may have missed the copy."""
        if os.fstat(handle).st_mtime_ns != seen.st_mtime_ns:
            self.changed.append(path)

    def _file(self, path, handle):
        seen = os.fstat(handle)
        if not stat.S_ISREG(seen.st_mode):
            raise ArchiveError("it became something else while it was read")
        first, content = self._names.get(seen.st_ino), (seen.st_size, seen.st_mtime_ns)
        if first is not None and first[2] == content:
            # Of one file there is one mode and owner, whatever a pod does to it meanwhile.
            yield Entry(path, "hard", first[1], target=first[0]), None
            return
        if first is not None:
            # Another content: it was written meanwhile, or another file has the number now.
            self.changed.append(path)
        extents = extents_of(handle, seen)
        entry = self._entry(path, "file", seen, handle, size=seen.st_size, extents=extents)
        if seen.st_nlink > 1 and self._names_bytes < MOST_NAMES_BYTES:
            self._names[seen.st_ino] = (path, entry.state, content)
            self._names_bytes += len(path) + TAR
        yield entry, handle
        now = os.fstat(handle)
        if (now.st_size, now.st_mtime_ns) != (seen.st_size, seen.st_mtime_ns):
            self.changed.append(path)

    def _entry(self, path, kind, seen, handle, **more):
        state = (stat.S_IMODE(seen.st_mode), seen.st_uid, seen.st_gid, seen.st_mtime_ns)
        entry = Entry(path, kind, state, **more)
        if handle is not None:
            try:
                entry.xattrs = xattrs_of(handle)
                if ACL in entry.xattrs:
                    # A pod may have set it after the mode was read.
                    entry.state = (mode_with(entry.xattrs[ACL], state[0]), *state[1:])
                if entry.xattrs and len(header(entry)) > MOST_HEADER_BYTES:
                    raise ArchiveError("they are too long")
            except (OSError, ArchiveError) as error:
                why = getattr(error, "strerror", None) or str(error)
                entry.xattrs, entry.state = {}, state
                self.left_out.append((path, "without its extended attributes: %s" % why))
        return entry


def names_in(folder):
    """Return the names in an open folder, in the order of their bytes."""
    with os.scandir(folder) as found:
        return sorted((one.name for one in found), key=os.fsencode)


@contextlib.contextmanager
def _opened(folder, name, more):
    # To open a device may start it, and a pod may exchange a file for one: see first what it is.
    found = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        mode = os.fstat(found).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise ArchiveError("it became something else while it was read")
        handle = os.open("/proc/self/fd/%d" % found, OPENED & ~os.O_NOFOLLOW | more)
    finally:
        os.close(found)
    try:
        yield handle
    finally:
        os.close(handle)


def xattrs_of(handle):
    """Return those extended attributes that a backup has."""
    found = {}
    try:
        for name in os.listxattr(handle):
            if name.startswith(XATTRS):
                found[name] = os.getxattr(handle, name)
    except OSError as error:
        if error.errno not in (errno.ENOTSUP, errno.ENODATA, errno.EOPNOTSUPP):
            raise
    if len(found) > MOST_XATTRS:
        raise ArchiveError("there are too many")
    if sum(len(value) for value in found.values()) > MOST_XATTR_BYTES:
        raise ArchiveError("they are too long")
    return found


def mode_with(acl, mode):
    """Return the mode that a file has with an access ACL, as acl(5) says."""
    try:
        found = {tag: bits for tag, bits, _ in struct.iter_unpack("<HHI", acl[4:])}
        return mode & ~0o777 | found[1] << 6 | found.get(16, found[4]) << 3 | found[32]
    except (struct.error, LookupError) as error:
        raise ArchiveError("its ACL cannot be read") from error


def extents_of(handle, seen):
    """Return (offset, bytes) of the data of a file; holes are in none.

    Raises:
        ArchiveError: it has too many holes, or is larger than any file.
    """
    size, found, at = seen.st_size, [], 0
    if size > MOST_FILE_BYTES:
        raise ArchiveError("it is larger than any file of a backup")
    if seen.st_blocks * 512 >= size:
        return [(0, size)] if size else []
    while at < size:
        begin = min(_data_from(handle, at, size), size)
        end = min(os.lseek(handle, begin, os.SEEK_HOLE), size) if begin < size else size
        if begin < end:
            found.append((begin, end - begin))
        at = max(end, at + 1)
        if len(found) > MOST_EXTENTS:
            if size > MOST_WHOLE_BYTES:
                raise ArchiveError("it has too many holes to be read whole")
            return [(0, size)]
    return found


def _data_from(handle, at, size):
    """Return where data begins; the size where only a hole follows."""
    try:
        return os.lseek(handle, at, os.SEEK_DATA)
    except OSError as error:
        if error.errno == errno.ENXIO:
            return size
        raise


def pieces_of(handle, entry):
    """Yield (offset, bytes) of an open file's data; zeros for what it lost meanwhile."""
    for begin, length in entry.extents:
        at, end = begin, begin + length
        while at < end:
            piece = os.pread(handle, min(CHUNK, end - at), at) or bytes(min(CHUNK, end - at))
            yield at, piece
            at += len(piece)


def write(handle, out):
    """Write the archive of an open folder; return (walk, listing).

    Args:
        handle: of the folder.
        out: takes bytes by its write.
    """
    walk, listing = Walk(handle), Listing()
    for entry, opened in walk.entries():
        out.write(header(entry))
        if opened is None:
            listing.add(entry)
            continue
        content = Content()
        for offset, piece in pieces_of(opened, entry):
            content.feed(offset, piece)
            out.write(piece)
        out.write(bytes(-entry.stored % TAR))
        listing.add(entry, content.digest())
    out.write(bytes(2 * TAR))
    return walk, listing


def listing_of(handle):
    """Return (walk, listing) of an open folder, all its data read."""
    walk, listing = Walk(handle), Listing()
    for entry, opened in walk.entries():
        content = Content()
        if opened is not None:
            for offset, piece in pieces_of(opened, entry):
                content.feed(offset, piece)
        listing.add(entry, "" if opened is None else content.digest())
    return walk, listing


def header(entry):
    """Return the headers of one entry, as POSIX.1-2001 has them."""
    info = tarfile.TarInfo(entry.path)
    mode, user, group, moment = entry.state
    info.type, info.mode, info.uid, info.gid = KINDS[entry.kind], mode, user, group
    info.linkname, info.size = entry.target, entry.stored
    info.pax_headers = {"mtime": "%d.%09d" % divmod(moment, 10**9)}
    if entry.kind == "file" and entry.extents != ([(0, entry.size)] if entry.size else []):
        told = ",".join("%d,%d" % one for one in entry.extents)
        info.pax_headers.update({SIZE: str(entry.size), EXTENTS: told})
    for name, value in entry.xattrs.items():
        key = XATTR + urllib.parse.quote(os.fsencode(name), safe="")
        info.pax_headers[key] = base64.b64encode(value).decode()
    return info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")
