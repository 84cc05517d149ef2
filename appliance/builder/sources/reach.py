"""Which hosts can be reached: each is tried once, within seconds, and remembered for the build."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterable
from urllib.parse import SplitResult, urlsplit

from appliance.errors import SourceUnavailable

_PORTS = {"http": 80, "https": 443}

PATIENCE_SECONDS = 4.0


class Reach:
    """The reachable and unreachable hosts of one build."""

    def __init__(self, patience_seconds: float = PATIENCE_SECONDS) -> None:
        self._patience = patience_seconds
        self._reasons: dict[str, str | None] = {}
        self._locks: dict[str, threading.Lock] = {}
        self._guard = threading.Lock()

    def why_not(self, url: str) -> str | None:
        """Why the host of a web address cannot be reached; None if it can be."""
        parts = urlsplit(url)
        base = f"{parts.scheme}://{parts.netloc}"
        with self._guard:
            lock = self._locks.setdefault(base, threading.Lock())
        with lock:
            if base not in self._reasons:
                reasons = unanswered([base], patience_seconds=self._patience)
                self._reasons[base] = reasons.get(base)
            return self._reasons[base]

    def require(self, url: str) -> None:
        """Refuse an address whose host cannot be reached.

        Raises:
            SourceUnavailable: the host cannot be reached.
        """
        if reason := self.why_not(url):
            host = urlsplit(url).netloc
            raise SourceUnavailable(f"{host} cannot be reached: {reason}")


def unanswered(uris: Iterable[str], *, patience_seconds: float) -> dict[str, str]:
    """The addresses that did not answer, each with the reason.

    Only ``http`` and ``https`` addresses without a proxy are tried: with a proxy, the proxy would
    answer for the archive.
    """
    asked = {
        uri: parts
        for uri in uris
        if (parts := urlsplit(uri)).scheme in _PORTS and not _has_proxy(parts.scheme)
    }
    reasons = dict.fromkeys(asked, f"no answer within {patience_seconds:g} s")
    # Daemon threads: a resolver that hangs cannot be interrupted and must not delay the exit.
    threads = [
        threading.Thread(target=_ask, args=(uri, parts, patience_seconds, reasons), daemon=True)
        for uri, parts in asked.items()
    ]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + patience_seconds
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return dict(reasons)


def _ask(uri: str, parts: SplitResult, patience: float, reasons: dict[str, str]) -> None:
    host = parts.hostname or ""
    try:
        port = parts.port or _PORTS[parts.scheme]
        with socket.create_connection((host, port), timeout=patience) as connection:
            if parts.scheme == "http":
                request = f"HEAD {parts.path or '/'} HTTP/1.1\r\nHost: {host}\r\n"
                connection.sendall(f"{request}Connection: close\r\n\r\n".encode())
                if not connection.recv(1):
                    reasons[uri] = "the connection was closed without an answer"
                    return
    except TimeoutError:
        return
    except (OSError, ValueError) as error:
        reasons[uri] = str(error)
        return
    reasons.pop(uri, None)


def _has_proxy(scheme: str) -> bool:
    names = (f"{scheme}_proxy", "all_proxy")
    return any(os.environ.get(name) or os.environ.get(name.upper()) for name in names)
