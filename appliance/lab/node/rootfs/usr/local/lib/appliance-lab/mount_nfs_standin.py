#!/usr/bin/python3
"""Plays the kernel's NFS client in a lab node, which as a container has none: STAND-IN.

``mount -t nfs`` starts it in the place of /sbin/mount.nfs. It speaks NFS version 4 with the server
through libnfs and shows the export through FUSE, as file system type ``fuse.nfs4_standin``. What it
does not prove: the kernel's client, its caching, locking and recovery.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import socket
import stat
import struct
import sys
import time
from collections.abc import Iterator
from typing import Any

import fusepy  # type: ignore[import-untyped, import-not-found, unused-ignore]

FILE_SYSTEM_TYPE = "nfs4_standin"
LIBRARY = "libnfs.so.13"
SCOPED = "APPLIANCE_STANDIN_SCOPED"
NFS_VERSION = 4
PUTROOTFH, LOOKUP, SETATTR = 24, 15, 34
# libnfs 4.0 has 4 KiB for a whole request of version 4.
WRITE_BYTES = 2048
STAT_FIELDS = (
    *("dev", "ino", "mode", "nlink", "uid", "gid", "rdev", "size", "blksize", "blocks"),
    *("atime", "mtime", "ctime", "atime_nsec", "mtime_nsec", "ctime_nsec", "used"),
)
SPACE_FIELDS = ("bsize", "frsize", "blocks", "bfree", "bavail", "files", "ffree", "favail")


class Stat(ctypes.Structure):
    """libnfs' struct nfs_stat_64."""

    _fields_ = [("nfs_" + name, ctypes.c_uint64) for name in STAT_FIELDS]


class Space(ctypes.Structure):
    """The kernel's struct statvfs, which libnfs fills."""

    _fields_ = [
        ("f_" + name, ctypes.c_ulong) for name in (*SPACE_FIELDS, "fsid", "flag", "namemax")
    ]


class Entry(ctypes.Structure):
    """The beginning of libnfs' struct nfsdirent."""


Entry._fields_ = [("next", ctypes.POINTER(Entry)), ("name", ctypes.c_char_p)]


class TimeValue(ctypes.Structure):
    """struct timeval."""

    _fields_ = [("seconds", ctypes.c_long), ("microseconds", ctypes.c_long)]


def load_library() -> Any:
    """Load libnfs and say what its functions return."""
    library = ctypes.CDLL(LIBRARY)
    library.nfs_init_context.restype = ctypes.c_void_p
    library.nfs_get_error.restype = ctypes.c_char_p
    library.nfs_readdir.restype = ctypes.POINTER(Entry)
    return library


class Attributes:
    """Changes mode and owner by a COMPOUND of its own: libnfs 4.0 cannot, of a folder."""

    def __init__(self, server: str, path: str, user: int, group: int) -> None:
        self._place = (server, path)
        self._credential = struct.pack("!II", 0, 0) + struct.pack("!III", user, group, 0)
        self._connection: socket.socket | None = None

    def set(self, path: str, bits: int, values: bytes) -> None:
        """Set the attributes of the second bitmap word."""
        folders = [name for name in (self._place[1] + path).split("/") if name]
        operations = [struct.pack("!I", PUTROOTFH)]
        operations += [struct.pack("!I", LOOKUP) + opaque(name.encode()) for name in folders]
        attributes = struct.pack("!III", 2, 0, bits) + opaque(values)
        operations.append(struct.pack("!I", SETATTR) + bytes(16) + attributes)
        self._call(struct.pack("!III", 0, 0, len(operations)) + b"".join(operations))

    def _call(self, arguments: bytes) -> None:
        head = struct.pack("!IIIIII", 1, 0, 2, 100003, NFS_VERSION, 1)
        head += struct.pack("!I", 1) + opaque(self._credential) + struct.pack("!II", 0, 0)
        message = head + arguments
        connection = self._connection or socket.create_connection((self._place[0], 2049), 20)
        self._connection = connection
        connection.sendall(struct.pack("!I", 0x80000000 | len(message)) + message)
        size = struct.unpack("!I", connection.recv(4, socket.MSG_WAITALL))[0] & 0x7FFFFFFF
        status = struct.unpack_from("!I", connection.recv(size, socket.MSG_WAITALL), 24)[0]
        if status:
            raise fusepy.FuseOSError(status if status < 10000 else errno.EIO)


