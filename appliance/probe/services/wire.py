"""Query a TLS service's status, verified with the site's or the cluster's CA."""

from __future__ import annotations

import json
import socket
from typing import Any, Dict, NamedTuple, Optional, Tuple

from ..source import Source

ANSWER_SECONDS = 2.5
DOCUMENT_SECONDS = 4.0
# Python 3.8 has two: of its own time limit, and of the kernel's.
LATE = (socket.timeout, TimeoutError)


class Question(NamedTuple):
    """A request to a TLS service.

    Attributes:
        ca: the file of the CA that must have signed its certificate.
        name: the expected name in the certificate, if it is not the host of the address.
        asking: the method, and additional header lines.
        pem: the CA itself, instead of a file.
        at: the address to connect to, if its host's name may not resolve.
    """

    url: str
    ca: str
    name: Optional[str] = None
    asking: str = "GET"
    pem: Optional[str] = None
    at: Optional[str] = None


def https_status(
    source: Source, key: str, url: str, *, ca: str, name: Optional[str] = None
) -> Dict[str, Any]:
    """GET an address; ``ok`` is a 2xx answer over a connection verified with the CA.

    ``name`` is the expected name in the certificate, if it is not the host of the address.
    """
    return https_answer(source, key, Question(url, ca, name))


def https_answer(source: Source, key: str, question: Question) -> Dict[str, Any]:
    """Query a TLS service; ``ok`` is a 2xx answer over a connection verified with the CA."""
    if not source.live:
        recorded = source.recorded(key)
        if recorded is None:
            return _answer(question.url, error="connection refused")
        return dict(json.loads(recorded), url=question.url)
    # In a thread, because name resolution has no time limit of its own.
    # A service that does not answer in time is an observation.
    asked = [lambda: _ask(source, question)]
    answers = source.together(asked, seconds=ANSWER_SECONDS, feeds=())
    if answers[0] is None:
        _note_late(source, question.url)
        return _answer(question.url, error="no answer within %.0f s" % ANSWER_SECONDS)
    return answers[0]


def https_document(
    source: Source, key: str, url: str, ca: str
) -> Tuple[Optional[Dict[str, Any]], Optional[str]]:
    """GET a JSON object over a connection verified with the CA (PEM); return it, or an error."""
    if not source.live:
        recorded = source.recorded(key)
        return (json.loads(recorded), None) if recorded else (None, "connection refused")
    answers = source.together([lambda: _fetch(source, url, ca)], seconds=DOCUMENT_SECONDS, feeds=())
    if answers[0] is None:
        _note_late(source, url)
    return answers[0] or (None, "no answer within %.0f s" % DOCUMENT_SECONDS)


def _note_late(source: Source, url: str) -> None:
    """Note a timeout, so that it differs from a negative answer."""
    source.note("%s: no answer in time" % url)


def _fetch(source: Source, url: str, ca: str) -> Tuple[Optional[Dict[str, Any]], Optional[str]]:
    import ssl
    from http.client import HTTPException
    from urllib.error import HTTPError
    from urllib.request import HTTPSHandler, ProxyHandler, build_opener

    if not url.startswith("https://"):
        return None, "%s is not an https address" % url
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
        return None, "its answer is not a JSON object"
    return document, None


def _answer(url: str, *, code: Optional[int] = None, error: Optional[str] = None) -> Dict[str, Any]:
    ok = code is not None and 200 <= code < 300
    return {"url": url, "ok": ok, "code": code, "error": error}


def _ask(source: Source, question: Question) -> Dict[str, Any]:
    url = question.url
    try:
        return _answer(
            url, code=_status(question, str(source.path(question.ca)), source.seconds_left(2))
        )
    except FileNotFoundError:
        return _answer(url, error="no CA at " + question.ca)
    except (OSError, ValueError) as error:
        if isinstance(error, LATE):
            _note_late(source, url)
        return _answer(url, error=getattr(error, "verify_message", None) or str(error))


def _status(question: Question, ca: str, seconds: float) -> int:
    import ssl
    from urllib.parse import urlsplit

    parts = urlsplit(question.url)
    host = parts.hostname or ""
    method, *lines = question.asking.splitlines()
    first = "%s %s HTTP/1.0" % (method, parts.path or "/")
    head = "\r\n".join([first, "Host: " + parts.netloc, *lines, "", ""])
    context = ssl.create_default_context(
        cafile=None if question.pem else ca, cadata=question.pem or None
    )
    plain = socket.create_connection((question.at or host, parts.port or 443), timeout=seconds)
    with plain, context.wrap_socket(plain, server_hostname=question.name or host) as secure:
        secure.sendall(head.encode())
        answer = secure.recv(64)
    return int(answer.split(b" ", 2)[1])
