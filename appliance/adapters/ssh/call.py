"""One command over one SSH connection, with one deadline and a size limit.

A node may be silent, send a byte a second, send without end, or close its outputs and never send an
exit status. In every case the call ends by its deadline. What must not be here: the choice of the
node and the connection to it (:mod:`appliance.adapters.ssh.nodes`).
"""

from __future__ import annotations

import codecs
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

# The largest expected answer has some hundred kilobytes: the records of a control plane, or a
# probe's document.
MOST_BYTES = 16 * 1024 * 1024
# Characters of a node's text in a message.
MOST_SHOWN = 200
_CHUNK = 65536


class CallFailed(Exception):
    """The call did not end normally; the text says why."""


class Flooded(CallFailed):
    """The output is larger than that of any honest machine."""


@dataclass(frozen=True)
class BeginLimits:
    """Seconds that the beginning of a command may take.

    Attributes:
        channel: until the server opens a channel.
        first_output: from then to the first byte of output.
    """

    channel: float
    first_output: float


@dataclass(frozen=True)
class Answer:
    """The result of a command on a node."""

    code: int
    output: str
    errors: str


def last_line(output: str) -> str:
    """The last line of a node's output, for a message; empty without output."""
    lines = output[-_CHUNK:].strip().splitlines()
    return lines[-1].strip()[:MOST_SHOWN] if lines else ""


@contextmanager
def ended_after(seconds: float, end: Callable[[], object]) -> Iterator[threading.Event]:
    """Call ``end`` if the block takes longer; the event says whether it did."""
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
    limits: BeginLimits,
) -> Answer:
    """Run a command; its output excludes text that the login shell printed before.

    The shell prints a mark before the command. A slow machine prints it at once, and then has
    ``seconds`` for the command; one that does not is not waited for as long as that.

    A timeout closes the connection: only this ends every wait.

    Raises:
        Flooded: the output is larger than :data:`MOST_BYTES`.
        CallFailed: the command did not end within ``seconds``, did not begin within
            ``limits``, or never began.
        OSError: the connection broke.
        EOFError: the connection broke.
        paramiko.SSHException: the connection broke.
    """
    began, mark = time.monotonic(), secrets.token_hex(8)
    with ended_after(seconds, transport.close) as expired:
        beginning = _FirstOutput(transport, limits.first_output)
        try:
            code, output, errors = _exchange(
                transport, _marked(command, mark), stdin, limits.channel, beginning
            )
        except Exception as error:
            if beginning.missed:
                raise CallFailed(
                    f"no output within {limits.first_output:g} s of the login"
                ) from error
            if expired.is_set():
                raise CallFailed(f"no complete answer within {seconds:g} s") from error
            raise
    if beginning.missed:
        raise CallFailed(_late(limits))
    # The exit status of a channel that we closed is invalid.
    if expired.is_set() or time.monotonic() - began > seconds:
        raise CallFailed(f"no complete answer within {seconds:g} s")
    return _answer(code, output, errors, mark)


def follow(  # noqa: PLR0913 - every limit is a keyword
    transport: paramiko.Transport,
    command: str,
    stdin: bytes = b"",
    *,
    seconds: float,
    limits: BeginLimits,
    on_text: Callable[[str], None],
) -> int:
    """Run a command and pass on its output as it comes; nothing of it is kept.

    What the login shell printed before the command is left out, as in :func:`call`.

    Args:
        transport: the connection.
        command: for the node's shell; both of its outputs are read.
        stdin: its standard input.
        seconds: after which the connection is closed.
        limits: of the beginning.
        on_text: called with each piece of output.

    Returns:
        The exit status.

    Raises:
        CallFailed: the command did not begin within ``limits``, or never began.
        OSError: the connection broke.
        EOFError: the connection broke.
        paramiko.SSHException: the connection broke.
    """
    mark = secrets.token_hex(8)
    with ended_after(seconds, transport.close):
        channel = transport.open_session(timeout=limits.channel)
        channel.set_combine_stderr(True)
        with ended_after(limits.first_output, transport.close) as late:
            try:
                channel.exec_command(_marked(command, mark))
                with suppress(OSError):
                    channel.sendall(stdin)
                    channel.shutdown_write()
                rest = _past(channel, b"\n" + mark.encode() + b"\n")
            except Exception as error:
                if late.is_set():
                    raise CallFailed(_late(limits)) from error
                raise
        if late.is_set():
            raise CallFailed(_late(limits))
        if rest is None:
            raise CallFailed("the login shell did not run the command")
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        on_text(decoder.decode(rest))
        while chunk := channel.recv(_CHUNK):
            on_text(decoder.decode(chunk))
        channel.status_event.wait(limits.first_output)
        return channel.exit_status