def opaque(data: bytes) -> bytes:
    """Counted bytes, filled up to a multiple of four."""
    return struct.pack("!I", len(data)) + data + b"\0" * (-len(data) % 4)


class Client:
    """One connection to the server, as one user."""

    def __init__(self, library: Any, server: str, path: str, user: int, group: int) -> None:
        self._library = library
        self._context = ctypes.c_void_p(library.nfs_init_context())
        library.nfs_set_version(self._context, NFS_VERSION)
        library.nfs_set_uid(self._context, user)
        library.nfs_set_gid(self._context, group)
        self("mount", server.encode(), path.encode())
        self.attributes = Attributes(server, path, user, group)

    def __call__(self, name: str, *arguments: Any) -> int:
        """Call a function of libnfs; a negative result is an OSError."""
        result: int = getattr(self._library, "nfs_" + name)(self._context, *arguments)
        if result < 0:
            words = self._library.nfs_get_error(self._context) or b""
            raise fusepy.FuseOSError(-result) from OSError(words.decode("utf-8", "replace"))
        return result

    @contextlib.contextmanager
    def opened(self, path: str, flags: int) -> Iterator[ctypes.c_void_p]:
        """An open file, for one use: libnfs lets its lease of idle files run out."""
        handle = ctypes.c_void_p()
        self("open", path.encode(), flags, ctypes.byref(handle))
        try:
            yield handle
        finally:
            self("close", handle)

    def names(self, path: str) -> list[str]:
        """The names in a folder."""
        handle = ctypes.c_void_p()
        self("opendir", path.encode(), ctypes.byref(handle))
        names = []
        while True:
            entry = self._library.nfs_readdir(self._context, handle)
            if not entry:
                break
            names.append(entry.contents.name.decode("utf-8", "surrogateescape"))
        self._library.nfs_closedir(self._context, handle)
        return names


