"""Does an archive answer at all? Asked of all at once, within seconds.

apt waits for each index of an archive in turn, which adds up to minutes when a firewall swallows
packets. What must not be here: reading anything from the archive.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterable
from urllib.parse import SplitResult, urlsplit

_PORTS = {"http": 80, "https": 443}


def unanswered(uris: Iterable[str], *, patience_seconds: float) -> dict[str, str]:
    """The addresses that gave no answer, each with the reason.

    Only ``http`` and ``https`` are asked, and only where no proxy stands between: there the proxy
    answers for the archive.
    """
    asked = {
        uri: parts
        for uri in uris
        if (parts := urlsplit(uri)).scheme in _PORTS and not _has_proxy(parts.scheme)
    }
    reasons = dict.fromkeys(asked, f"no answer within {patience_seconds:g} s")
    # Daemons, because a resolver that hangs can not be interrupted and must not hold us.
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
