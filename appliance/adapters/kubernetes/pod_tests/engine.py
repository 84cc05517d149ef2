"""What every test by pods has in common: a namespace of its own, pods, a wait, a verdict.

What must not be here: what is tested, and what its pods run (``gpu.py``, ``network.py``).
"""

from __future__ import annotations

import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from appliance.adapters.kubernetes.connection.client import (
    TIMEOUT,
    ApiRefused,
    ApiSilent,
    api_errors,
)
from appliance.errors import ClusterError, ClusterSilent, NodeUnreachable

if TYPE_CHECKING:
    from appliance.adapters.kubernetes.connection.connection import ApiConnection

Result = TypeVar("Result")
# Of each request of a test.
TEST_TIMEOUT: Final = (TIMEOUT[0], 20)
# What the only API server may be away while its kubelet starts it again.
AWAY_SECONDS: Final = 90.0
AWAY_POLL_SECONDS: Final = 2.0
# A controller manager that starts leads once the lease of the one before is over, 15 s later.
ACCOUNT_SECONDS: Final = 60.0
NO_ACCOUNT: Final = "error looking up service account"
FORBIDDEN: Final = 403
# It is gone, or on its way.
NOT_FOUND: Final = 404
CONFLICT: Final = 409


class PodTest(ABC, Generic[Result]):
    """One test by pods, in the namespace that :func:`own_namespace` made for it."""

    @abstractmethod
    def start(self) -> None:
        """Ask for the pods."""

    @abstractmethod
    def poll(self) -> float | None:
        """Look at the pods; seconds until the next look, or None when no wait is needed."""

    @abstractmethod
    def verdict(self) -> Result:
        """What the test shows, whether or not its pods were ready in time."""

    def carry_out(
        self, patience_seconds: float, meanwhile: Callable[[], None] | None = None
    ) -> Result:
        """Start the pods, wait for them, and judge.

        Args:
            patience_seconds: how long the pods are waited for.
            meanwhile: is called once, when the pods have been asked for.
        """
        self.start()
        if meanwhile is not None:
            meanwhile()
        deadline = time.monotonic() + patience_seconds
        while (pause := self.poll()) is not None and time.monotonic() < deadline:
            time.sleep(pause)
        return self.verdict()


@contextmanager
def own_namespace(api: ApiConnection, test: str) -> Iterator[tuple[Any, str]]:
    """An API client and the name of a new namespace, which is deleted at the end.

    Args:
        api: the site's cluster.
        test: what it is for, e.g. ``GPU test``.

    Raises:
        ClusterSilent: the API went away, or starts; where it came soon, nothing is left.
        ClusterError: it refused what the test needs.
    """
    from kubernetes.client import CoreV1Api

    namespace = f"appliance-proof-{secrets.token_hex(3)}"
    with api.any_client() as client:
        core: Any = CoreV1Api(client)
        made, is_gone = {"metadata": {"name": namespace}}, False
        try:
            with api_errors():
                core.create_namespace(made, _request_timeout=TEST_TIMEOUT)
                try:
                    yield client, namespace
                finally:
                    core.delete_namespace(namespace, _request_timeout=TEST_TIMEOUT)
                    is_gone = True
        except (ApiSilent, ApiRefused) as error:
            rest = f"delete the rest of the test: kubectl delete namespace {namespace}"
            if isinstance(error, ApiRefused) and error.is_final:
                raise ClusterError(
                    f"the API refused a part of the {test}: {error.words}", hint=rest
                ) from error
            is_silent = isinstance(error, ApiSilent)
            what = "stopped answering during" if is_silent else "could not do a part of"
            is_gone = is_gone or _is_deleted(api, namespace)
            raise ClusterSilent(
                f"the API {what} the {test}: {error.words}",
                hint=f"{'' if is_gone else f'{rest}; then '}run the same command again",
            ) from error


def make_pod(core: Any, namespace: str, body: Mapping[str, Any]) -> Any:
    """The pod as it was made, once its new namespace has a service account.

    Until a controller manager leads, it has none, and the API refuses every pod
    (k8s.io/kubernetes 1.23, plugin/pkg/admission/serviceaccount).

    Raises:
        ApiException: the API refused the pod.
    """
    from kubernetes.client import ApiException

    deadline = time.monotonic() + ACCOUNT_SECONDS
    while True:
        try:
            return core.create_namespaced_pod(namespace, body, _request_timeout=TEST_TIMEOUT)
        except ApiException as error:
            lacks = error.status == FORBIDDEN and NO_ACCOUNT in str(error.body)
            if not lacks or time.monotonic() >= deadline:
                raise
        time.sleep(AWAY_POLL_SECONDS)


def _is_deleted(api: ApiConnection, namespace: str) -> bool:
    """Delete what a test left, once the API answers again; whether that came in time."""
    from kubernetes.client import CoreV1Api

    deadline = time.monotonic() + AWAY_SECONDS
    while True:
        try:
            with api.any_client() as client, api_errors():
                CoreV1Api(client).delete_namespace(namespace, _request_timeout=TEST_TIMEOUT)
        except ApiRefused as error:
            # A server that starts refuses what it will do in a moment.
            if error.is_final or error.status == CONFLICT:
                return error.status in (NOT_FOUND, CONFLICT)
        except (ApiSilent, NodeUnreachable):
            pass
        else:
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(AWAY_POLL_SECONDS)
