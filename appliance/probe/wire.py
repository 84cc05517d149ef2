"""Asks a TLS service for its status, verified with the site's or the cluster's own CA."""

from __future__ import annotations

import json
import socket
from typing import Any, Dict, Optional, Tuple
from urllib.parse import urlsplit

from .source import Source

ANSWER_SECONDS = 2.5
DOCUMENT_SECONDS = 4.0
# Python 3.8 has two: of its own time limit, and of the kernel's.
LATE = (socket.timeout, TimeoutError)


def https_status(
    source: Source, key: str, url: str, *, ca: str, name: Optional[str] = None
) -> Dict[str, Any]:
    """GET an address; ``ok`` is a 2xx answer over a connection that the CA vouches for.

    ``name`` is what the certificate must be for when it is not the host of the address.
    """
    if not source.live:
        recorded = source.recorded(key)
        if recorded is None:
            return _answer(url, error="connection refused")
        return dict(json.loads(recorded), url=url)
    # In a thread, because looking up the name knows no time limit of its own.
    answers = source.together([lambda: _ask(source, url, ca, name)], seconds=ANSWER_SECONDS)
    if answers[0] is None:
        _note_late(source, url)
    return answers[0] or _answer(url, error="no answer within %.0f s" % ANSWER_SECONDS)


def https_document(
    source: Source, key: str, url: str, ca: str
) -> Tuple[Optional[Dict[str, Any]], Optional[str]]:
    """GET a JSON object over a connection that the CA (PEM) vouches for; it, or why not."""
    if not source.live:
        recorded = source.recorded(key)
        return (json.loads(recorded), None) if recorded else (None, "connection refused")
    answers = source.together([lambda: _fetch(source, url, ca)], seconds=DOCUMENT_SECONDS)
    if answers[0] is None:
        _note_late(source, url)
    return answers[0] or (None, "no answer within %.0f s" % DOCUMENT_SECONDS)


def _note_late(source: Source, url: str) -> None:
    """Tell an answer that may come at another moment from one that says no."""
    source.note("%s: no answer in time" % url)


def _fetch(source: Source, url: str, ca: str) -> Tuple[Optional[Dict[str, Any]], Optional[str]]:
    import ssl
    from http.client import HTTPException
    from urllib.error import HTTPError
    from urllib.request import HTTPSHandler, ProxyHandler, build_opener

    if not url.startswith("https://"):
        return None, "%s is no https address" % url
    try:
        context = ssl.create_default_context(cadata=ca)
        opener = build_opener(HTTPSHandler(context=context), ProxyHandler({}))
        with opener.open(url, timeout=DOCUMENT_SECONDS) as answer:
            document = json.loads(answer.read(1 << 20))
    except HTTPError as error:
        error.close()
        return None, str(error)
    except (OSError, ValueError, HTTPException) as error:
        reason = getattr(error, "reason", None)
        if isinstance(reason or error, LATE):
            _note_late(source, url)
        return None, str(getattr(reason, "verify_message", None) or reason or error)
    if not isinstance(document, dict):
        return None, "its answer is no JSON object"
    return document, None


def _answer(url: str, *, code: Optional[int] = None, error: Optional[str] = None) -> Dict[str, Any]:
    ok = code is not None and 200 <= code < 300
    return {"url": url, "ok": ok, "code": code, "error": error}


def _ask(source: Source, url: str, ca: str, name: Optional[str]) -> Dict[str, Any]:
    try:
        return _answer(url, code=_get(url, str(source.path(ca)), name, source.seconds_left(2)))
    except FileNotFoundError:
        return _answer(url, error="no CA at " + ca)
    except (OSError, ValueError) as error:
        if isinstance(error, LATE):
            _note_late(source, url)
        return _answer(url, error=getattr(error, "verify_message", None) or str(error))


def _get(url: str, ca: str, name: Optional[str], seconds: float) -> int:
    import ssl

    parts = urlsplit(url)
    host = parts.hostname or ""
    context = ssl.create_default_context(cafile=ca)
    plain = socket.create_connection((host, parts.port or 443), timeout=seconds)
    with plain, context.wrap_socket(plain, server_hostname=name or host) as secure:
        request = "GET %s HTTP/1.0\r\nHost: %s\r\n\r\n" % (parts.path or "/", parts.netloc)
        secure.sendall(request.encode())
        answer = secure.recv(64)
    return int(answer.split(b" ", 2)[1])
