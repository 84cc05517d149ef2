"""STANDIN: the few calls to the Kubernetes API that the stand-ins make, with a pod's own rights."""

from __future__ import annotations

import json
import os
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
MERGE = "application/merge-patch+json"


class ApiError(Exception):
    """The API answered with an error, or not at all."""

    def __init__(self, code: int, words: str) -> None:
        super().__init__(f"{code}: {words}")
        self.code = code


class ClusterApi:
    """The API server, as a pod reaches it."""

    def __init__(self) -> None:
        host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
        self._base = f"https://{host}:{port}"
        self._context = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))

    def get(self, path: str) -> Any:
        """Return an object or a list; None where it does not exist."""
        try:
            return self._call("GET", path)
        except ApiError as error:
            if error.code == 404:
                return None
            raise

    def create(self, path: str, body: Any) -> Any:
        """Create an object."""
        return self._call("POST", path, body)

    def replace(self, path: str, body: Any) -> Any:
        """Replace an object."""
        return self._call("PUT", path, body)

    def patch(self, path: str, body: Any) -> Any:
        """Merge into an object."""
        return self._call("PATCH", path, body, MERGE)

    def delete(self, path: str) -> None:
        """Delete an object."""
        self._call("DELETE", path)

    def _call(
        self, method: str, path: str, body: Any = None, kind: str = "application/json"
    ) -> Any:
        token = (ACCOUNT / "token").read_text(encoding="utf-8").strip()
        request = urllib.request.Request(
            self._base + path,
            data=None if body is None else json.dumps(body).encode(),
            method=method,
            headers={"Authorization": f"Bearer {token}", "Content-Type": kind},
        )
        try:
            with urllib.request.urlopen(request, timeout=10, context=self._context) as answer:
                return json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            raise ApiError(error.code, error.read().decode(errors="replace")[:300]) from error
        except OSError as error:
            raise ApiError(0, str(error)) from error


def say(text: str) -> None:
    """Write a line of the log."""
    print(f"STANDIN {time.strftime('%H:%M:%S')} {text}", flush=True)  # noqa: T201 - a pod's log


def forever(step: Callable[[], None], seconds: float) -> None:
    """Do one thing again and again; an API that is away for a while is no reason to end."""
    told = ""
    while True:
        try:
            step()
            told = ""
        except ApiError as error:
            if str(error) != told:
                say(f"the API answered {error}")
                told = str(error)
        time.sleep(seconds)
