"""STANDIN of the backend's database: documents over HTTP, kept in a folder on a volume.

Like the real one it runs as uid 1001, and ends when it may not write there.
"""

from __future__ import annotations

import json
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

FOLDER = Path(os.environ.get("STORE_DIR", "/bitnami/postgresql/data"))


class Documents(BaseHTTPRequestHandler):
    """GET and PUT of /NAME."""

    def _path(self) -> Path:
        name = self.path.strip("/")
        return _database() / f"{name}.json" if name.isidentifier() else FOLDER / "refused"

    def do_GET(self) -> None:
        """A document, or 404."""
        if self.path == "/healthz":
            self._answer(200, b"STANDIN")
            return
        try:
            self._answer(200, self._path().read_bytes())
        except OSError:
            self._answer(404, b"")

    def do_PUT(self) -> None:
        """Replace a document."""
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        new = self._path().with_suffix(".new")
        new.write_bytes(content)
        new.replace(self._path())
        self._answer(204, b"")

    def _answer(self, code: int, content: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def _database() -> Path:
    """Where the documents of the database are that has the backend's name now."""
    try:
        return FOLDER / str(json.loads((FOLDER / "catalog").read_text())["backend"]["folder"])
    except FileNotFoundError:
        return FOLDER


def main() -> None:
    """Serve, once the folder can be written."""
    os.umask(0o077)  # as PostgreSQL keeps its files
    try:
        FOLDER.mkdir(parents=True, exist_ok=True)
        (FOLDER / ".written").write_text("STANDIN\n")
    except OSError as error:
        sys.stderr.write(
            f"STANDIN postgresql: FATAL: cannot write to {FOLDER} as uid {os.getuid()}: "
            f"{error.strerror}\n"
        )
        raise SystemExit(1) from error
    sys.stderr.write(f"STANDIN postgresql: ready in {FOLDER}\n")
    ThreadingHTTPServer(("", int(os.environ.get("STORE_PORT", "5432"))), Documents).serve_forever()


if __name__ == "__main__":
    main()
