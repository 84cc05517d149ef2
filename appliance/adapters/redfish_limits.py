"""What a BMC may take of us: so many seconds, so many bytes, and nothing that goes elsewhere.

A limit of the socket's reads alone ends nobody who sends one byte a second, or header after header;
so the bytes are counted where they come in, on the connection itself. Imported when a BMC is asked:
its libraries are heavy.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable
from typing import Any, Final

from requests import PreparedRequest, RequestException, Response
from requests.adapters import HTTPAdapter
from sushy.connector import Connector
from urllib3.util.ssl_ import create_urllib3_context

CONNECT_SECONDS: Final = 5.0
READ_SECONDS: Final = 10.0


class Limits:
    """What is left for one BMC; every answer of it counts.

    Args:
        url: scheme, address and port: who is asked, and nobody else.
        clock: a monotonic one.
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
        self._clock, self._ends = clock, clock() + seconds
        self._taken = 0
        self._broken = ""
        # The slash ends the name: https://bmc.evil.example and https://bmc@evil.example do not fit.
        self.places = (f"{url}/", f"{url.removesuffix(':443')}/")

    @property
    def broken(self) -> str:
        """Which limit was reached; empty while none was."""
        if not self._broken and self._clock() >= self._ends:
            return f"no whole answer within {self._seconds:g} s"
        return self._broken

    def left(self) -> float:
        """Seconds that are left.

        Raises:
            TimeoutError: none.
        """
        left = self._ends - self._clock()
        if left <= 0:
            raise TimeoutError(self.broken)
        return left

    def take(self, count: int) -> None:
        """Count what came in.

        Raises:
            ConnectionAbortedError: it is too much.
        """
        self._taken += count
        if self._taken > self._most:
            self._broken = f"it said more than {self._most // 1024} KiB"
            raise ConnectionAbortedError(self._broken)

    def refuse(self, why: str) -> RequestException:
        """The error for what no BMC may do, kept as the reason."""
        self._broken = why
        return RequestException(why)


class _Requests(HTTPAdapter):
    """Sends to the BMC alone, whatever its links and redirects say, over sockets that count."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        super().__init__(max_retries=0)

    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        context = create_urllib3_context()
        context.sslsocket_class = _socket_of(self._limits)
        super().init_poolmanager(*args, ssl_context=context, **options)

    def send(self, request: PreparedRequest, *args: Any, **options: Any) -> Response:
        if not str(request.url).startswith(self._limits.places):
            raise self._limits.refuse(f"it sends us to {request.url}")
        self._limits.left()
        response = super().send(request, *args, **options)
        # Nothing was asked to be packed: little can unpack to what fills the memory.
        packed = response.headers.get("Content-Encoding", "").strip().lower()
        if packed not in ("", "identity"):
            response.close()
            raise self._limits.refuse("its answer is packed, which was not asked for")
        return response


def _socket_of(limits: Limits) -> type[ssl.SSLSocket]:
    class Socket(ssl.SSLSocket):
        # Every other way to receive calls this one.
        def read(self, size: int = 1024, buffer: Any = None) -> bytes:
            self.settimeout(min(READ_SECONDS, limits.left()))
            found = super().read(size, buffer)
            # With a buffer it is the count of what is in it.
            limits.take(found if isinstance(found, int) else len(found))
            return found

    return Socket


def limited_connector(limits: Limits, authority: str) -> Connector:
    """How sushy asks within limits; it is told whom to believe, and takes no proxy.

    Args:
        limits: of this BMC; each is for one.
        authority: path of the certificates that vouch for the BMC.
    """
    connector = Connector(
        limits.url,
        verify=authority,
        server_side_retries=1,
        server_side_retries_delay=1,
        connect_timeout=CONNECT_SECONDS,
        default_request_timeout=READ_SECONDS,
    )
    session = connector._session
    # Neither a proxy, whose connections would not count, nor the logins of ~/.netrc.
    session.trust_env = False
    session.adapters.clear()
    session.mount("", _Requests(limits))
    return connector
