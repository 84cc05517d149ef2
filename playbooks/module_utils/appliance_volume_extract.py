"""Reads the archive of a volume, and makes a new folder of it; every name in it is hostile.

A folder is made by us and stays open while its entries come, so no name leads out of it: there is
no path to follow. Devices and sockets are in no archive. Python 3.8, standard library. What must
not be here: which folder it is, and what becomes of it.
"""

from __future__ import annotations

import base64
import os
import stat
import tarfile
import urllib.parse

from ansible.module_utils import appliance_volume_archive as archive
from ansible.module_utils.appliance_volume_archive import ArchiveError, Content, Entry, Listing

PRIVATE = 0o700
TYPES = {code: kind for kind, code in archive.KINDS.items()}
MOST_TARGET_BYTES = 4096
# Of a header: a damaged or hostile one may cause any of these.
BROKEN = (tarfile.TarError, ValueError, LookupError, OverflowError, TypeError)


class Archive:
    """An archive that is read once, from its beginning to its end.

    Args:
        stream: gives bytes by its read.
    """

    def __init__(self, stream):
        self._stream, self._left = stream, 0

    def entries(self):
        """Yield every entry; its data has to be taken by :meth:`pieces` before the next one.

        Raises:
            ArchiveError: it is no archive of ours, or was cut.
        """
        while True:
            block = self._exactly(archive.TAR)
            if not block.strip(b"\0"):
                return
            entry = self._entry(block)
            self._left = entry.stored
            yield entry
            if self._left:
                raise AssertionError("the data of %r was not taken" % entry.path)
            self._exactly(-entry.stored % archive.TAR)

    def pieces(self, entry):
        """Yield (offset, bytes) of the data of the entry that came last."""
        for begin, length in entry.extents:
            at, end = begin, begin + length
            while at < end:
                piece = self._exactly(min(archive.CHUNK, end - at))
                self._left -= len(piece)
                yield at, piece
                at += len(piece)

    def _exactly(self, size):
        found = bytearray()
        while len(found) < size:
            piece = self._stream.read(size - len(found))
            if not piece:
                raise ArchiveError("the archive was cut")
            found += piece
        return bytes(found)

    def _entry(self, block):
        records = {}
        try:
            info = _info(block)
            if info.type == tarfile.XHDTYPE:
                if not 0 < info.size <= archive.MOST_HEADER_BYTES:
                    raise ArchiveError("a header is longer than any of ours")
                padded = self._exactly(info.size + -info.size % archive.TAR)
                records = _records(padded[: info.size])
                info = _info(self._exactly(archive.TAR))
            return _judged(info, records)
        except BROKEN as error:
            raise ArchiveError("a header is damaged: %s" % error) from error


def _info(block):
    return tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")


def _records(text):
    """Return keyword -> value of an extended header."""
    found = {}
    while text:
        size, _, _ = text.partition(b" ")
        if not size.isdigit() or not len(size) < int(size) <= len(text):
            raise ArchiveError("a header is damaged")
        record, text = text[len(size) + 1 : int(size)], text[int(size) :]
        key, equals, value = record.partition(b"=")
        if not equals or not value.endswith(b"\n"):
            raise ArchiveError("a header is damaged")
        found[key.decode("utf-8", "surrogateescape")] = os.fsdecode(value[:-1])
    return found


