"""An S3-compatible server on loopback (moto), which does what a test says: works, lies or hangs."""

from __future__ import annotations

import io
import threading
import time
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler, make_server

from appliance.model.site.recovery.backup_s3 import S3

BUCKET = "backups"


@dataclass
class Answer:
    """What the server says in place of the real one to a request, once or always.

    Attributes:
        method: of the requests that it is for.
        code: of S3, for an error; empty: the real answer, changed.
        status: of an error.
        times: how often; -1: always.
        where: a part of the path or of the query that the request has.
        cut: bytes of the body that are kept back.
        flips: turns a bit of the body.
        etag: in place of the real one.
        hangs: seconds before the answer.
        drips: seconds between bytes of the body.
        huge: the body is this many bytes longer.
        packed: it says that the body is packed; it is not.
    """

    method: str
    code: str = ""
    status: int = 200
    times: int = -1
    where: str = ""
    cut: int = 0
    flips: bool = False
    etag: str = ""
    hangs: float = 0
    drips: float = 0
    huge: int = 0
    packed: bool = False


class _Quiet(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"

    def log(self, _type: str, _message: str, *_args: Any) -> None:
        """Say nothing."""


@cache
def _moto() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app

        return DomainDispatcherApplication(create_backend_app)


@dataclass
class S3Server:
    """A server that runs.

    Attributes:
        answers: what it says otherwise, from now on.
        asked: (method, path with query) of each request.
        conditions: how many requests were conditional.
        ends: who still hangs gets an error: all servers of a process share what they store.
    """

    answers: list[Answer] = field(default_factory=list)
    asked: list[tuple[str, str]] = field(default_factory=list)
    conditions: int = 0
    ends: bool = False

    def __post_init__(self) -> None:
        self._real = _moto()
        self._server: BaseWSGIServer = make_server(
            "127.0.0.1", 0, self._serve, threaded=True, request_handler=_Quiet
        )
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def settings(self) -> S3:
        """What a site says of it."""
        return S3(endpoint=f"http://127.0.0.1:{self._server.port}", plain_http=True)

    def close(self) -> None:
        """No more requests."""
        self._server.shutdown()
        self._server.server_close()

    def _serve(self, environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        method = environ["REQUEST_METHOD"]
        where = f"{environ['PATH_INFO']}?{environ['QUERY_STRING']}"
        self.asked.append((method, where))
        self.conditions += "HTTP_IF_NONE_MATCH" in environ
        # moto reads to the end of a connection that stays open.
        content = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        environ["wsgi.input"] = io.BytesIO(content)
        found = self._answer(method, where)
        if found is None:
            return list(self._real(environ, start))
        time.sleep(found.hangs)
        if self.ends:
            found = Answer(method, status=503)
        if found.code or found.status != 200:
            body = f"<Error><Code>{found.code}</Code><Message>told</Message></Error>".encode()
            kind = "application/xml" if found.code else "text/html"
            headers = [("Content-Type", kind), ("Content-Length", str(len(body)))]
            start(f"{found.status} told", headers)
            return [body]
        return self._changed(found, environ, start)

    def _answer(self, method: str, where: str) -> Answer | None:
        for one in self.answers:
            if one.method == method and one.where in where and one.times:
                one.times -= 1
                return one
        return None

    def _changed(self, found: Answer, environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        said: list[Any] = []
        body = b"".join(self._real(environ, lambda *given: said.extend(given)))
        status, headers = said[0], [(name, text) for name, text in said[1]]
        if found.etag:
            headers = [(n, t) for n, t in headers if n.lower() != "etag"] + [("ETag", found.etag)]
        if found.flips and body:
            body = bytes([body[0] ^ 1]) + body[1:]
        if found.packed:
            headers.append(("Content-Encoding", "gzip"))
        if found.huge:
            body += b" " * found.huge
            headers = [(n, t) for n, t in headers if n.lower() != "content-length"]
            headers.append(("Content-Length", str(len(body))))
        start(status, headers)
        body = body[: len(body) - found.cut]
        return self._dripped(body, found.drips) if found.drips else [body]

    def _dripped(self, body: bytes, seconds: float) -> Iterator[bytes]:
        for place in range(len(body)):
            if self.ends:
                return
            yield body[place : place + 1]
            time.sleep(seconds)


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """A server that ends with the block; its bucket is empty."""
    from minio import Minio

    made = S3Server()
    client = Minio(made.settings.address, "key", "secret", secure=False, region="us-east-1")
    client.make_bucket(BUCKET)
    try:
        yield made
    finally:
        made.ends = True
        made.answers.clear()
        for one in client.list_objects(BUCKET, recursive=True):
            client.remove_object(BUCKET, str(one.object_name))
        client.remove_bucket(BUCKET)
        made.close()
