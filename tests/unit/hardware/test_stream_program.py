"""The program of a stream, run for real over loopback with small bounds."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.ssh.probing.archive import probe_archive
from appliance.model.checks.hardware.trials.stream import Side, read_side
from appliance.probe.inspection import stream

WORD = "5f" * 16


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("probe") / "probe.pyz"
    path.write_bytes(probe_archive())
    return path


def begun(archive: Path, role: str, port: int, **change: Any) -> subprocess.Popen[bytes]:
    told = {"role": role, "own": "127.0.0.1", "peer": "127.0.0.1", "port": port, "word": WORD,
            "seconds": 0.2, "most": 16 << 20, "among_pods": True, **change}  # fmt: skip
    argv = [sys.executable, "-I", "-S", str(archive), "--stream", json.dumps(told)]
    return subprocess.Popen(argv, stdout=subprocess.PIPE)


def ended(process: subprocess.Popen[bytes]) -> Side:
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    return read_side(out)


def test_bytes_go_both_ways_and_the_port_is_closed(archive: Path) -> None:
    port = free_port()
    serving = begun(archive, "serve", port)
    connecting = begun(archive, "connect", port)
    there, back = ended(connecting), ended(serving)
    assert (there.reason, back.reason) == (None, None)
    for one, other in ((there, back), (back, there)):
        assert one.sent_mbps
        assert one.sent_bytes == other.received_bytes
        assert 0 < (one.sent_bytes or 0) <= 16 << 20
        assert one.retransmitted is not None
        assert one.segments
    assert there.interface == "lo"
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=2)


def test_somebody_else_gets_nothing_and_disturbs_nothing(archive: Path) -> None:
    port = free_port()
    serving = begun(archive, "serve", port)
    for _ in range(200):
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=2) as foreign:
                foreign.sendall(b"GET / HTTP/1.0\r\n\r\n".ljust(len(WORD), b" "))
                assert foreign.recv(1) == b""
            break
        except ConnectionRefusedError:
            time.sleep(0.05)
    connecting = begun(archive, "connect", port)
    assert ended(connecting).reason is None
    assert ended(serving).foreign == 1


class Knocking:
    """A listener at which a stranger knocks at once, again and again."""

    def __init__(self) -> None:
        self.began = time.monotonic()

    def __enter__(self) -> Knocking:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is open."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None

    def accept(self) -> Any:
        assert time.monotonic() - self.began < 3, "the port stays open"
        time.sleep(0.001)
        return self, ("198.51.100.9", 1)


def test_strangers_that_come_without_end_do_not_keep_the_port_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stream, "WAIT_SECONDS", 0.2)
    monkeypatch.setattr(stream, "_socket", lambda _: Knocking())
    told = stream.Order("serve", "127.0.0.1", "127.0.0.1", 1, WORD, 0.2, 1 << 20)
    with pytest.raises(OSError, match="its partner did not connect within 0 s"):
        stream.serve(told)


def test_a_port_that_is_closed_is_told(archive: Path) -> None:
    assert (
        ended(begun(archive, "connect", free_port(), patience=0.3)).reason == "Connection refused"
    )


def test_a_partner_that_sends_too_much_is_cut_off(archive: Path) -> None:
    port = free_port()
    serving = begun(archive, "serve", port, most=2 << 20)
    connecting = begun(archive, "connect", port, most=512 << 20, seconds=3)
    assert ended(serving).reason == "the partner sent more than it was asked to"
    assert ended(connecting).reason


@contextmanager
def dripping(ready: bytes = b"") -> Iterator[socket.socket]:
    """A connection whose other side sends a byte now and then, and takes what comes."""
    ours, theirs = socket.socketpair()
    ended_by_us = threading.Event()

    def drip() -> None:
        theirs.sendall(ready)
        while not ended_by_us.wait(0.02):
            theirs.sendall(b"\1")

    def take() -> None:
        with suppress(OSError):
            while theirs.recv(1 << 20):
                pass

    for act in (drip, take):
        threading.Thread(target=act, daemon=True).start()
    with ours, theirs:
        ours.settimeout(3)
        yield ours
        ended_by_us.set()


@pytest.mark.parametrize("act", [stream.receive, stream.send])
def test_a_partner_that_sends_a_byte_now_and_then_is_given_its_time_and_no_more(
    monkeypatch: pytest.MonkeyPatch, act: Callable[..., Any]
) -> None:
    monkeypatch.setattr(stream, "GRACE_SECONDS", 0.02)
    told = stream.Order("serve", "127.0.0.1", "127.0.0.1", 1, WORD, 0.05, 4 << 20)
    began = time.monotonic()
    with dripping() as connection, pytest.raises(OSError, match="too few bytes in its time"):
        act(connection, told)
    assert time.monotonic() - began < 2


def test_a_stranger_that_says_its_word_slowly_does_not_keep_the_port() -> None:
    began = time.monotonic()
    with dripping() as connection:
        assert stream._is_partner(connection, WORD, began + 0.1) is False
    assert time.monotonic() - began < 2
