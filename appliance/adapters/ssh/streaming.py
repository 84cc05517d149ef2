"""Bytes to and from a command on a node, as a stream: no answer is held in memory.

A node may be silent, send a byte now and then, or close its outputs and never send an exit status:
silence has a limit, all of it has one, and so has the time for each byte. Only the time in which
the node is waited for counts, not what this machine does between two pieces. What must not be here:
the choice of the node.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from appliance.adapters.ssh.call import CallFailed, ended_after, last_line

if TYPE_CHECKING:
    import paramiko

_CHUNK: Final = 1 << 18
_MOST_BEFORE: Final = 1 << 20
_MOST_ERRORS: Final = 1 << 16
_CHANNEL_SECONDS: Final = 20.0
# What a node says while it is at work.
_BEAT: Final = b"\n"
# Of nodes that share a slow line, each: 1 Mbit/s.
LEAST_BYTES_A_SECOND: Final = 128 * 1024
# Beside that, for a transfer whose first byte has come.
BEGUN_SECONDS: Final = 60.0
# Before that, where the command says nothing else.
WORK_SECONDS: Final = 900.0


def seconds_for(size: int) -> float:
    """The longest that so many bytes may take."""
    return BEGUN_SECONDS + size / LEAST_BYTES_A_SECOND


class Pace:
    """What one exchange has moved, and how long its node was waited for.

    Args:
        work_seconds: what the node may take before the first byte of its answer, beside the time
            of the bytes that it is sent.
        clock: seconds that never go back.
    """

    def __init__(self, work_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._spare = work_seconds
        self._clock = clock
        self._moved = 0
        self._waited = 0.0
        self._has_begun = False

    def moved(self, size: int) -> None:
        """So many bytes went to the node, or came from it."""
        self._moved += size

    def begun(self) -> None:
        """Its answer begins: from now on only the bytes count."""
        if not self._has_begun:
            self._has_begun, self._spare = True, BEGUN_SECONDS
            self._moved, self._waited = 0, 0.0

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """The node is waited for."""
        began = self._clock()
        try:
            yield
        finally:
            self._waited += self._clock() - began

    @property
    def is_over(self) -> bool:
        """Whether the node is too slow."""
        return self._waited > self._spare + self._moved / LEAST_BYTES_A_SECOND

    def sentence(self) -> str:
        """Why it is ended, in words."""
        rate = LEAST_BYTES_A_SECOND // 1024
        if not self._has_begun:
            return f"it was at work for {self._waited:.0f} s, and sent no answer"
        return (
            f"it moved {self._moved} bytes in {self._waited:.0f} s, expected {rate} KiB a second "
            "at least: see its load and the line to it"
        )


class Exchange:
    """A command that runs on a node: its input is fed, its output is read, both piece by piece.

    Args:
        transport: the connection; it is closed where the time is over.
        command: for the node's shell.
        pieces: its standard input.
        silence_seconds: how long nothing may come.
        pace: how long its bytes may take.
    """

    def __init__(
        self,
        transport: paramiko.Transport,
        command: str,
        pieces: Iterable[bytes],
        silence_seconds: float,
        pace: Pace,
    ) -> None:
        mark = secrets.token_hex(8)
        self._mark = b"\n" + mark.encode() + b"\n"
        self._errors = bytearray()
        self._feeding: Exception | None = None
        self._transport = transport
        self._pace = pace
        self._channel = transport.open_session(timeout=_CHANNEL_SECONDS)
        self._channel.settimeout(silence_seconds)
        self._channel.exec_command(f"printf '\\n%s\\n' {mark}; {command}")
        threads = (
            threading.Thread(target=self._feed, args=(pieces,), daemon=True),
            threading.Thread(target=self._listen, daemon=True),
        )
        for thread in threads:
            thread.start()
        self._feeder, self._listener = threads

    def output(self, seconds: float) -> Iterator[bytes]:
        """Yield what comes, without what the login shell printed before.

        Raises:
            CallFailed: it was silent for too long, too slow, took too long in all, or ended with an
                error.
            OSError, EOFError, paramiko.SSHException: the connection broke.
        """
        with ended_after(seconds, self._transport.close) as late:
            yield self._past_the_mark()
            while piece := self._next():
                yield piece
            if late.is_set():
                raise CallFailed(f"it did not end within {seconds:g} s")
            self._require_success()

    def close(self) -> None:
        """End it."""
        with suppress(Exception):
            self._channel.close()

    def _past_the_mark(self) -> bytes:
        seen = b""
        while self._mark not in seen:
            piece = self._received()
            if not piece or len(seen) > _MOST_BEFORE:
                raise CallFailed("the login shell did not run the command")
            seen += piece
        rest = seen.partition(self._mark)[2]
        self._judge(rest)
        return rest

    def _next(self) -> bytes:
        piece = self._received()
        self._judge(piece)
        return piece

    def _judge(self, piece: bytes) -> None:
        """Let a piece of the answer count; what says that the node is at work does not."""
        if piece.strip(_BEAT):
            self._pace.begun()
        self._pace.moved(len(piece))

    def _received(self) -> bytes:
        """What comes next; empty at the end.

        Raises:
            CallFailed: nothing came for too long, or the node is too slow.
        """
        try:
            with self._pace.waiting():
                piece: bytes = self._channel.recv(_CHUNK)
        except TimeoutError as error:
            raise CallFailed("the node was silent for too long") from error
        if piece and self._pace.is_over:
            raise CallFailed(self._pace.sentence())
        return piece

    def _require_success(self) -> None:
        self._feeder.join(5)
        self._listener.join(5)
        if self._feeding is not None:
            raise CallFailed(f"what it should read was not sent: {self._feeding}")
        if not self._channel.status_event.wait(_CHANNEL_SECONDS):
            raise CallFailed("it ended without an exit status")
        if self._channel.exit_status != 0:
            said = last_line(bytes(self._errors).decode(errors="replace"))
            raise CallFailed(said or f"exit code {self._channel.exit_status}")

    def _feed(self, pieces: Iterable[bytes]) -> None:
        try:
            for piece in pieces:
                try:
                    self._channel.sendall(piece)
                    self._pace.moved(len(piece))
                except OSError:
                    # A program that reads no input may end before it is sent; its end says why.
                    return
            with suppress(OSError):
                self._channel.shutdown_write()
        except Exception as error:
            self._feeding = error
            self.close()

    def _listen(self) -> None:
        with suppress(Exception):
            while piece := self._channel.recv_stderr(_CHUNK):
                self._errors += piece[: _MOST_ERRORS - len(self._errors)]
