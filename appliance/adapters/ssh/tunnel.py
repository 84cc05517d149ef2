"""A loopback port that forwards through a node, with limits for the answers."""

from __future__ import annotations

import socket
import socketserver
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import paramiko

# To take a connection, a server needs no time: what does not is filtered, or has a full queue.
OPEN_SECONDS = 2.4
# Of one answer, counted from the last byte that was sent: the client's own limit is for each read,
# so a server that says a byte every few seconds would never meet it.
ANSWER_SECONDS = 60.0
ANSWER_BYTES = 256 * 1024 * 1024
_CHUNK = 65536


class NotTaken(Exception):
    """The far end of a tunnel does not take a connection."""


@contextmanager
def open_tunnel(
    transport: paramiko.Transport,
    host: str,
    port: int,
    *,
    seconds: float = ANSWER_SECONDS,
    most_bytes: int = ANSWER_BYTES,
) -> Iterator[int]:
    """A local port that leads to ``host:port``, as the machine behind ``transport`` reaches it.

    The first connection there is made before anybody asks for it.

    Raises:
        NotTaken: ``host:port`` does not take a connection.
    """
    ready = [_open(transport, host, port)]

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            without_delay(self.request)
            try:
                channel = _taken(ready) or _open(transport, host, port)
            except NotTaken:
                return
            _splice(self.request, channel, seconds, most_bytes)

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        allow_reuse_address = True
        # A client's threads connect in parallel; beyond this queue one would wait a second.
        request_queue_size = 128

    with ExitStack() as stack:
        stack.callback(_close, ready)
        server = stack.enter_context(Server(("127.0.0.1", 0), Handler))
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        stack.callback(server.shutdown)
        yield server.server_address[1]


def _open(transport: paramiko.Transport, host: str, port: int) -> paramiko.Channel:
    """A connection to ``host:port``.

    Raises:
        NotTaken: there is none.
    """
    began = time.monotonic()
    try:
        # The address of who asks is for the other side's log alone.
        return transport.open_channel(
            "direct-tcpip", (host, port), ("127.0.0.1", 0), timeout=OPEN_SECONDS
        )
    except Exception as error:
        # Paramiko raises again whatever ended its thread, were it a text that it cannot decode.
        late = time.monotonic() - began >= OPEN_SECONDS
        why = f"none within {OPEN_SECONDS:g} s" if late else getattr(error, "text", None)
        raise NotTaken(why or str(error)) from error


def _close(ready: list[paramiko.Channel]) -> None:
    for channel in ready:
        # The transport may have broken since; the far end closes with it.
        with suppress(Exception):
            channel.close()


def _taken(ready: list[paramiko.Channel]) -> paramiko.Channel | None:
    """The connection that was made before, unless the far end has closed it since."""
    try:
        channel = ready.pop()
    except IndexError:
        return None
    return None if channel.closed or channel.eof_received else channel


def without_delay(connection: object) -> None:
    """Disable Nagle's algorithm: small messages would each wait 40 ms for a delayed ACK."""
    # Through a jump host the connection is a process, not a socket.
    if isinstance(connection, socket.socket):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


class _Answer:
    """The bytes and the time since the client last sent something."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.received = 0


def _splice(
    client: socket.socket, channel: paramiko.Channel, seconds: float, most_bytes: int
) -> None:
    """Copy both ways until one side closes, or an answer exceeds a limit."""
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
            answer.received += len(data)
            if time.monotonic() - answer.began > seconds or answer.received > most_bytes:
                break
            client.sendall(data)
    with suppress(OSError):
        client.shutdown(socket.SHUT_RDWR)
    channel.close()
