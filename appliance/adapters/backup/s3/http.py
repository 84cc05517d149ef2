"""HTTP for an S3-compatible server: every request ends in time, and every answer has a most size.

The library (minio) reads answers whole and waits as long as bytes drip. It takes a pool of
connections, so the limits are here. What must not be here: what is asked of the server.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar

import urllib3
from urllib3.response import BaseHTTPResponse

from appliance.model.site.ssh import CONNECT_SECONDS

_T = TypeVar("_T")

# For one request with its body, of a part of an upload at most.
REQUEST_SECONDS: Final = 300.0
SILENCE_SECONDS: Final = 60.0
MOST_ANSWER_BYTES: Final = 8 << 20
_BUSY: Final = (429, 500, 502, 503, 504)
# "Not implemented": of a server that knows no condition.
_NOT_KNOWN: Final = 501
_CONDITION: Final = {"If-None-Match": "*"}


def in_time(seconds: float, act: Callable[[], _T]) -> _T:
    """What an act returns; one that takes longer is left alone, and what it gives late is closed.

    Raises:
        TimeoutError: it took longer.
    """
    found: list[_T] = []
    faults: list[BaseException] = []
    given_up = threading.Event()

    def run() -> None:
        try:
            found.append(act())
        except BaseException as error:
            faults.append(error)
        if given_up.is_set():
            _close(found)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if faults:
        raise faults[0]
    if not found:
        given_up.set()
        _close(found)
        raise TimeoutError(f"no answer within {seconds:.0f} s")
    return found[0]


def _close(late: Sequence[object]) -> None:
    for one in late:
        if isinstance(one, BaseHTTPResponse):
            with suppress(Exception):
                one.close()


class LimitedPool(urllib3.PoolManager):
    """Connections to one server.

    Attributes:
        never_replaces: objects are written only where there is none of their name, as far as the
            server knows that condition.

    Args:
        authority: path of the CAs that vouch for the server; None: those of this machine.
    """

    def __init__(self, authority: str | None) -> None:
        self._timeout = urllib3.Timeout(connect=CONNECT_SECONDS, read=SILENCE_SECONDS)
        super().__init__(
            timeout=self._timeout,
            cert_reqs="CERT_REQUIRED",
            retries=urllib3.Retry(
                total=2,
                connect=0,
                read=0,
                redirect=0,
                other=0,
                status_forcelist=_BUSY,
                backoff_factor=0.5,
                raise_on_status=False,
                respect_retry_after_header=False,
            ),
            **({"ca_certs": authority} if authority else {}),  # type: ignore[arg-type]
        )
        self.never_replaces = True

    def urlopen(  # type: ignore[override]
        self, method: str, url: str, redirect: bool = True, **more: Any
    ) -> BaseHTTPResponse:
        """One request; the body of its answer has come where it is wanted whole.

        Raises:
            TimeoutError: the server took too long.
        """
        del redirect
        conditional = self.never_replaces and _makes_object(method, url)
        headers: Mapping[str, str] = more.pop("headers", None) or {}
        given = {**headers, **_CONDITION} if conditional else headers
        found = self._asked(method, url, given, more)
        if conditional and found.status == _NOT_KNOWN:
            self.never_replaces = False
            return self._asked(method, url, headers, more)
        return found

    def _asked(
        self, method: str, url: str, headers: Mapping[str, str], more: dict[str, Any]
    ) -> BaseHTTPResponse:
        wanted = {**more, "preload_content": False, "headers": headers, "redirect": False}
        # Nothing packed was asked for: unpacked, an answer of a few bytes may fill the memory.
        wanted["decode_content"] = False
        whole = more.get("preload_content", True)
        timeout = wanted.pop("timeout", self._timeout)

        def ask() -> BaseHTTPResponse:
            answer = super(LimitedPool, self).urlopen(method, url, timeout=timeout, **wanted)
            return _whole(answer) if whole or answer.status >= 300 else answer

        return in_time(REQUEST_SECONDS, ask)


def _makes_object(method: str, url: str) -> bool:
    part = "partNumber=" in url
    return (method == "PUT" and not part) or (method == "POST" and "uploadId=" in url)


def _whole(answer: BaseHTTPResponse) -> BaseHTTPResponse:
    """The same with its body, which has a most size."""
    content = answer.read(MOST_ANSWER_BYTES + 1)
    if len(content) > MOST_ANSWER_BYTES:
        answer.close()
        raise OSError(f"the server's answer is larger than {MOST_ANSWER_BYTES} bytes")
    answer.release_conn()
    return urllib3.HTTPResponse(
        body=content,
        headers=answer.headers,
        status=answer.status,
        reason=answer.reason,
        preload_content=True,
        decode_content=False,
    )