class Export(fusepy.Operations):  # type: ignore[misc]
    """The export as FUSE asks for it; each user speaks with the server under its own name."""

    def __init__(self, server: str, path: str) -> None:
        self._library = load_library()
        self._server, self._path = server, path
        self._clients: dict[tuple[int, int], Client] = {}
        self._client_of(0, 0)

    def _client_of(self, user: int, group: int) -> Client:
        if (user, group) not in self._clients:
            self._clients[user, group] = Client(
                self._library, self._server, self._path, user, group
            )
        return self._clients[user, group]

    @property
    def _nfs(self) -> Client:
        user, group, _ = fusepy.fuse_get_context()
        return self._client_of(user, group)

    def getattr(self, path: str, _fh: Any = None) -> dict[str, Any]:
        """Attributes of a file."""
        found = Stat()
        self._nfs("lstat64", path.encode(), ctypes.byref(found))
        keys = ("mode", "nlink", "uid", "gid", "size", "blocks", "blksize", "ino")
        values = {"st_" + key: getattr(found, "nfs_" + key) for key in keys}
        for key in ("atime", "mtime", "ctime"):
            nanoseconds = getattr(found, "nfs_" + key + "_nsec")
            values["st_" + key] = getattr(found, "nfs_" + key) + nanoseconds / 1e9
        return values

    def readdir(self, path: str, _fh: Any) -> list[str]:
        """The names in a folder."""
        return [".", "..", *self._nfs.names(path)]

    def statfs(self, path: str) -> dict[str, int]:
        """Space on the server."""
        found = Space()
        self._nfs("statvfs", path.encode(), ctypes.byref(found))
        return {"f_" + key: getattr(found, "f_" + key) for key in (*SPACE_FIELDS, "namemax")}

    def create(self, path: str, mode: int, _fi: Any = None) -> int:
        """Make a file; libnfs 4.0 sends neither its mode nor its times."""
        handle = ctypes.c_void_p()
        self._nfs("creat", path.encode(), stat.S_IMODE(mode), ctypes.byref(handle))
        self._nfs("close", handle)
        self.chmod(path, mode)
        self.utimens(path)
        return 0

    def open(self, path: str, flags: int) -> int:
        """See that the file may be opened."""
        with self._nfs.opened(path, flags & os.O_ACCMODE):
            return 0

    def read(self, path: str, size: int, offset: int, _fh: Any) -> bytes:
        """Read a part."""
        with self._nfs.opened(path, os.O_RDONLY) as handle:
            buffer = ctypes.create_string_buffer(size)
            count = self._nfs(
                "pread", handle, ctypes.c_uint64(offset), ctypes.c_uint64(size), buffer
            )
            return buffer.raw[:count]

    def write(self, path: str, data: bytes, offset: int, _fh: Any) -> int:
        """Write a part, and have the server put it on its disk."""
        with self._nfs.opened(path, os.O_WRONLY) as handle:
            for start in range(0, len(data), WRITE_BYTES):
                part = data[start : start + WRITE_BYTES]
                where, size = ctypes.c_uint64(offset + start), ctypes.c_uint64(len(part))
                self._nfs("pwrite", handle, where, size, part)
            self._nfs("fsync", handle)
        return len(data)

    def truncate(self, path: str, length: int, _fh: Any = None) -> None:
        """Cut or lengthen."""
        self._nfs("truncate", path.encode(), ctypes.c_uint64(length))

    def fsync(self, path: str, _datasync: int, _fh: Any) -> None:
        """Every write was synchronous; this asks the server once more."""
        with self._nfs.opened(path, os.O_WRONLY) as handle:
            self._nfs("fsync", handle)

    def mkdir(self, path: str, mode: int) -> None:
        """Make a folder."""
        self._nfs("mkdir2", path.encode(), stat.S_IMODE(mode))

    def chown(self, path: str, user: int, group: int) -> None:
        """Change owner and group; -1 leaves one as it is."""
        given = ((0x10, user), (0x20, group))
        wanted = [(bit, number) for bit, number in given if number not in (-1, 0xFFFFFFFF)]
        values = b"".join(opaque(str(number).encode()) for _, number in wanted)
        self._nfs.attributes.set(path, sum(bit for bit, _ in wanted), values)

    def chmod(self, path: str, mode: int) -> None:
        """Change the mode."""
        self._nfs.attributes.set(path, 0x02, struct.pack("!I", stat.S_IMODE(mode)))

    def utimens(self, path: str, times: tuple[float, float] | None = None) -> None:
        """Change the times."""
        access, change = times or (time.time(), time.time())
        values = (TimeValue * 2)(
            TimeValue(int(access), int(access % 1 * 1e6)),
            TimeValue(int(change), int(change % 1 * 1e6)),
        )
        self._nfs("utimes", path.encode(), values)

    def unlink(self, path: str) -> None:
        """Remove a file."""
        self._nfs("unlink", path.encode())

    def rmdir(self, path: str) -> None:
        """Remove a folder."""
        self._nfs("rmdir", path.encode())

    def rename(self, old: str, new: str) -> None:
        """Rename."""
        self._nfs("rename", old.encode(), new.encode())

    def link(self, target: str, source: str) -> None:
        """Make a hard link."""
        self._nfs("link", source.encode(), target.encode())

    def symlink(self, target: str, source: str) -> None:
        """Make a symbolic link."""
        self._nfs("symlink", source.encode(), target.encode())

    def readlink(self, path: str) -> str:
        """Where a symbolic link points."""
        buffer = ctypes.create_string_buffer(4096)
        self._nfs("readlink", path.encode(), buffer, 4096)
        return buffer.value.decode("utf-8", "surrogateescape")


def _outlive_caller(arguments: list[str]) -> None:
    """Begin again in a scope of systemd: a kernel's mount does not end with who made it."""
    if SCOPED in os.environ:
        return
    words = ["systemd-run", "--scope", "--quiet", "--collect", "--", sys.executable]
    os.environ[SCOPED] = "1"
    with contextlib.suppress(OSError):
        os.execvp(  # noqa: S606 - in its place, as mount(8) waits for this process
            words[0], [*words, os.path.realpath(__file__), *arguments]
        )


def main(arguments: list[str]) -> int:
    """Mount as mount(8) asks: SERVER:PATH FOLDER [-o OPTIONS]."""
    _outlive_caller(arguments)
    plain = []
    words = iter(arguments)
    for word in words:
        if word == "-o":
            next(words, None)
        elif not word.startswith("-"):
            plain.append(word)
    source, folder = plain[:2]
    server, _, path = source.partition(":")
    try:
        export = Export(server, path)
    except OSError as error:
        sys.stderr.write(f"mount.nfs (stand-in): {source}: {error.__cause__ or error}\n")
        return 32
    fusepy.FUSE(
        export, folder, nothreads=True, allow_other=True, fsname=source, subtype=FILE_SYSTEM_TYPE,
        attr_timeout=0, entry_timeout=0, direct_io=True,
    )  # fmt: skip
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
