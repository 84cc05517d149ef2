"""An SFTP server on loopback over a folder, which does what a test says: works, lies or hangs."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import paramiko
from paramiko.common import AUTH_FAILED, AUTH_SUCCESSFUL, OPEN_SUCCEEDED
from paramiko.sftp import SFTP_FAILURE, SFTP_OK, SFTP_PERMISSION_DENIED

HOST_KEY = paramiko.ECDSAKey.generate()


@dataclass
class Faults:
    """What the server does otherwise; None and 0: nothing.

    Attributes:
        room: bytes that its disk still takes; then it refuses.
        drops_after: bytes that it keeps; it takes more, and says so, and keeps none of them.
        says_size: what it says of every file's size.
        flips: turns a bit of what is read.
        hangs_at: ``list``, ``read``, ``write`` or ``rename``: it does not answer there.
        closes_after: bytes that it takes; then it closes the connection.
        breaks: how often it closes the connection while it gives a file; -1: always.
        breaks_after: bytes that it gives before each of them.
        drips: gives a byte at a time.
        lists: so many files that are not there.
        read_only: makes no files.
        refuses: takes no login.
    """

    room: int | None = None
    drops_after: int | None = None
    says_size: int | None = None
    flips: bool = False
    hangs_at: str = ""
    closes_after: int | None = None
    breaks: int = 0
    breaks_after: int = 0
    drips: bool = False
    lists: int = 0
    read_only: bool = False
    refuses: bool = False
    taken: int = 0
    given: int = 0
    hung: int = 0


class _Login(paramiko.ServerInterface):
    def __init__(self, faults: Faults) -> None:
        self._faults = faults

    def check_auth_publickey(self, _username: str, _key: paramiko.PKey) -> int:
        return AUTH_FAILED if self._faults.refuses else AUTH_SUCCESSFUL

    def get_allowed_auths(self, _username: str) -> str:
        return "publickey"

    def check_channel_request(self, _kind: str, _chanid: int) -> int:
        return OPEN_SUCCEEDED


class _Handle(paramiko.SFTPHandle):
    def __init__(self, flags: int, files: _Files) -> None:
        super().__init__(flags)
        self._files = files

    def write(self, offset: int, data: Any) -> int:
        faults = self._files.faults
        self._files.wait("write")
        if faults.room is not None and faults.taken + len(data) > faults.room:
            return SFTP_FAILURE
        if faults.closes_after is not None and faults.taken + len(data) > faults.closes_after:
            self._files.close()
            return SFTP_FAILURE
        faults.taken += len(data)
        if faults.drops_after is not None and faults.taken > faults.drops_after:
            return SFTP_OK
        return super().write(offset, data)

    def read(self, offset: int, length: int) -> Any:
        faults = self._files.faults
        self._files.wait("read")
        if faults.drips:
            time.sleep(0.1)
            length = 1
        data = super().read(offset, length)
        if faults.breaks and isinstance(data, bytes):
            if faults.given + len(data) > faults.breaks_after:
                faults.breaks, faults.given = faults.breaks - 1, 0
                self._files.close()
                return SFTP_FAILURE
            faults.given += len(data)
        if faults.flips and isinstance(data, bytes) and data:
            return bytes([data[0] ^ 1]) + data[1:]
        return data

    def chattr(self, _attr: paramiko.SFTPAttributes) -> int:
        return SFTP_OK


class _Files(paramiko.SFTPServerInterface):
    def __init__(
        self, server: paramiko.ServerInterface, root: Path, faults: Faults, close: Any
    ) -> None:
        super().__init__(server)
        self.faults = faults
        self.close = close
        self._root = root

    def wait(self, where: str) -> None:
        if self.faults.hangs_at == where:
            self.faults.hung += 1
            time.sleep(60)

    def _real(self, path: str) -> Path:
        return self._root / path.lstrip("/")

    def _told(self, found: os.stat_result, name: str = "") -> paramiko.SFTPAttributes:
        attributes = paramiko.SFTPAttributes.from_stat(found, name)
        if self.faults.says_size is not None:
            attributes.st_size = self.faults.says_size
        return attributes

    def list_folder(self, path: str) -> Any:
        self.wait("list")
        try:
            entries = sorted(os.scandir(self._real(path)), key=lambda one: one.name)
        except OSError as error:
            return paramiko.SFTPServer.convert_errno(error.errno or 0)
        found = [self._told(one.stat(follow_symlinks=False), one.name) for one in entries]
        here = Path(__file__).stat()
        found += [self._told(here, f"file{number}") for number in range(self.faults.lists)]
        return found

    def lstat(self, path: str) -> Any:
        try:
            return self._told(self._real(path).lstat())
        except OSError as error:
            return paramiko.SFTPServer.convert_errno(error.errno or 0)

    stat = lstat

    def open(self, path: str, flags: int, _attr: paramiko.SFTPAttributes) -> Any:
        if self.faults.read_only and flags & os.O_CREAT:
            return SFTP_PERMISSION_DENIED
        try:
            handle = os.open(self._real(path), flags, 0o666)
        except OSError as error:
            return paramiko.SFTPServer.convert_errno(error.errno or 0)
        made = _Handle(flags, self)
        raw = os.fdopen(handle, "rb" if flags & os.O_ACCMODE == os.O_RDONLY else "wb")
        made.readfile = made.writefile = raw  # type: ignore[attr-defined]
        return made

    def remove(self, path: str) -> int:
        try:
            self._real(path).unlink()
        except OSError as error:
            return int(paramiko.SFTPServer.convert_errno(error.errno or 0))
        return SFTP_OK

    def rename(self, oldpath: str, newpath: str) -> int:
        """As OpenSSH does: it replaces nothing."""
        self.wait("rename")
        try:
            os.link(self._real(oldpath), self._real(newpath))
            self._real(oldpath).unlink()
        except OSError as error:
            return int(paramiko.SFTPServer.convert_errno(error.errno or 0))
        return SFTP_OK


@dataclass
class SftpServer:
    """A server that runs.

    Attributes:
        port: of 127.0.0.1.
        root: the folder that is its root.
        faults: what it does otherwise, from now on.
    """

    root: Path
    faults: Faults = field(default_factory=Faults)
    port: int = 0

    def __post_init__(self) -> None:
        self._sockets = [socket.create_server(("127.0.0.1", 0))]
        self._transports: list[paramiko.Transport] = []
        self.port = self._sockets[0].getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def known(self) -> str:
        """The line of ``known_hosts``."""
        name, key = HOST_KEY.get_name(), HOST_KEY.get_base64()
        return f"[127.0.0.1]:{self.port} {name} {key}\n"

    def target(self, folder: str) -> str:
        """The place of a folder below its root."""
        return f"sftp://ada@127.0.0.1:{self.port}/{folder}"

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._sockets[0].accept()
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._sockets.append(connection)
                threading.Thread(target=self._speak, args=(connection,), daemon=True).start()

    def _speak(self, connection: socket.socket) -> None:
        transport = paramiko.Transport(connection)
        transport.add_server_key(HOST_KEY)
        self._transports.append(transport)
        transport.set_subsystem_handler(
            "sftp", paramiko.SFTPServer, _Files, self.root, self.faults, transport.close
        )
        with suppress(paramiko.SSHException, EOFError, OSError):
            transport.start_server(server=_Login(self.faults))

    def close(self) -> None:
        """End every connection."""
        for transport in self._transports:
            transport.close()
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


@contextmanager
def sftp_server(root: Path) -> Iterator[SftpServer]:
    """A server that ends with the block."""
    made = SftpServer(root)
    try:
        yield made
    finally:
        made.close()
