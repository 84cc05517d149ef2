"""A port of this machine's loopback that leads through a node, with limits on what comes back."""

from __future__ import annotations

import socket
import socketserver
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import paramiko

OPEN_SECONDS = 10
# Of one answer, counted from the last byte that was sent: the client's own limit is for each read,
# so a server that says a byte every few seconds would never meet it.
ANSWER_SECONDS = 60.0
ANSWER_BYTES = 256 * 1024 * 1024
_CHUNK = 65536


@contextmanager
def open_tunnel(
    transport: paramiko.Transport,
    host: str,
    port: int,
    *,
    seconds: float = ANSWER_SECONDS,
    most_bytes: int = ANSWER_BYTES,
) -> Iterator[int]:
    """A local port that leads to ``host:port``, as the machine behind ``transport`` reaches it."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            without_delay(self.request)
            try:
                channel = transport.open_channel(
                    "direct-tcpip",
                    (host, port),
                    self.request.getpeername(),
                    timeout=OPEN_SECONDS,
                )
            except Exception:
                return
            _splice(self.request, channel, seconds, most_bytes)

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        allow_reuse_address = True
        # A client's threads connect at the same time; of too many one waits a second.
        request_queue_size = 128

    with Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()


def without_delay(connection: object) -> None:
    """Small questions and answers would each wait 40 ms for the other side's delayed ACK."""
    # The way through a jump host is a process, and no socket.
    if isinstance(connection, socket.socket):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


class _Answer:
    """How much has come, and for how long, since the client last said something."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.taken = 0


def _splice(
    client: socket.socket, channel: paramiko.Channel, seconds: float, most_bytes: int
) -> None:
    """Copy both ways until one side closes, or an answer passes a limit."""
    answer = _Answer()

    def up() -> None:
        nonlocal answer
        with suppress(OSError, EOFError):
            while data := client.recv(_CHUNK):
                answer = _Answer()
                channel.sendall(data)
        with suppress(OSError, EOFError):
            channel.shutdown_write()

    thread = threading.Thread(target=up, daemon=True)
    thread.start()
    with suppress(OSError, EOFError):
        while data := channel.recv(_CHUNK):
            answer.taken += len(data)
            if time.monotonic() - answer.began > seconds or answer.taken > most_bytes:
                break
            client.sendall(data)
    with suppress(OSError):
        client.shutdown(socket.SHUT_RDWR)
    channel.close()
