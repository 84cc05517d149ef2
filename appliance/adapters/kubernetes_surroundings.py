"""Read what Run:ai meets in a cluster: classes, collectors, GPUs, helm releases.

Helm keeps a release in Secrets; only their labels are asked for, so that no value of anybody's
chart leaves the cluster.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from appliance.model.health.nodes import SYSTEM_LABEL
from appliance.model.surroundings import Owned, Surroundings

DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
RELEASE_NAME: Final = "meta.helm.sh/release-name"
GPU: Final = "nvidia.com/gpu"
PROMETHEUS: Final = ("monitoring.coreos.com", "v1", "prometheuses")
LABELS_ONLY: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

Call = Callable[..., Any]


def read_surroundings(client: Any, call: Call) -> Surroundings:
    """Ask the API.

    Args:
        client: an API client.
        call: calls a function of the client and translates its errors.
    """
    from kubernetes.client import ApisApi, CoreV1Api, NetworkingV1Api, StorageV1Api

    classes = call(StorageV1Api(client).list_storage_class).items
    nodes = call(CoreV1Api(client).list_node).items
    groups = {group.name for group in call(ApisApi(client).get_api_versions).groups}
    return Surroundings(
        ingress_classes=tuple(
            _owned(item.metadata.to_dict())
            for item in call(NetworkingV1Api(client).list_ingress_class).items
        ),
        storage_classes=tuple(item.metadata.name for item in classes),
        default_storage_classes=tuple(
            item.metadata.name
            for item in classes
            if (item.metadata.annotations or {}).get(DEFAULT_CLASS) == "true"
        ),
        prometheuses=tuple(_prometheuses(client, call) if PROMETHEUS[0] in groups else ()),
        gpus={
            node.metadata.name: int(node.status.allocatable[GPU])
            for node in nodes
            if GPU in (node.status.allocatable or {})
        },
        releases=newest(_secrets(client, call)),
        system_labelled=tuple(
            node.metadata.name for node in nodes if SYSTEM_LABEL in (node.metadata.labels or {})
        ),
    )


def newest(secrets: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """``namespace/name`` of each release -> the status of its newest revision."""
    found: dict[str, tuple[int, str]] = {}
    for secret in secrets:
        labels = secret["metadata"].get("labels") or {}
        name = f"{secret['metadata']['namespace']}/{labels.get('name')}"
        revision = (int(labels.get("version", 0)), str(labels.get("status")))
        found[name] = max(found.get(name, revision), revision)
    return {name: status for name, (_, status) in found.items()}


def _prometheuses(client: Any, call: Call) -> Iterable[Owned]:
    from kubernetes.client import CustomObjectsApi

    listed = call(CustomObjectsApi(client).list_cluster_custom_object, *PROMETHEUS)
    return [_owned(item["metadata"]) for item in listed["items"]]


def _secrets(client: Any, call: Call) -> list[Mapping[str, Any]]:
    """Every release's Secrets without what is in them; no generated call can leave that out."""

    def ask(_request_timeout: tuple[float, float]) -> Any:
        from kubernetes.client import ApiException
        from urllib3 import Timeout

        answer = client.rest_client.pool_manager.request(
            "GET",
            client.configuration.host + "/api/v1/secrets?labelSelector=owner%3Dhelm",
            headers={"Accept": LABELS_ONLY},
            timeout=Timeout(*_request_timeout),
        )
        if answer.status != 200:
            raise ApiException(status=answer.status, reason=answer.reason)
        return json.loads(answer.data)

    found: list[Mapping[str, Any]] = call(ask)["items"] or []
    return found


def _owned(metadata: Mapping[str, Any]) -> Owned:
    annotations = metadata.get("annotations") or {}
    return Owned(metadata["name"], metadata.get("namespace") or "", annotations.get(RELEASE_NAME))
