"""Asks a TLS service for its status, verified with the site's or the cluster's own CA."""

from __future__ import annotations

import json
import socket
from typing import Any, Dict
from urllib.parse import urlsplit

from .source import Source


def https_status(source: Source, key: str, url: str, *, ca: str) -> Dict[str, Any]:
    """GET an address; ``ok`` is a 2xx answer over a connection that the CA vouches for."""
    if not source.live:
        recorded = source.recorded(key)
        if recorded is None:
            return {"url": url, "ok": False, "code": None, "error": "connection refused"}
        return dict(json.loads(recorded), url=url)
    found: Dict[str, Any] = {"url": url, "ok": False, "code": None, "error": None}
    try:
        code = _get(url, str(source.path(ca)), source.seconds_left(2))
    except FileNotFoundError:
        found["error"] = "no CA at " + ca
    except (OSError, ValueError) as error:
        found["error"] = getattr(error, "verify_message", None) or str(error)
    else:
        found["code"] = code
        found["ok"] = 200 <= code < 300
    return found


def _get(url: str, ca: str, seconds: float) -> int:
    import ssl

    parts = urlsplit(url)
    host = parts.hostname or ""
    context = ssl.create_default_context(cafile=ca)
    plain = socket.create_connection((host, parts.port or 443), timeout=seconds)
    with plain, context.wrap_socket(plain, server_hostname=host) as secure:
        request = "GET %s HTTP/1.0\r\nHost: %s\r\n\r\n" % (parts.path or "/", parts.netloc)
        secure.sendall(request.encode())
        answer = secure.recv(64)
    return int(answer.split(b" ", 2)[1])
