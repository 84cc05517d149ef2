"""A node that sends, or takes, bytes now and then ends a stream long before its last limit."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import paramiko
import pytest

from appliance.adapters.ssh import streaming
from appliance.adapters.ssh.nodes import SshNodes
from appliance.adapters.ssh.streaming import LEAST_BYTES_A_SECOND, Pace, seconds_for
from appliance.errors import NodeUnreachable
from tests import samples
from tests.ssh_server import Behaviour, Servers, mark_of, servers

SITE = samples.site(workers=0)
MB = 1 << 20
# What happens, in order: a wait of so many seconds, bytes that moved, or the answer's first byte.
CASES: dict[str, tuple[list[float | str], bool]] = {
    "at work, within its time": ([890, "begun"], False),
    "at work for too long": ([890, 20], True),
    "words while it is at work buy no time": ([450, 100, 451], True),
    "it is sent a gigabyte on a slow line": ([1000, 900 * MB, 5000], False),
    "it is sent nothing": ([1000], True),
    "a whole answer at half a megabyte a second": (["begun", 600 * MB, 1200], False),
    "a byte a second": (["begun", *[1, 1] * 61], True),
    "what it was sent before does not count for the answer": (
        [100 * MB, "begun", 61],
        True,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_transfer_may_take_as_long_as_its_bytes_need(case: str) -> None:
    acts, is_over = CASES[case]
    now = [0.0]
    of_one = Pace(900.0, lambda: now[0])
    for number, act in enumerate(acts):
        if act == "begun":
            of_one.begun()
        elif isinstance(act, int) and (act >= MB or (case == "a byte a second" and number % 2)):
            of_one.moved(act)
        else:
            assert not isinstance(act, str)
            with of_one.waiting():
                now[0] += act
            now[0] += 10_000  # what this machine does meanwhile
    assert of_one.is_over is is_over


def test_the_time_for_a_piece_grows_with_its_size() -> None:
    assert seconds_for(0) == streaming.BEGUN_SECONDS
    assert seconds_for(8 * MB) == streaming.BEGUN_SECONDS + 8 * MB / LEAST_BYTES_A_SECOND


@pytest.fixture
def rack(tmp_path: Path) -> Iterator[Servers]:
    with servers(tmp_path) as made:
        yield made


def says_only(beat: bytes, *first: bytes) -> Behaviour:
    def behave(channel: paramiko.Channel, command: str) -> None:
        channel.sendall(mark_of(command) + b"".join(first))
        while True:
            channel.sendall(beat)
            time.sleep(0.05)

    return behave


def read(rack: Servers, behaviour: Behaviour, **limits: float) -> bytes:
    site = rack.serve(SITE, {"cp1": behaviour})
    how = {"silence": 20.0, "seconds": 20.0, "work": 0.5} | limits
    with SshNodes(site).stream_as_root(site.nodes[0], "true", [b"in"], **how) as pieces:
        return b"".join(pieces)


def test_a_node_that_says_for_ever_that_it_is_at_work_is_ended(rack: Servers) -> None:
    began = time.monotonic()
    with pytest.raises(NodeUnreachable, match=r"cp1: .*at work for .* s, and sent no answer"):
        read(rack, says_only(b"\n"))
    assert time.monotonic() - began < 15


@pytest.mark.parametrize("first", [b"", b'{"parts": []}\n'])
def test_a_node_that_drips_is_ended(
    rack: Servers, monkeypatch: pytest.MonkeyPatch, first: bytes
) -> None:
    monkeypatch.setattr(streaming, "BEGUN_SECONDS", 0.5)
    began = time.monotonic()
    with pytest.raises(NodeUnreachable, match=r"cp1: .*expected 128 KiB a second") as caught:
        read(rack, says_only(b" ", first))
    assert time.monotonic() - began < 15
    assert "uptime" in (caught.value.hint or "")


def test_a_node_that_works_a_while_and_then_sends_is_read(rack: Servers) -> None:
    def works(channel: paramiko.Channel, command: str) -> None:
        channel.sendall(mark_of(command))
        for _ in range(6):
            channel.sendall(b"\n")
            time.sleep(0.05)
        channel.sendall(b"x" * MB)
        channel.send_exit_status(0)

    assert read(rack, works, work=10.0).strip(b"\n") == b"x" * MB
