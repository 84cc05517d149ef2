"""A small HTTP server for the length of one command: listed files, and reports of installers.

It answers on one address alone. What is not listed does not exist; nothing is a path of this
machine. Whoever asks is a stranger: connections, times, bytes and reports have limits.
"""

from __future__ import annotations

import contextlib
import io
import re
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any, BinaryIO, Final, Self

from appliance.errors import ConfigError
from appliance.model.documents.strict_json import Unreadable
from appliance.model.node.imaging.reports import MOST_BYTES, Heard, Report, read_report
from appliance.model.node.imaging.seed import TOKEN, Server

# Virtual media are read in pieces by many BMCs at once, each with some connections.
MOST_CONNECTIONS: Final = 128
# One stranger may not hold them all.
MOST_OF_ONE_ADDRESS: Final = MOST_CONNECTIONS // 2
# In which a request is there whole, with its headers and its report; else its connection ends.
SILENCE_SECONDS: Final = 30.0
MOST_REQUEST_BYTES: Final = 64 << 10
MOST_REPORTS: Final = 5000
MOST_STRANGERS: Final = 1000
_PIECE: Final = 256 << 10
_RANGE: Final = re.compile(r"bytes=(\d{0,19})-(\d{0,19})")
_REPORT: Final = "/report/"


@dataclass(frozen=True)
class Content:
    """What is served under one path: a file, or a short text."""

    file: Path | None = None
    text: bytes = b""
    kind: str = "application/octet-stream"

    def size(self) -> int:
        """In bytes.

        Raises:
            OSError: the file is gone.
        """
        return len(self.text) if self.file is None else self.file.stat().st_size


@dataclass
class Reports:
    """What was reported under each token; other tokens are nobody's."""

    names: Mapping[str, str]
    on_report: Callable[[str, Report], None] = lambda _name, _report: None
    _heard: dict[str, Heard] = field(default_factory=dict)
    _counts: dict[str, int] = field(default_factory=dict)
    _strange: dict[str, int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, token: str, content: bytes, sender: str = "") -> HTTPStatus:
        """Take one report; the status that its sender is told.

        One with a token of another run says nothing of a server but that it came from there.
        """
        name = self.names.get(token)
        if name is None:
            with self._lock:
                if sender in self._strange or len(self._strange) < MOST_STRANGERS:
                    self._strange[sender] = self._strange.get(sender, 0) + 1
            return HTTPStatus.NOT_FOUND
        try:
            report = read_report(content)
        except Unreadable:
            return HTTPStatus.BAD_REQUEST
        with self._lock:
            self._counts[token] = self._counts.get(token, 0) + 1
            # The last word is heard however much was said before.
            if report.kind == "progress" and self._counts[token] > MOST_REPORTS:
                return HTTPStatus.TOO_MANY_REQUESTS
            self._heard[name] = self._heard.get(name, Heard()).and_then(report)
        self.on_report(name, report)
        return HTTPStatus.NO_CONTENT

    def strange(self, address: str) -> int:
        """How many reports with a token of another run came from an address."""
        with self._lock:
            return self._strange.get(address, 0)

    def of(self, name: str) -> Heard:
        """All that a node reported so far."""
        with self._lock:
            return self._heard.get(name, Heard())


