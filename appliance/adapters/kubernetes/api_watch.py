"""Asks a cluster's API several times a second whether it answers, while something else runs.

The answer is measured and not trusted: certificates are not checked, and nothing is sent. What must
not be here: reading the cluster (:mod:`appliance.adapters.kubernetes.api`).
"""

from __future__ import annotations

import http.client
import ssl
import threading
import time
from collections.abc import Callable
from typing import Final

from appliance.model.upgrade.rehearsal.report.rehearsed import ApiGap, ApiWatched

EVERY_SECONDS: Final = 0.2
WAIT_SECONDS: Final = 1.0


class ApiWatch:
    """Watches one address as long as the ``with`` block lasts.

    Args:
        host: of the API's endpoint.
        port: likewise.
        ask: asks once; None: over HTTPS.
    """

    def __init__(self, host: str, port: int, ask: Callable[[], bool] | None = None) -> None:
        self._host, self._port = host, port
        self._ask = ask or self._over_https
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._answers: list[tuple[float, bool]] = []
        self._began = 0.0

    def __enter__(self) -> ApiWatch:
        """Begin."""
        self._began = time.monotonic()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End; an answer that is waited for is no part of it."""
        self._over.set()
        self._thread.join(WAIT_SECONDS + EVERY_SECONDS)

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return time.monotonic() - self._began

    def watched(self) -> ApiWatched:
        """How it answered."""
        return watched_of(list(self._answers))

    def _watch(self) -> None:
        while not self._over.wait(EVERY_SECONDS):
            answered = self._ask()
            self._answers.append((self.seconds, answered))

    def _over_https(self) -> bool:
        # The time of an answer is measured: who answers does not matter.
        context = ssl._create_unverified_context()  # noqa: S323
        connection = http.client.HTTPSConnection(
            self._host, self._port, timeout=WAIT_SECONDS, context=context
        )
        try:
            connection.request("GET", "/livez")
            return connection.getresponse().status < http.client.INTERNAL_SERVER_ERROR
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()


def watched_of(answers: list[tuple[float, bool]]) -> ApiWatched:
    """The times without an answer, of (seconds since the beginning, whether it answered).

    An API that never answered was never asked: it cannot be reached from this machine.
    """
    if not any(answered for _, answered in answers):
        return ApiWatched()
    gaps: list[ApiGap] = []
    last, is_away = 0.0, False
    for at, answered in answers:
        if answered:
            if is_away:
                gaps.append(ApiGap(round(last, 1), round(at - last, 1)))
            last, is_away = at, False
        else:
            is_away = True
    if is_away:
        gaps.append(ApiGap(round(last, 1), round(answers[-1][0] - last, 1)))
    lost = sum(not answered for _, answered in answers)
    return ApiWatched(len(answers), lost, tuple(gaps))
