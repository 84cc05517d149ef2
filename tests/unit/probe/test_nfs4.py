"""NFS 4 in user space, against a small server that answers as servers were seen to."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from appliance.probe import nfs4

Answer = Callable[[bytes], bytes]
RIGHT = 0x0F


def _head(state: int = 0) -> bytes:
    return struct.pack("!IIIIII", 7, 1, 0, 0, 0, state)


def _attributes(mode: int = 0o40777, free: int = 5 * 10**9) -> bytes:
    owner = struct.pack("!I", 4) + b"1001"
    values = struct.pack("!I", mode & 0o7777) + owner + owner + struct.pack("!QQ", free, 10**10)
    bits = [1 << a % 32 for a in nfs4.ATTRIBUTES]
    mask = struct.pack("!III", 2, 0, sum(bits))
    return mask + struct.pack("!I", len(values)) + values


def _compound(*results: bytes, status: int = 0) -> bytes:
    return _head() + struct.pack("!III", status, 0, len(results)) + b"".join(results)


def _done(operation: int, body: bytes = b"") -> bytes:
    return struct.pack("!II", operation, 0) + body


def _whole(access: int = RIGHT) -> bytes:
    return _compound(
        _done(nfs4.PUTROOTFH),
        _done(nfs4.LOOKUP),
        _done(nfs4.GETATTR, _attributes()),
        _done(nfs4.ACCESS, struct.pack("!II", RIGHT, access)),
    )


def _refused(status: int) -> bytes:
    failed = struct.pack("!II", nfs4.LOOKUP, status)
    return _compound(_done(nfs4.PUTROOTFH), failed, status=status)


@contextmanager
def server(answer: Answer, *, fragment: int = 1 << 20) -> Iterator[int]:
    """A server that reads calls and says what it is told, in fragments of a size."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            while len(head := connection.recv(4)) == 4:
                call = b""
                while len(call) < struct.unpack("!I", head)[0] & 0x7FFFFFFF:
                    call += connection.recv(65536)
                reply = answer(call)
                if not reply:
                    return
                while reply:
                    part, reply = reply[:fragment], reply[fragment:]
                    last = 0 if reply else 0x80000000
                    connection.sendall(struct.pack("!I", last | len(part)) + part)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    with listener:
        yield listener.getsockname()[1]
    thread.join(5)


def ask(answer: Answer, *, users: tuple[int, ...] = (1001, 0), **more: Any) -> dict[str, Any]:
    fragment = more.pop("fragment", 1 << 20)
    with server(answer, fragment=fragment) as port:
        return nfs4.ask("127.0.0.1", "/srv/runai", users, 2, port, **more)


def _user_of(call: bytes) -> int:
    """The uid of an AUTH_SYS credential, after the machine's name."""
    (size,) = struct.unpack_from("!I", call, 36)
    return int(struct.unpack_from("!I", call, 40 + (size + 3) // 4 * 4)[0])


@pytest.mark.parametrize("fragment", [1 << 20, 16])
def test_an_export_is_reported_with_its_space_owner_and_writers(fragment: int) -> None:
    found = ask(lambda call: _whole(RIGHT if _user_of(call) else 1), fragment=fragment)
    assert found == {
        "server": "127.0.0.1",
        "path": "/srv/runai",
        "reachable": True,
        "visible": True,
        "error": None,
        "writers": [1001],
        "folders": [],
        "mode": "0777",
        "owner": "1001",
        "group": "1001",
        "free_bytes": 5 * 10**9,
        "size_bytes": 10**10,
    }


def test_the_call_looks_up_every_folder_of_the_path() -> None:
    calls = []

    def remember(call: bytes) -> bytes:
        calls.append(call)
        return _whole()

    ask(remember, users=(1001,))
    assert calls[0].count(struct.pack("!I", nfs4.LOOKUP) + struct.pack("!I", 3) + b"srv\0") == 1
    assert b"runai\0\0\0" in calls[0]


def test_folders_are_there_when_the_first_user_may_write_them() -> None:
    found = ask(
        lambda call: _refused(2) if b"absent" in call else _whole(1 if b"closed" in call else 15),
        folders=("one", "absent", "closed"),
    )
    assert found["folders"] == ["one"]
    assert found["error"] is None


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (_refused(2), "no such export for this host (NFS4ERR_NOENT)"),
        (_refused(13), "NFS4ERR_ACCESS"),
        (_refused(1), "privileged ports"),
        (_refused(10016), "Kerberos"),
        (_refused(99), "NFS error 99"),
        (_compound(status=10021), "minor version 0"),
        (_compound(status=77), "NFS error 77"),
        (_head(2) + struct.pack("!II", 3, 3), "speaks NFS version 3 to 3, not 4"),
        (_head(1), "is no NFS server"),
        (struct.pack("!III", 7, 1, 1), "rejects this host's credentials"),
        (_head()[:10], "a truncated answer"),
        (b"", "closed the connection"),
    ],
)
def test_what_a_server_refuses_is_reported_in_its_words(answer: bytes, words: str) -> None:
    found = ask(lambda _: answer)
    assert found["reachable"] is True
    assert found["visible"] is False
    assert words in str(found["error"])


def test_a_server_that_is_silent_costs_the_time_it_was_given() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        found = nfs4.ask("127.0.0.1", "/x", (1001,), 0.2, listener.getsockname()[1])
    assert found["error"] == "no answer in time"


def test_no_server_at_all() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    found = nfs4.ask("127.0.0.1", "/x", (1001,), 1, port)
    assert (found["reachable"], found["error"]) == (False, "connection refused")


def test_a_name_that_does_not_resolve() -> None:
    found = nfs4.ask("nobody.invalid", "/x", (1001,), 1)
    assert found["reachable"] is False
    assert found["error"]
