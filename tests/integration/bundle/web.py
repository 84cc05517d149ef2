"""A small web server of a test: files with ranges, and an image registry with tokens."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Web:
    """What is served, and what was asked for.

    Attributes:
        pages: path -> (content type, content).
        cut_after: bytes after which the next answer breaks off.
        stall_after: bytes after which the next answer waits for ``resume``.
        token: what a request must carry, when set.
        etags: path -> the validator of its content.
        realm: where a token is given, when it is not here.
    """

    base: str = ""
    pages: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    ranges: list[str] = field(default_factory=list)
    cut_after: int | None = None
    stall_after: int | None = None
    resume: threading.Event = field(default_factory=threading.Event)
    token: str = ""
    etags: dict[str, str] = field(default_factory=dict)
    realm: str = ""


class _Handler(BaseHTTPRequestHandler):
    web: Web

    def do_HEAD(self) -> None:
        self.send_response(200)
        self.end_headers()

    def do_GET(self) -> None:
        web = self.web
        web.asked.append(self.path)
        if self.path.startswith("/token"):
            self._answer(200, "application/json", f'{{"token":"{web.token}"}}'.encode())
        elif web.token and self.headers.get("Authorization") != f"Bearer {web.token}":
            self.send_response(401)
            challenge = f'Bearer realm="{web.realm or web.base + "/token"}",service="test"'
            self.send_header("WWW-Authenticate", challenge)
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif self.path not in web.pages:
            self._answer(404, "text/plain", b"no")
        else:
            self._page(*web.pages[self.path])

    def _page(self, kind: str, content: bytes) -> None:
        asked = self.headers.get("Range", "")
        expected = self.headers.get("If-Range")
        if not asked or expected not in (None, self.web.etags.get(self.path)):
            self._answer(200, kind, content)
            return
        self.web.ranges.append(asked)
        start = int(asked.removeprefix("bytes=").rstrip("-"))
        if start < len(content):
            self._answer(206, kind, content[start:])
        else:
            self._answer(416, kind, b"")

    def _answer(self, status: int, kind: str, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        if etag := self.web.etags.get(self.path):
            self.send_header("ETag", etag)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        cut, self.web.cut_after = self.web.cut_after, None
        stall, self.web.stall_after = self.web.stall_after, None
        if stall is not None:
            self.wfile.write(content[:stall])
            self.web.resume.wait(30)
            self.close_connection = True
            return
        self.wfile.write(content if cut is None else content[:cut])
        self.close_connection = cut is not None

    def log_message(self, *_arguments: object) -> None:
        pass


@contextmanager
def serving() -> Iterator[Web]:
    """Serve until the block ends."""
    web = Web()
    handler = type("Handler", (_Handler,), {"web": web})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    web.base = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield web
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
