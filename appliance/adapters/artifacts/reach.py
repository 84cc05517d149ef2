"""Which hosts can be reached: asked once each, within seconds, and remembered for the build."""

from __future__ import annotations

import threading
from urllib.parse import urlsplit

from appliance.adapters.artifacts.reachability import unanswered
from appliance.errors import SourceUnavailable

PATIENCE_SECONDS = 4.0


class Reach:
    """The memory of one build."""

    def __init__(self, patience_seconds: float = PATIENCE_SECONDS) -> None:
        self._patience = patience_seconds
        self._reasons: dict[str, str | None] = {}
        self._locks: dict[str, threading.Lock] = {}
        self._guard = threading.Lock()

    def why_not(self, url: str) -> str | None:
        """Why the host of a web address can not be reached; None when it can."""
        parts = urlsplit(url)
        base = f"{parts.scheme}://{parts.netloc}"
        with self._guard:
            lock = self._locks.setdefault(base, threading.Lock())
        with lock:
            if base not in self._reasons:
                found = unanswered([base], patience_seconds=self._patience)
                self._reasons[base] = found.get(base)
            return self._reasons[base]

    def require(self, url: str) -> None:
        """Refuse an address whose host can not be reached.

        Raises:
            SourceUnavailable: it can not.
        """
        if reason := self.why_not(url):
            host = urlsplit(url).netloc
            raise SourceUnavailable(f"{host} can not be reached: {reason}")
