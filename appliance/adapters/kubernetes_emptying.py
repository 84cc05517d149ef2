"""A node is emptied of pods by the eviction API, with patience, and never by deleting.

What must not be here: deciding that a node is to be emptied.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from appliance.errors import ClusterError, StepNotProven

if TYPE_CHECKING:
    from appliance.adapters.kubernetes import KubernetesApi

PATIENCE_SECONDS: Final = 300
POLL_SECONDS: Final = 1.0
MIRROR: Final = "kubernetes.io/config.mirror"


class KubernetesEmptying:
    """Empties nodes of one site."""

    def __init__(self, api: KubernetesApi, patience_seconds: float = PATIENCE_SECONDS) -> None:
        self._api = api
        self._patience = patience_seconds

    def forecast(self, name: str) -> tuple[str, ...]:
        """One sentence for each pod that will be evicted, lost ones marked."""
        from kubernetes.client import CoreV1Api

        with self._api.any_client() as client:
            pods = list(_evictable(CoreV1Api(client), name))
        return tuple(sorted(_words(pod) for pod in pods))

    def empty(self, name: str) -> None:
        """Cordon, evict, wait; the cordon is taken back when a pod stays.

        Raises:
            StepNotProven: a pod is still there after the patience.
            ClusterError: the API refused.
        """
        from kubernetes.client import ApiException, CoreV1Api
        from urllib3.exceptions import HTTPError

        with self._api.any_client() as client:
            core: Any = CoreV1Api(client)
            try:
                before = bool(core.read_node(name).spec.unschedulable)
                core.patch_node(name, {"spec": {"unschedulable": True}})
                try:
                    self._evict(core, name)
                except BaseException:
                    if not before:
                        core.patch_node(name, {"spec": {"unschedulable": None}})
                    raise
            except (ApiException, HTTPError, OSError) as error:
                raise ClusterError(
                    f"{name}: its pods could not be evicted: "
                    f"{getattr(error, 'reason', None) or error.__class__.__name__}",
                    hint="the same command goes on from here",
                ) from error

    def _evict(self, core: Any, name: str) -> None:
        deadline, why = time.monotonic() + self._patience, ""
        while pods := list(_evictable(core, name)):
            for pod in pods:
                if pod.metadata.deletion_timestamp is None:
                    why = _ask(core, pod) or why
            if time.monotonic() >= deadline:
                first = f"{pods[0].metadata.namespace}/{pods[0].metadata.name}"
                raise StepNotProven(
                    f"{name}: after {self._patience:.0f} s {len(pods)} pods are still there, "
                    f"first {first}: {why or 'it does not end'}",
                    hint="ask its owner to move it, then run the same command again",
                )
            time.sleep(POLL_SECONDS)


def _ask(core: Any, pod: Any) -> str:
    """Ask once for an eviction; why it was not granted, or nothing."""
    from kubernetes.client import ApiException, V1Eviction, V1ObjectMeta

    meta = pod.metadata
    body = V1Eviction(metadata=V1ObjectMeta(name=meta.name, namespace=meta.namespace))
    try:
        core.create_namespaced_pod_eviction(meta.name, meta.namespace, body)
    except ApiException as error:
        if error.status == 429:
            return "a PodDisruptionBudget does not allow it"
        if error.status != 404:
            raise
    return ""


def _evictable(core: Any, name: str) -> Iterator[Any]:
    """The pods that an eviction moves: not those of DaemonSets or of the kubelet's own files."""
    for pod in core.list_pod_for_all_namespaces(field_selector=f"spec.nodeName={name}").items:
        owners = {owner.kind for owner in pod.metadata.owner_references or []}
        ended = pod.status.phase in ("Succeeded", "Failed")
        mirror = MIRROR in (pod.metadata.annotations or {})
        if not ended and not mirror and "DaemonSet" not in owners:
            yield pod


def _words(pod: Any) -> str:
    name = f"{pod.metadata.namespace}/{pod.metadata.name}"
    if not pod.metadata.owner_references:
        return f"pod {name} has no controller: nothing starts it again elsewhere"
    if any(volume.empty_dir for volume in pod.spec.volumes or []):
        return f"pod {name} moves; what it has in emptyDir is lost"
    return f"pod {name} moves"
