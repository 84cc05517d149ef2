"""The images that pods and their templates name, also those that run nowhere now."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from appliance.adapters.kubernetes.connection.client import ApiRefused, ApiSilent, call
from appliance.errors import ClusterError

if TYPE_CHECKING:
    from appliance.adapters.kubernetes.connection.connection import ApiConnection


def read_pod_images(api: ApiConnection) -> frozenset[str]:
    """Every image of a pod, and of what makes pods: one with no replica is started again later.

    Raises:
        NodeUnreachable: no API server answers.
        ClusterError: the API refused.
    """
    from kubernetes.client import AppsV1Api, BatchV1Api, CoreV1Api

    with api.any_client() as client:
        core: Any = CoreV1Api(client)
        apps: Any = AppsV1Api(client)
        batch: Any = BatchV1Api(client)
        try:
            pods = [pod.spec for pod in _items(core.list_pod_for_all_namespaces)]
            for listing in (
                apps.list_deployment_for_all_namespaces,
                apps.list_stateful_set_for_all_namespaces,
                apps.list_daemon_set_for_all_namespaces,
                apps.list_replica_set_for_all_namespaces,
                batch.list_job_for_all_namespaces,
            ):
                pods += [one.spec.template.spec for one in _items(listing)]
            for one in _items(batch.list_cron_job_for_all_namespaces):
                pods.append(one.spec.job_template.spec.template.spec)
        except (ApiRefused, ApiSilent) as error:
            raise ClusterError(
                f"the images that pods name could not be read: {error}",
                hint="see what is wrong: appliance status",
            ) from error
    return frozenset(image for spec in pods for image in _images(spec))


def _items(listing: Any) -> list[Any]:
    found: list[Any] = call(listing).items
    return found


def _images(spec: Any) -> Iterator[str]:
    containers = [*(spec.init_containers or []), *(spec.containers or [])]
    for container in (*containers, *(getattr(spec, "ephemeral_containers", None) or [])):
        if container.image:
            yield str(container.image)