def _judged(info, records):
    if info.type not in TYPES:
        raise ArchiveError("an entry is no file, folder, link or pipe")
    kind = TYPES[info.type]
    path = records.get("path", info.name)
    path = path[:-1] if kind == "folder" and path.endswith("/") else path
    require_path(path)
    stored = int(records.get("size", info.size))
    size = int(records.get(archive.SIZE, stored))
    extents = _extents(records, size)
    if (kind != "file" and (stored or size)) or sum(n for _, n in extents) != stored:
        raise ArchiveError("an entry has another size than its header says")
    user, group = int(records.get("uid", info.uid)), int(records.get("gid", info.gid))
    if not (0 <= user <= archive.MOST_ID and 0 <= group <= archive.MOST_ID):
        raise ArchiveError("an owner is none that a system has")
    target = records.get("linkpath", info.linkname) if kind in ("link", "hard") else ""
    if kind == "hard":
        require_path(target)
    elif kind == "link" and not 0 < len(os.fsencode(target)) < MOST_TARGET_BYTES:
        raise ArchiveError("a link leads nowhere")
    state = (info.mode & 0o7777, user, group, _moment(records.get("mtime", str(info.mtime))))
    more = {"size": size, "extents": extents, "target": target}
    return Entry(path, kind, state, xattrs=_xattrs(records, kind), **more)


def require_path(path):
    """Refuse a path that is none below a folder.

    Raises:
        ArchiveError: it is absolute, leads up, or is longer than a file system has.
    """
    if path == ".":
        return
    steps = path.split("/")
    lengths = [len(os.fsencode(step)) for step in steps]
    if (
        any(step in ("", ".", "..") or "\0" in step for step in steps)
        or max(lengths) > archive.MOST_STEP_BYTES
        or len(steps) > archive.MOST_DEPTH
    ):
        raise ArchiveError("a path is none below a folder: %r" % path[:100])


def _extents(records, size):
    if not 0 <= size <= archive.MOST_FILE_BYTES:
        raise ArchiveError("a file is larger than any of a backup")
    if archive.EXTENTS not in records:
        return [(0, size)] if size else []
    numbers = [int(one) for one in records[archive.EXTENTS].split(",") if one]
    found = list(zip(numbers[::2], numbers[1::2]))  # noqa: B905  (3.8)
    end = 0
    for begin, length in found:
        if begin < end or length < 1 or begin + length > size:
            raise ArchiveError("the holes of a file are none")
        end = begin + length
    if len(numbers) % 2 or len(found) > archive.MOST_EXTENTS + 1:
        raise ArchiveError("the holes of a file are none")
    return found


def _moment(text):
    seconds, _, rest = text.partition(".")
    found = int(seconds) * 10**9 + int((rest + "0" * 9)[:9])
    if abs(found) >= 1 << 63:
        raise ArchiveError("a time is none")
    return found


def _xattrs(records, kind):
    found = {}
    for key, value in records.items():
        if key.startswith(archive.XATTR) and kind in ("file", "folder"):
            name = urllib.parse.unquote(key[len(archive.XATTR) :], "utf-8", "surrogateescape")
            found[name] = base64.b64decode(value, validate=True)
            if not name.startswith(archive.XATTRS) or len(found[name]) > archive.MOST_XATTR_BYTES:
                raise ArchiveError("an extended attribute is none of a volume")
    if len(found) > archive.MOST_XATTRS:
        raise ArchiveError("an entry has too many extended attributes")
    return found


class _Folders:
    """The folders that are open, from the top to the one whose entries come."""

    def __init__(self, top):
        self.top, self._stack = top, []

    def parent_of(self, path):
        """Close what is complete; return the open folder that the path is directly in.

        Raises:
            ArchiveError: that folder is not the one whose entries come.
        """
        above = path.rpartition("/")[0]
        while self._stack and self._stack[-1][0] != above:
            self._leave()
        if not self._stack and above:
            raise ArchiveError("an entry comes before its folder, or after it: %r" % path[:100])
        return self._stack[-1][1] if self._stack else self.top

    def enter(self, entry, handle):
        """A folder was made, and its entries follow."""
        self._stack.append((entry.path, handle, entry))

    def _leave(self):
        _, handle, entry = self._stack.pop()
        try:
            _give(handle, entry)
        finally:
            os.close(handle)

    def close(self, *, complete):
        """Close all of them."""
        while self._stack:
            if complete:
                self._leave()
            else:
                os.close(self._stack.pop()[1])


