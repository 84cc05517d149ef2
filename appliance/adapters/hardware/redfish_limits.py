"""Limits for a BMC: seconds, bytes, and no request to another host.

A read timeout alone does not stop a BMC that sends one byte a second, or endless headers: the bytes
are counted on the connection. Import it only to query a BMC: its libraries are heavy.
"""

from __future__ import annotations

import re
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from typing import Any, Final

from requests import PreparedRequest, RequestException, Response
from requests.adapters import HTTPAdapter
from sushy.connector import Connector
from sushy.exceptions import HTTPError
from urllib3.util.ssl_ import create_urllib3_context

CONNECT_SECONDS: Final = 5.0
READ_SECONDS: Final = 10.0
# Characters of a challenge that are read.
_MOST_CHALLENGE: Final = 1000
# A BMC that is busy says when to come back (RFC 9110, Retry-After, in seconds).
_BUSY: Final = (429, 503)
MOST_RETRIES: Final = 3
MOST_RETRY_SECONDS: Final = 30


class Limits:
    """The remaining time and bytes of one BMC; every answer counts.

    Args:
        url: scheme, address and port of the BMC; no other host is contacted.
        clock: a monotonic clock.

    Attributes:
        offers_basic: whether the last answer that asked for a login named HTTP's basic
            authentication as a way in.
    """

    def __init__(
        self,
        url: str,
        seconds: float,
        most_bytes: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.url = url
        self._seconds, self._most = seconds, most_bytes
        self._clock = clock
        self.offers_basic = False
        self.renew()
        # The slash ends the host name: it excludes https://bmc.evil.example and
        # https://bmc@evil.example.
        self.places = (f"{url}/", f"{url.removesuffix(':443')}/")

    def renew(self) -> None:
        """Grant the same time and bytes again, for another order."""
        self._ends = self._clock() + self._seconds
        self._received = 0
        self._broken = ""

    @property
    def received(self) -> int:
        """The bytes since the last grant."""
        return self._received

    @property
    def broken(self) -> str:
        """The limit that was reached; empty if none was."""
        if not self._broken and self._clock() >= self._ends:
            return f"no complete answer within {self._seconds:g} s"
        return self._broken

    def left(self) -> float:
        """The remaining seconds.

        Raises:
            TimeoutError: the time is over.
        """
        seconds = self._ends - self._clock()
        if seconds <= 0:
            raise TimeoutError(self.broken)
        return seconds

    def count(self, received: int) -> None:
        """Count received bytes.

        Raises:
            ConnectionAbortedError: the limit is exceeded.
        """
        self._received += received
        if self._received > self._most:
            self._broken = f"its answers are larger than {self._most // 1024} KiB"
            raise ConnectionAbortedError(self._broken)

    def refuse(self, why: str) -> RequestException:
        """The error for a forbidden answer, recorded as the reason."""
        self._broken = why
        return RequestException(why)


class _Requests(HTTPAdapter):
    """Sends requests only to the BMC, whatever its links and redirects, over counting sockets."""

    def __init__(self, limits: Limits, fingerprint: str | None) -> None:
        self._limits = limits
        self._fingerprint = fingerprint
        super().__init__(max_retries=0)

    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        # urllib3 compares the fingerprint at the end of the handshake, before any request.
        pinned = self._fingerprint is not None
        context = create_urllib3_context(cert_reqs=ssl.CERT_NONE if pinned else None)
        context.sslsocket_class = _socket_of(self._limits)
        super().init_poolmanager(
            *args, ssl_context=context, assert_fingerprint=self._fingerprint, **options
        )

    def send(self, request: PreparedRequest, *args: Any, **options: Any) -> Response:
        if not str(request.url).startswith(self._limits.places):
            raise self._limits.refuse(f"it refers to another host: {request.url}")
        response = self._send_when_free(request, *args, **options)
        if response.status_code == HTTPStatus.UNAUTHORIZED:
            challenge = response.headers.get("WWW-Authenticate", "")[:_MOST_CHALLENGE]
            self._limits.offers_basic = "basic" in challenge.lower()
        # No compression was requested: a small compressed answer could fill the memory.
        encoding = response.headers.get("Content-Encoding", "").strip().lower()
        if encoding not in ("", "identity"):
            response.close()
            raise self._limits.refuse("its answer is compressed, which was not requested")
        # sushy asks for a connection of its own for each request. A BMC may end it without a word:
        # the next request on it would get no answer.
        _ = response.content
        self.close()
        return response

    def _send_when_free(self, request: PreparedRequest, *args: Any, **options: Any) -> Response:
        """Send; again where the BMC is busy, says for how long, and the time is enough for it."""
        retries = 0
        while True:
            left = self._limits.left()
            response = super().send(request, *args, **options)
            wait = _retry_after(response)
            if wait is None or retries == MOST_RETRIES or wait >= left:
                return response
            response.close()
            retries += 1
            time.sleep(wait)


def _retry_after(response: Response) -> int | None:
    """For how many seconds a busy BMC asks; None where it is not busy or does not say."""
    text = response.headers.get("Retry-After", "")
    if response.status_code not in _BUSY or not re.fullmatch(r"[0-9]{1,4}", text):
        return None
    seconds = int(text)
    return seconds if seconds <= MOST_RETRY_SECONDS else None


def _socket_of(limits: Limits) -> type[ssl.SSLSocket]:
    class Socket(ssl.SSLSocket):
        # Every other way to receive calls this one.
        def read(self, size: int = 1024, buffer: Any = None) -> bytes:
            self.settimeout(min(READ_SECONDS, limits.left()))
            received = super().read(size, buffer)
            # With a buffer, read returns the number of bytes.
            limits.count(received if isinstance(received, int) else len(received))
            return received

    return Socket


def limited_connector(limits: Limits, authority: str, fingerprint: str | None) -> Connector:
    """A connector for sushy with limits, a trusted certificate and no proxy.

    Args:
        limits: the limits of this BMC.
        authority: path of the CA certificates for the BMC.
        fingerprint: SHA-256 of the only certificate that is trusted, 64 hexadecimal digits; None:
            a certificate of the CA is trusted.
    """
    connector = Connector(
        limits.url,
        verify=authority if fingerprint is None else False,
        server_side_retries=1,
        server_side_retries_delay=1,
        connect_timeout=CONNECT_SECONDS,
        default_request_timeout=READ_SECONDS,
    )
    session = connector._session
    # No proxy, whose connections would not be counted, and no logins of ~/.netrc.
    session.trust_env = False
    session.adapters.clear()
    session.mount("", _Requests(limits, fingerprint))
    return connector


def anonymous(limits: Limits, authority: str, fingerprint: str | None, path: str) -> None:
    """Ask for a path without a login; its answer is seen by the limits alone.

    Raises:
        SushyError, RequestException, OSError: no answer.
    """
    connector = limited_connector(limits, authority, fingerprint)
    try:
        with suppress(HTTPError):
            connector.get(path)
    finally:
        connector.close()