def _past(channel: paramiko.Channel, mark: bytes) -> bytes | None:
    """What has come after the mark; None where the output ends, or never has it."""
    seen = b""
    while mark not in seen:
        chunk = channel.recv(_CHUNK)
        if not chunk or len(seen) > MOST_BYTES:
            return None
        seen += chunk
    return seen.partition(mark)[2]


def _late(limits: BeginLimits) -> str:
    return f"no output within {limits.first_output:g} s of the login"


class _FirstOutput:
    """The first byte of a command's output; without it in time, the connection is closed."""

    def __init__(self, transport: paramiko.Transport, seconds: float) -> None:
        self._transport = transport
        self._seconds = seconds
        self._heard = False
        self.missed = False

    @contextmanager
    def awaited(self, channel: paramiko.Channel) -> Iterator[Callable[[int], bytes]]:
        """Yield a function that reads output of the channel, from which the first byte counts."""

        def read(size: int) -> bytes:
            chunk = channel.recv(size)
            # An end without output is an answer, too.
            self._heard = True
            return chunk

        def end() -> None:
            # What has arrived may not have been read, while input is still being sent.
            if not (self._heard or channel.recv_ready() or channel.eof_received):
                self.missed = True
                self._transport.close()

        with ended_after(self._seconds, end):
            yield read


def _exchange(
    transport: paramiko.Transport,
    command: str,
    stdin: bytes,
    connect_seconds: float,
    beginning: _FirstOutput,
) -> tuple[int, bytes, bytes]:
    channel = transport.open_session(timeout=connect_seconds)
    errors: list[bytes | Exception] = []

    def read_errors() -> None:
        try:
            errors.append(_all_of(channel.recv_stderr))
        except Exception as error:
            # Both outputs share one window, and this one is no longer read.
            errors.append(error)
            channel.close()

    try:
        channel.exec_command(command)
        reader = threading.Thread(target=read_errors, daemon=True)
        reader.start()
        # A program that reads no input may end before it is sent; its output counts.
        with beginning.awaited(channel) as read:
            with suppress(OSError):
                channel.sendall(stdin)
                channel.shutdown_write()
            output = _all_of(read)
        reader.join()
        (stderr,) = errors
        if isinstance(stderr, Exception):
            raise stderr
        channel.status_event.wait()
        if channel.exit_status < 0 and not transport.is_active():
            # Another call of the same connection may have ended it: that is no answer of the node.
            raise EOFError("it ended before the command did")
        return channel.exit_status, output, stderr
    finally:
        with suppress(Exception):
            channel.close()


def _all_of(read: Callable[[int], bytes]) -> bytes:
    """All bytes until the other side closes; the deadline closes it, too."""
    content = bytearray()
    while chunk := read(_CHUNK):
        content += chunk
        if len(content) > MOST_BYTES:
            raise Flooded(f"the output is larger than {MOST_BYTES // 1024} KiB")
    return bytes(content)


def _marked(command: str, mark: str) -> str:
    return f"printf '\\n%s\\n' {shlex.quote(mark)}; {command}"


def _answer(code: int, output: bytes, errors: bytes, mark: str) -> Answer:
    """The answer without text that the shell's start files printed before the mark."""
    before, separator, after = output.partition(b"\n" + mark.encode() + b"\n")
    if not separator and code == 0:
        raise CallFailed("the login shell did not run the command")
    text = after if separator else before
    return Answer(code, text.decode(errors="replace"), errors.decode(errors="replace"))
