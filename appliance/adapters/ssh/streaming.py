"""Bytes to and from a command on a node, as a stream: no answer is held in memory.

A node may be silent, send a byte now and then, or close its outputs and never send an exit status:
silence has a limit, all of it has one, and so has the time for each byte
(:mod:`appliance.adapters.ssh.pace`). What must not be here: the choice of the node.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from appliance.adapters.ssh.call import CallFailed, ended_after, last_line
from appliance.adapters.ssh.pace import Pace

if TYPE_CHECKING:
    import paramiko

_CHUNK: Final = 1 << 18
_MOST_BEFORE: Final = 1 << 20
_MOST_ERRORS: Final = 1 << 16
_CHANNEL_SECONDS: Final = 20.0
# What a node says while it is at work.
_BEAT: Final = b"\n"


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
