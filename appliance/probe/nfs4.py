"""Query an NFS server about one export, in NFS version 4 and user space, read-only.

It needs no mount and no package, so that a bare node can check its storage. One COMPOUND per user:
PUTROOTFH, LOOKUP of each folder, GETATTR, ACCESS (RFC 7530). Minor version 0 needs no session for
these, and all servers of minor version 1 and 2 that we know support it too.
"""

from __future__ import annotations

import socket
import struct
from typing import Any, Dict, Optional, Sequence, Tuple

PORT = 2049
PROGRAM, VERSION, COMPOUND = 100003, 4, 1
ACCESS, GETATTR, LOOKUP, PUTROOTFH = 3, 9, 15, 24
READ, SEARCH, MODIFY, EXTEND = 1, 2, 4, 8
FULL = READ | SEARCH | MODIFY | EXTEND
MODE, OWNER, GROUP, AVAILABLE, TOTAL = 33, 36, 37, 42, 44
ATTRIBUTES = (MODE, OWNER, GROUP, AVAILABLE, TOTAL)
STATUS = {
    1: "the server accepts only privileged ports (NFS4ERR_PERM)",
    2: "the server has no such export for this host (NFS4ERR_NOENT)",
    13: "access denied to this host or user (NFS4ERR_ACCESS)",
    20: "it is not a folder (NFS4ERR_NOTDIR)",
    10008: "the server asks to wait (NFS4ERR_DELAY)",
    10013: "the server is in its grace period (NFS4ERR_GRACE)",
    10016: "the export requires Kerberos (NFS4ERR_WRONGSEC)",
    10021: "the server does not support minor version 0 (NFS4ERR_MINOR_VERS_MISMATCH)",
}


class NfsError(Exception):
    """The server answered with an error or an unexpected reply."""


class Reader:
    """Decodes XDR values from a buffer."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self) -> int:
        """An unsigned 32-bit number."""
        return int(self._take("!I"))

    def long(self) -> int:
        """An unsigned 64-bit number."""
        return int(self._take("!Q"))

    def _take(self, form: str) -> int:
        size = struct.calcsize(form)
        if self._at + size > len(self._data):
            raise NfsError("a truncated answer")
        (value,) = struct.unpack_from(form, self._data, self._at)
        self._at += size
        return int(value)

    def text(self) -> str:
        """A counted string."""
        size = self.number()
        raw = self._data[self._at : self._at + size]
        self._at += (size + 3) // 4 * 4
        return raw.decode("utf-8", "replace")


def _opaque(data: bytes) -> bytes:
    return struct.pack("!I", len(data)) + data + b"\0" * (-len(data) % 4)


def _bitmap(attributes: Tuple[int, ...]) -> bytes:
    words = [0, 0]
    for attribute in attributes:
        words[attribute // 32] |= 1 << attribute % 32
    return struct.pack("!III", 2, *words)


def _call(path: str, user: int) -> bytes:
    folders = [name for name in path.split("/") if name]
    operations = [struct.pack("!I", PUTROOTFH)]
    operations += [struct.pack("!I", LOOKUP) + _opaque(name.encode()) for name in folders]
    operations.append(struct.pack("!I", GETATTR) + _bitmap(ATTRIBUTES))
    operations.append(struct.pack("!II", ACCESS, FULL))
    credential = struct.pack("!I", 0) + _opaque(b"appliance") + struct.pack("!III", user, user, 0)
    head = struct.pack("!IIIIII", user + 1, 0, 2, PROGRAM, VERSION, COMPOUND)
    head += struct.pack("!I", 1) + _opaque(credential) + struct.pack("!II", 0, 0)
    arguments = _opaque(b"") + struct.pack("!II", 0, len(operations)) + b"".join(operations)
    return head + arguments


def _exchange(connection: socket.socket, message: bytes) -> bytes:
    connection.sendall(struct.pack("!I", 0x80000000 | len(message)) + message)
    answer = b""
    while True:
        (head,) = struct.unpack("!I", _receive(connection, 4))
        answer += _receive(connection, head & 0x7FFFFFFF)
        if head & 0x80000000:
            return answer


def _receive(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        chunk = connection.recv(size - len(data))
        if not chunk:
            raise NfsError("the server closed the connection")
        data += chunk
    return data


def _accepted(reader: Reader) -> None:
    """Read the reply's header; raise unless the server accepted the call."""
    reader.number()
    reader.number()
    if reader.number():
        raise NfsError("the server rejects this host's credentials")
    reader.number()
    reader.text()
    state = reader.number()
    if state == 2:
        versions = (reader.number(), reader.number())
        raise NfsError("speaks NFS version %d to %d, not 4" % versions)
    if state:
        raise NfsError("is no NFS server (RPC state %d)" % state)


