"""Read what a snapshot of etcd holds, without etcd: its revision, its keys and a digest over them.

A snapshot is a bbolt file (etcd's bbolt, page.go and bucket.go at v1.3.6) with a sha256 at its
end. Its bucket ``key`` maps revisions to key-value records (etcd api/mvccpb/kv.proto, server/mvcc/
revision.go at v3.5.1). Python 3.8, standard library; self-contained. What must not be here: etcd.
"""

from __future__ import annotations

import contextlib
import hashlib
import mmap
import struct
import time
from pathlib import Path
from typing import NamedTuple

MAGIC, VERSION = 0xED0CDAED, 2
META = struct.Struct("<IIIIQQQQQQ")
PAGE = struct.Struct("<QHHI")
LEAF = struct.Struct("<IIII")
BRANCH = struct.Struct("<IIQ")
BUCKET = struct.Struct("<QQ")
REVISION = struct.Struct(">QcQ")
NUMBERS = struct.Struct(">QQQQQ")
IS_BRANCH, IS_LEAF, IS_BUCKET = 0x01, 0x02, 0x01
# bbolt keeps inner pages at least a quarter full: 20 levels are beyond any disk.
MOST_LEVELS = 20
CHECKSUM_BYTES = 32
SECONDS = 300


class FileError(Exception):
    """The file is no snapshot of etcd that can be read; the text has the reason."""


class Content(NamedTuple):
    """What a keyspace holds at its last revision.

    Attributes:
        revision: the last one.
        keys: how many keys it has.
        digest: sha256 over every key with its numbers and its value, in the order of the keys.
    """

    revision: int
    keys: int
    digest: str


class Digest:
    """The digest over keys, which are added in their order."""

    def __init__(self):
        self._sum = hashlib.sha256()

    def add(self, digest):
        """Add the digest of the next key."""
        self._sum.update(digest)

    def text(self):
        """Return the digest in hexadecimal."""
        return self._sum.hexdigest()


def record(key, value, numbers):
    """Return the digest of one key, its value and its numbers.

    Args:
        key: bytes.
        value: bytes.
        numbers: revisions of its creation and of its last change, version, lease.
    """
    head = NUMBERS.pack(*(number & 0xFFFFFFFFFFFFFFFF for number in numbers), len(key))
    return hashlib.sha256(head + key + hashlib.sha256(value).digest()).digest()


def content(path, seconds=SECONDS):
    """Return the :class:`Content` of a snapshot, read within some seconds.

    The file is mapped, not loaded; memory is held for each living key, not for values.

    Raises:
        FileError: it is no snapshot, it is damaged, or it could not be read in time.
    """
    until = time.monotonic() + seconds
    try:
        with Path(path).open("rb") as stream, contextlib.closing(_mapped(stream)) as data:
            return _content(_File(data, until))
    except (struct.error, IndexError, OverflowError, RecursionError) as error:
        raise FileError("%s is damaged: %s" % (path, error)) from error
    except (OSError, FileError) as error:
        raise FileError("%s cannot be read: %s" % (path, error)) from error


def _mapped(stream):
    try:
        return mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    except ValueError as error:
        raise FileError("it is empty") from error


def _content(file):
    living, last = {}, 1
    buckets = {name: value for name, value, flags in file.entries(file.root) if flags & IS_BUCKET}
    for name in (b"key", b"meta"):
        if name not in buckets:
            raise FileError("it has no bucket %s" % name.decode())
    for at, value, _ in file.bucket(buckets[b"key"]):
        last = max(last, REVISION.unpack(at[:17])[0])
        key, digest = _living(value)
        if at[17:] == b"t":
            living.pop(key, None)
        else:
            living[key] = digest
    for name, value, _ in file.bucket(buckets[b"meta"]):
        if name == b"finishedCompactRev":
            last = max(last, REVISION.unpack(value[:17])[0])
    whole = Digest()
    for key in sorted(living):
        whole.add(living[key])
    return Content(last, len(living), whole.text())