class SeedServer:
    """The server; it runs between ``with`` and the end of the block.

    Args:
        address: of this machine, the only one that it listens on.
        port: 0 for any that is free.
        reports: who may report.

    Raises:
        ConfigError: on entry, the address is not this machine's, or the port is taken.
    """

    def __init__(self, address: IPv4Address, port: int, reports: Reports) -> None:
        self._where = (str(address), port)
        self.reports = reports
        self.contents: dict[str, Content] = {}
        self._http: _Http | None = None

    def __enter__(self) -> Self:
        """Listen."""
        try:
            self._http = _Http(self._where, self)
        except OSError as error:
            address, port = self._where
            raise ConfigError(
                f"cannot serve on {address}:{port}: {error.strerror}",
                hint="name an address of this machine that the servers reach: ip -br address",
            ) from error
        threading.Thread(target=self._http.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        """Stop listening; connections that are open end with the process."""
        if self._http is not None:
            self._http.shutdown()
            self._http.server_close()

    @property
    def server(self) -> Server:
        """Where it listens.

        Raises:
            AssertionError: it does not.
        """
        if self._http is None:
            raise AssertionError("not listening")
        return Server(IPv4Address(self._where[0]), self._http.server_address[1])

    def publish(self, path: str, content: Content) -> None:
        """Serve something from now on, under a path that begins with a slash."""
        self.contents[path] = content


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    # Strangers hold no connection of the next command.
    block_on_close = False
    request_queue_size = 64

    def __init__(self, where: tuple[str, int], owner: SeedServer) -> None:
        self.owner = owner
        self._open: dict[str, int] = {}
        self._lock = threading.Lock()
        super().__init__(where, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start a thread for a connection, unless there are too many."""
        address = client_address[0]
        with self._lock:
            mine, every = self._open.get(address, 0), sum(self._open.values())
            taken = mine < MOST_OF_ONE_ADDRESS and every < MOST_CONNECTIONS
            if taken:
                self._open[address] = mine + 1
        if not taken:
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except RuntimeError:
            # No thread is left.
            self._is_over(address)
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer one connection."""
        try:
            self.finish_request(request, client_address)
        except OSError:
            self.handle_error(request, client_address)
        finally:
            # Before its end is seen: who waits for it may then connect.
            self._is_over(client_address[0])
            self.shutdown_request(request)

    def _is_over(self, address: str) -> None:
        with self._lock:
            self._open[address] -= 1
            if not self._open[address]:
                del self._open[address]

    def handle_error(self, request: object, client_address: object) -> None:
        """A connection that broke off is its sender's affair."""


class _Request(io.RawIOBase):
    """What one request sends, within so many seconds and bytes: a byte now and then is not enough.

    Args:
        connection: that is read from.
        seconds: for each request.
    """

    def __init__(self, connection: socket.socket, seconds: float) -> None:
        self._connection, self._seconds = connection, seconds
        self._end, self._left = 0.0, 0

    def renew(self) -> None:
        """Begin with the next request."""
        self._end = time.monotonic() + self._seconds
        self._left = MOST_REQUEST_BYTES

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read what is there.

        Raises:
            TimeoutError: the request's time or bytes are over.
        """
        seconds = self._end - time.monotonic()
        if seconds <= 0 or self._left <= 0:
            raise TimeoutError("the request does not end")
        self._connection.settimeout(seconds)
        try:
            count = self._connection.recv_into(memoryview(buffer)[: self._left])
        finally:
            self._connection.settimeout(self._seconds)
        self._left -= count
        return count


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "appliance", ""
    timeout = SILENCE_SECONDS
    server: _Http

    def setup(self) -> None:
        """Read by our limits."""
        super().setup()
        self.rfile.close()
        self._request = _Request(self.connection, self.timeout)
        self.rfile = io.BufferedReader(self._request)

    def handle_one_request(self) -> None:
        """Answer one request of a connection."""
        self._request.renew()
        super().handle_one_request()

    def log_message(self, *_words: object) -> None:
        """The command's own view says what was reported."""

    def do_HEAD(self) -> None:
        """Headers of a listed file."""
        self._file(send=False)

    def do_GET(self) -> None:
        """A listed file, or one range of it."""
        self._file(send=True)

    def do_POST(self) -> None:
        """A report."""
        self.close_connection = True
        token = self.path.removeprefix(_REPORT)
        length = self.headers.get("Content-Length", "")
        if not self.path.startswith(_REPORT) or not TOKEN.fullmatch(token):
            self._say(HTTPStatus.NOT_FOUND)
        elif not length.isascii() or not length.isdigit():
            self._say(HTTPStatus.LENGTH_REQUIRED)
        elif len(length) > 7 or int(length) > MOST_BYTES:
            self._say(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        else:
            content = self.rfile.read(int(length))
            self._say(self.server.owner.reports.take(token, content, self.client_address[0]))

    def _say(self, status: HTTPStatus) -> None:
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _file(self, *, send: bool) -> None:
        content = self.server.owner.contents.get(self.path.partition("?")[0])
        if content is None:
            self._say(HTTPStatus.NOT_FOUND)
            return
        try:
            size = content.size()
        except OSError:
            self._say(HTTPStatus.GONE)
            return
        span = span_of(self.headers.get("Range"), size)
        if span is None:
            self.send_response(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE)
            self.send_header("Content-Range", f"bytes */{size}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        first, last = span
        whole = last - first + 1 == size
        self.send_response(HTTPStatus.OK if whole else HTTPStatus.PARTIAL_CONTENT)
        self.send_header("Content-Type", content.kind)
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(last - first + 1))
        if not whole:
            self.send_header("Content-Range", f"bytes {first}-{last}/{size}")
        self.end_headers()
        if send:
            self._send(content, first, last)

    def _send(self, content: Content, first: int, last: int) -> None:
        if content.file is None:
            self.wfile.write(content.text[first : last + 1])
            return
        with contextlib.suppress(socket.error), content.file.open("rb") as file:
            file.seek(first)
            _copy(file, self.wfile, last - first + 1)


def _copy(file: BinaryIO, to: Any, left: int) -> None:
    while left > 0:
        piece = file.read(min(left, _PIECE))
        if not piece:
            return
        to.write(piece)
        left -= len(piece)


def span_of(header: str | None, size: int) -> tuple[int, int] | None:
    """First and last byte that a Range header asks for; None where there is no such part.

    Another header than one range of bytes asks for the whole file (RFC 9110, section 14.2).
    """
    found = _RANGE.fullmatch(header.strip()) if header else None
    if found is None or not (found[1] or found[2]):
        return (0, size - 1)
    if not found[1]:
        length = min(int(found[2]), size)
        return (size - length, size - 1) if length else None
    first = int(found[1])
    last = min(int(found[2]), size - 1) if found[2] else size - 1
    if found[2] and int(found[2]) < first:
        return (0, size - 1)
    return (first, last) if first < size else None
