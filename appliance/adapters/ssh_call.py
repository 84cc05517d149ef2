"""One command over one SSH connection: one deadline for all of it, and a cap on what it says.

A node is not trusted to end: it may be silent, say a byte a second, talk for ever, or close its
outputs and never send an exit status. Whatever it does, the call ends by its deadline. What must
not be here: which node is meant and how it is reached (:mod:`appliance.adapters.ssh`).
"""

from __future__ import annotations

import secrets
import shlex
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import paramiko

# The largest answer that is meant is some hundred kilobytes: what a control plane keeps of its
# members, or a probe's document.
MOST_BYTES = 16 * 1024 * 1024
# Of what a node says, in a message about it.
MOST_SHOWN = 200
_CHUNK = 65536


class CallFailed(Exception):
    """The call did not end as a command does; the text says how."""


class Flooded(CallFailed):
    """It said more than any honest machine does."""


@dataclass(frozen=True)
class Answer:
    """What a command on a node returned."""

    code: int
    output: str
    errors: str


def last_line(said: str) -> str:
    """The end of what a node says, for a message; empty when it says nothing."""
    lines = said[-_CHUNK:].strip().splitlines()
    return lines[-1].strip()[:MOST_SHOWN] if lines else ""


@contextmanager
def ended_after(seconds: float, end: Callable[[], object]) -> Iterator[threading.Event]:
    """Call ``end`` when the block takes longer; the event says whether it did."""
    expired = threading.Event()

    def expire() -> None:
        expired.set()
        with suppress(Exception):
            end()

    timer = threading.Timer(seconds, expire)
    timer.daemon = True
    timer.start()
    try:
        yield expired
    finally:
        timer.cancel()


def call(
    transport: paramiko.Transport,
    command: str,
    stdin: bytes = b"",
    *,
    seconds: float,
    connect_seconds: float,
) -> Answer:
    """Run a command; what the login shell prints before it begins is not part of its output.

    A call that does not end in time ends the connection: nothing less frees every wait in it.

    Raises:
        Flooded: it said more than :data:`MOST_BYTES`.
        CallFailed: it did not end within ``seconds``, or never began.
        OSError: the connection broke off.
        EOFError: the same.
        paramiko.SSHException: the same.
    """
    began, mark = time.monotonic(), secrets.token_hex(8)
    with ended_after(seconds, transport.close) as expired:
        try:
            code, output, errors = _exchange(
                transport, _marked(command, mark), stdin, connect_seconds
            )
        except Exception as error:
            if expired.is_set():
                raise CallFailed(f"no whole answer within {seconds:g} s") from error
            raise
    # The status of a channel that was closed by us is no status.
    if expired.is_set() or time.monotonic() - began > seconds:
        raise CallFailed(f"no whole answer within {seconds:g} s")
    return _answer(code, output, errors, mark)


def _exchange(
    transport: paramiko.Transport,
    command: str,
    stdin: bytes,
    connect_seconds: float,
) -> tuple[int, bytes, bytes]:
    channel = transport.open_session(timeout=connect_seconds)
    errors: list[bytes | Exception] = []

    def read_errors() -> None:
        try:
            errors.append(_all_of(channel.recv_stderr))
        except Exception as error:
            # Both outputs share one window: nobody reads this one any more.
            errors.append(error)
            channel.close()

    try:
        channel.exec_command(command)
        reader = threading.Thread(target=read_errors, daemon=True)
        reader.start()
        # A program that takes no input may end before it is sent; what it says is what counts.
        with suppress(OSError):
            channel.sendall(stdin)
            channel.shutdown_write()
        output = _all_of(channel.recv)
        reader.join()
        (said,) = errors
        if isinstance(said, Exception):
            raise said
        channel.status_event.wait()
        return channel.exit_status, output, said
    finally:
        with suppress(Exception):
            channel.close()


def _all_of(read: Callable[[int], bytes]) -> bytes:
    """Everything until the other side closes; the deadline closes it, too."""
    found = bytearray()
    while chunk := read(_CHUNK):
        found += chunk
        if len(found) > MOST_BYTES:
            raise Flooded(f"it said more than {MOST_BYTES // 1024} KiB")
    return bytes(found)


def _marked(command: str, mark: str) -> str:
    return f"printf '\\n%s\\n' {shlex.quote(mark)}; {command}"


def _answer(code: int, output: bytes, errors: bytes, mark: str) -> Answer:
    """The answer without what a shell's start files printed before the mark."""
    before, found, after = output.partition(b"\n" + mark.encode() + b"\n")
    if not found and code == 0:
        raise CallFailed("its login shell did not run the command")
    said = after if found else before
    return Answer(code, said.decode(errors="replace"), errors.decode(errors="replace"))
