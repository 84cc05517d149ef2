"""Reads the archive of a volume on this machine, and compares it with what the backup says of it.

The sums are those of ``playbooks/module_utils/appliance_volume_archive.py``, which made it.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import struct
import tarfile
import urllib.parse
from collections.abc import Iterator
from typing import IO, Final, cast

from appliance.adapters.bundle.strict_tar import BROKEN, Damaged, members, told
from appliance.errors import NotHealthy
from appliance.model.backup.names import ANOTHER_BACKUP
from appliance.model.backup.volumes.record import VolumeRecord

XATTR: Final = "LIBARCHIVE.xattr."
SIZE: Final = "APPLIANCE.size"
EXTENTS: Final = "APPLIANCE.extents"
_BLOCK: Final = 1 << 16
_ZEROS: Final = bytes(_BLOCK)
_KINDS: Final = {
    tarfile.REGTYPE: "file",
    tarfile.DIRTYPE: "folder",
    tarfile.SYMTYPE: "link",
    tarfile.LNKTYPE: "hard",
    tarfile.FIFOTYPE: "pipe",
}


def check_archive(stream: IO[bytes], record: VolumeRecord) -> None:
    """Read an archive to its end, and compare counts, bytes and digest.

    Raises:
        NotHealthy: it is damaged, or does not hold what was saved.
    """
    counts = dict.fromkeys(_KINDS.values(), 0)
    total, digest = 0, hashlib.sha256()
    try:
        packed = cast("IO[bytes]", gzip.GzipFile(fileobj=stream))
        for archive, member in members(packed):
            kind = _KINDS[member.type]
            size = int(member.pax_headers.get(SIZE, member.size))
            content = _content(archive, member, size) if kind == "file" else ""
            digest.update(_line(member, kind, size, content))
            counts[kind] += 1
            total += size
    except (Damaged, OSError, LookupError, *BROKEN) as error:
        raise _bad(record, f"its archive cannot be read: {told(error)}") from error
    seen = {kind: number for kind, number in counts.items() if number}
    if seen != {kind: number for kind, number in record.counts.items() if number}:
        raise _bad(record, f"its archive has {sum(seen.values())} entries, not {record.entries}")
    if total != record.bytes or digest.hexdigest() != record.digest:
        raise _bad(record, "its archive does not hold what was saved")


def _bad(record: VolumeRecord, why: str) -> NotHealthy:
    return NotHealthy(
        f"{record.claim}: {why}",
        hint=ANOTHER_BACKUP,
    )


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo, size: int) -> str:
    """The sum over a file's data that no hole changes."""
    stream = archive.extractfile(member)
    if stream is None:
        raise Damaged("a file has no content")
    sums, index, block = hashlib.sha256(), 0, bytearray(_BLOCK)
    for offset, piece in _pieces(stream, _extents(member, size)):
        if offset // _BLOCK != index:
            _add(sums, index, block)
            index = offset // _BLOCK
        at = offset % _BLOCK
        block[at : at + len(piece)] = piece
    _add(sums, index, block)
    return sums.hexdigest()


def _add(sums: hashlib._Hash, index: int, block: bytearray) -> None:
    """Count a block, and empty it; one of zeros does not count."""
    if block != _ZEROS:
        sums.update(struct.pack(">Q", index) + bytes(block))
        block[:] = _ZEROS


def _extents(member: tarfile.TarInfo, size: int) -> list[tuple[int, int]]:
    """(offset, bytes) of a file's data."""
    listed = member.pax_headers.get(EXTENTS)
    if listed is None:
        return [(0, size)] if size else []
    numbers = [int(one) for one in listed.split(",") if one]
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def _pieces(stream: IO[bytes], extents: list[tuple[int, int]]) -> Iterator[tuple[int, bytes]]:
    """Offset and content of each piece; none goes over the end of a block."""
    for begin, length in extents:
        offset, end = begin, begin + length
        while offset < end:
            piece = stream.read(min(_BLOCK - offset % _BLOCK, end - offset))
            if not piece:
                raise Damaged("the archive is truncated")
            yield offset, piece
            offset += len(piece)


def _line(member: tarfile.TarInfo, kind: str, size: int, content: str) -> bytes:
    records = member.pax_headers
    seconds, _, rest = str(records.get("mtime", member.mtime)).partition(".")
    moment = int(seconds) * 10**9 + int((rest + "0" * 9)[:9])
    state = [member.mode & 0o7777, member.uid, member.gid, moment]
    if kind in ("link", "hard"):
        state = state[:3]
    xattrs = {
        urllib.parse.unquote(key.removeprefix(XATTR), "utf-8", "surrogateescape"): value
        for key, value in records.items()
        if key.startswith(XATTR) and kind in ("file", "folder")
    }
    fields = [_hex(member.name), kind, state, size if kind == "file" else 0, content]
    target = _hex(member.linkname) if kind in ("link", "hard") else ""
    sums = {name: base64.b64encode(base64.b64decode(xattrs[name])).decode() for name in xattrs}
    return json.dumps([*fields, target, dict(sorted(sums.items()))]).encode() + b"\n"


def _hex(name: str) -> str:
    return name.encode("utf-8", "surrogateescape").hex()
