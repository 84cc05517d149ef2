"""A namespace for pods that prove something: new for each proof, and deleted at its end."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from appliance.errors import ClusterError

if TYPE_CHECKING:
    from appliance.adapters.kubernetes import KubernetesApi

TIMEOUT = (3, 20)


@contextmanager
def proof_namespace(api: KubernetesApi, proof: str) -> Iterator[tuple[Any, str]]:
    """An API client and the namespace's name, for one proof, such as ``GPU proof``.

    Raises:
        ClusterError: the API refused what the proof needs, or went away.
    """
    from kubernetes.client import ApiException, CoreV1Api
    from urllib3.exceptions import HTTPError

    namespace = f"appliance-proof-{secrets.token_hex(3)}"
    with api.any_client() as client:
        core: Any = CoreV1Api(client)
        try:
            core.create_namespace({"metadata": {"name": namespace}}, _request_timeout=TIMEOUT)
            try:
                yield client, namespace
            finally:
                core.delete_namespace(namespace, _request_timeout=TIMEOUT)
        except (HTTPError, OSError) as error:
            raise ClusterError(
                f"the API went away during the {proof}: {error.__class__.__name__}",
                hint="the same command goes on; what is left of it: "
                f"kubectl delete namespace {namespace}",
            ) from error
        except ApiException as error:
            raise ClusterError(
                f"the API refused a part of the {proof}: {error.status} {error.reason}",
                hint=f"what is left of it goes with: kubectl delete namespace {namespace}",
            ) from error