def extract(stream, top, most_bytes, most_entries):
    """Make everything of an archive in an empty open folder; return the listing of what came.

    Args:
        stream: gives the archive by its read.
        top: handle of the folder, which is ours.
        most_bytes: of data, as the backup says; more is refused.
        most_entries: as the backup says; more is refused.

    Raises:
        ArchiveError: it is no archive of a volume.
        OSError: something could not be written.
    """
    found, folders, listing = Archive(stream), _Folders(top), Listing()
    first = None
    try:
        for entry in found.entries():
            if (first is None) != (entry.path == "."):
                raise ArchiveError("the folder itself comes first, and once")
            if first is None:
                if entry.kind != "folder":
                    raise ArchiveError("the archive is of no folder")
                first = entry
                listing.add(entry)
                continue
            if listing.data_bytes + entry.stored > most_bytes:
                raise ArchiveError("it has more data than the backup says")
            if sum(listing.counts.values()) >= most_entries:
                raise ArchiveError("it has more entries than the backup says")
            _make(found, entry, folders, listing)
        if first is None:
            raise ArchiveError("the archive is empty")
        folders.close(complete=True)
        _give(top, first)
    finally:
        folders.close(complete=False)
    return listing


def _make(found, entry, folders, listing):
    parent, name = folders.parent_of(entry.path), entry.path.rpartition("/")[2]
    content = ""
    if entry.kind == "folder":
        os.mkdir(name, PRIVATE, dir_fd=parent)
        handle = os.open(name, archive.OPENED | os.O_DIRECTORY, dir_fd=parent)
        folders.enter(entry, handle)
    elif entry.kind == "file":
        content = _file(found, entry, name, parent)
    elif entry.kind == "hard":
        _hard(folders.top, entry.target, name, parent)
    else:
        if entry.kind == "link":
            os.symlink(entry.target, name, dir_fd=parent)
        else:
            os.mkfifo(name, 0o600, dir_fd=parent)
        os.chown(name, *entry.state[1:3], dir_fd=parent, follow_symlinks=False)
        if entry.kind == "pipe":
            # After its owner: a new owner takes setuid and setgid away.
            os.chmod(name, entry.state[0], dir_fd=parent)
        times = (entry.state[3], entry.state[3])
        os.utime(name, ns=times, dir_fd=parent, follow_symlinks=False)
    listing.add(entry, content)


def _file(found, entry, name, parent):
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    handle, content = os.open(name, flags, 0o600, dir_fd=parent), Content()
    try:
        for offset, piece in found.pieces(entry):
            content.feed(offset, piece)
            _write(handle, offset, piece)
        os.ftruncate(handle, entry.size)
        _give(handle, entry)
    finally:
        os.close(handle)
    return content.digest()


def _write(handle, offset, piece):
    """Write data; blocks of zeros become holes."""
    for at in range(0, len(piece), archive.BLOCK):
        part, begin = piece[at : at + archive.BLOCK], offset + at
        left = part if part.strip(b"\0") else b""
        while left:
            written = os.pwrite(handle, left, begin)
            begin, left = begin + written, left[written:]


def _hard(top, target, name, parent):
    """A further name of a file of this archive; every step is opened, and no link is followed."""
    *steps, last = target.split("/")
    opened = []
    try:
        folder = top
        for step in steps:
            folder = os.open(step, archive.OPENED | os.O_DIRECTORY, dir_fd=folder)
            opened.append(folder)
        seen = os.stat(last, dir_fd=folder, follow_symlinks=False)
        if not stat.S_ISREG(seen.st_mode):
            raise ArchiveError("a further name is of no file")
        os.link(last, name, src_dir_fd=folder, dst_dir_fd=parent, follow_symlinks=False)
    finally:
        for handle in opened:
            os.close(handle)


def _give(handle, entry):
    """Owner, mode, attributes and time of an open file or folder; the owner first."""
    mode, user, group, moment = entry.state
    os.fchown(handle, user, group)
    os.fchmod(handle, mode)
    for name, value in entry.xattrs.items():
        os.setxattr(handle, name, value)
    os.utime(handle, ns=(moment, moment))