def _attributes(reader: Reader) -> Dict[str, Any]:
    words = [reader.number() for _ in range(reader.number())]
    reader.number()
    present = [a for a in ATTRIBUTES if a // 32 < len(words) and words[a // 32] >> a % 32 & 1]
    names = {MODE: "mode", OWNER: "owner", GROUP: "group", AVAILABLE: "free_bytes"}
    found: Dict[str, Any] = {}
    for attribute in present:
        value: Any
        if attribute in (OWNER, GROUP):
            value = reader.text()
        else:
            value = reader.number() if attribute == MODE else reader.long()
        found[names.get(attribute, "size_bytes")] = value
    found["mode"] = "%04o" % found["mode"] if "mode" in found else None
    return found


def read_answer(data: bytes) -> Tuple[Dict[str, Any], bool]:
    """Return the folder's attributes, and whether the user has full access to it."""
    reader = Reader(data)
    _accepted(reader)
    status = reader.number()
    reader.text()
    found: Dict[str, Any] = {}
    granted = 0
    for _ in range(reader.number()):
        operation, outcome = reader.number(), reader.number()
        if outcome:
            raise NfsError(STATUS.get(outcome, "NFS error %d" % outcome))
        if operation == GETATTR:
            found = _attributes(reader)
        elif operation == ACCESS:
            reader.number()
            granted = reader.number()
    if status:
        raise NfsError(STATUS.get(status, "NFS error %d" % status))
    return found, granted & FULL == FULL


def _connect(server: str, port: int, seconds: float) -> socket.socket:
    """Connect from a privileged port if allowed: most servers require one by default."""
    address = socket.getaddrinfo(server, port, socket.AF_INET, socket.SOCK_STREAM)[0][4]
    for own in range(1023, 999, -1):
        connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        connection.settimeout(seconds)
        # A port that another connection left a minute ago will do.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            connection.bind(("", own))
        except PermissionError:
            pass
        except OSError:
            connection.close()
            continue
        try:
            connection.connect(address)
        except OSError as error:
            connection.close()
            if error.errno == 99:  # the last connection from this port is still remembered
                continue
            raise
        return connection
    raise OSError("no privileged port is free")


def ask(  # noqa: PLR0913, PLR0917  (what to ask whom, and how patiently)
    server: str,
    path: str,
    users: Sequence[int],
    seconds: float,
    port: int = PORT,
    folders: Sequence[str] = (),
) -> Dict[str, Any]:
    """Return the export's attributes, the users that may write, and the existing folders."""
    found: Dict[str, Any] = {"server": server, "path": path, "reachable": False, "visible": False}
    found.update(error=None, writers=[], folders=[])
    try:
        with _connect(server, port, seconds) as connection:
            found["reachable"] = True
            for user in users:
                attributes, may_write = read_answer(_exchange(connection, _call(path, user)))
                found.update(attributes, visible=True)
                if may_write:
                    found["writers"].append(user)
            for folder in folders:
                if _writable(connection, path + "/" + folder, users[0]):
                    found["folders"].append(folder)
    except (OSError, NfsError) as error:
        found["error"] = _reason(error)
    return found


def _writable(connection: socket.socket, path: str, user: int) -> bool:
    try:
        return read_answer(_exchange(connection, _call(path, user)))[1]
    except NfsError:
        return False


def _reason(error: Exception) -> str:
    if isinstance(error, socket.timeout):
        return "no answer in time"
    strerror: Optional[str] = getattr(error, "strerror", None)
    return (strerror or str(error)).lower() if isinstance(error, OSError) else str(error)