def _living(value):
    """Return key and digest of a record in protobuf's wire format."""
    numbers, texts, at = {}, {}, 0
    while at < len(value):
        tag, at = _varint(value, at)
        number, at = _varint(value, at)
        if tag & 7 == 0:
            numbers[tag >> 3] = number
        elif tag & 7 == 2 and at + number <= len(value):
            texts[tag >> 3] = value[at : at + number]
            at += number
        else:
            raise FileError("a record is damaged")
    key = texts.get(1, b"")
    return key, record(key, texts.get(5, b""), [numbers.get(field, 0) for field in (2, 3, 4, 6)])


def _varint(value, at):
    number, shift = 0, 0
    while shift < 64:
        byte = value[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number & 0xFFFFFFFFFFFFFFFF, at
        shift += 7
    raise FileError("a record is damaged")


def _fnv(data):
    """Return the FNV-1a sum that a meta page carries."""
    total = 0xCBF29CE484222325
    for byte in data:
        total = ((total ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return total


class _File:
    """Pages of a bbolt file, and the entries below them."""

    def __init__(self, data, until):
        self._data = data
        self._until = until
        self.size, self.root = self._newest_meta()

    def _newest_meta(self):
        """Return the page size and the page of the root bucket, of the last whole transaction."""
        found = []
        # The second meta page is one page further; pages are 4 KiB or larger powers of two.
        for at in (0, *(1 << power for power in range(12, 17))):
            text = self._data[at + PAGE.size : at + PAGE.size + META.size]
            if len(text) < META.size:
                continue
            magic, version, size, _, root, _, _, _, transaction, checksum = META.unpack(text)
            if (magic, version) == (MAGIC, VERSION) and checksum == _fnv(text[:-8]):
                found.append((transaction, size, root))
        if not found:
            raise FileError("it is no database of etcd")
        return max(found)[1:]

    def bucket(self, value):
        """Yield the entries of a bucket, which may lie within its own value."""
        root, _ = BUCKET.unpack(value[: BUCKET.size])
        if root:
            yield from self.entries(root)
        else:
            yield from self._leaf(value, BUCKET.size)

    def entries(self, page, level=0):
        """Yield (key, value, flags) of all leaves below a page, in order."""
        if level > MOST_LEVELS:
            raise FileError("its pages form a circle")
        at = page * self.size
        _, flags, count, _ = PAGE.unpack(self._data[at : at + PAGE.size])
        if flags & IS_BRANCH:
            for number in range(count):
                start = at + PAGE.size + number * BRANCH.size
                below = BRANCH.unpack(self._data[start : start + BRANCH.size])[2]
                yield from self.entries(below, level + 1)
        elif flags & IS_LEAF:
            if time.monotonic() > self._until:
                raise FileError("it was not read in time")
            yield from self._leaf(self._data, at)
        else:
            raise FileError("page %d is of no known kind" % page)

    @staticmethod
    def _leaf(data, at):
        count = PAGE.unpack(data[at : at + PAGE.size])[2]
        for number in range(count):
            start = at + PAGE.size + number * LEAF.size
            flags, offset, key_size, value_size = LEAF.unpack(data[start : start + LEAF.size])
            key = start + offset
            value = key + key_size
            if value + value_size > len(data):
                raise FileError("an entry ends beyond the file")
            yield data[key:value], data[value : value + value_size], flags


def sums(path):
    """Return sha256 of a file, and whether etcd's own checksum at its end is right.

    Raises:
        OSError: it cannot be read.
    """
    whole, inner, tail = hashlib.sha256(), hashlib.sha256(), b""
    with Path(path).open("rb") as stream:
        for part in iter(lambda: stream.read(1 << 20), b""):
            whole.update(part)
            tail += part
            inner.update(tail[:-CHECKSUM_BYTES])
            tail = tail[-CHECKSUM_BYTES:]
    return whole.hexdigest(), len(tail) == CHECKSUM_BYTES and inner.digest() == tail
