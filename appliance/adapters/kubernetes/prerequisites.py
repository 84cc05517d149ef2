"""Read what Run:ai meets in a cluster: classes, collectors, GPUs, labels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from appliance.model.state.cluster.cluster import HelmRelease
from appliance.model.state.cluster.prerequisites import OwnedObject, Prerequisites
from appliance.model.state.nodes.roles import SYSTEM_LABEL

DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
RELEASE_NAME: Final = "meta.helm.sh/release-name"
PROMETHEUS: Final = ("monitoring.coreos.com", "v1", "prometheuses")

Call = Callable[..., Any]


def read_prerequisites(client: Any, call: Call, releases: Iterable[HelmRelease]) -> Prerequisites:
    """Ask the API.

    Args:
        client: an API client.
        call: calls a function of the client and translates its errors.
        releases: every helm release of the cluster.
    """
    from kubernetes.client import ApisApi, CoreV1Api, NetworkingV1Api, StorageV1Api

    classes = call(StorageV1Api(client).list_storage_class).items
    nodes = call(CoreV1Api(client).list_node).items
    groups = {group.name for group in call(ApisApi(client).get_api_versions).groups}
    return Prerequisites(
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
        releases={f"{item.namespace}/{item.name}": item.status for item in releases},
        system_labelled=tuple(
            node.metadata.name for node in nodes if SYSTEM_LABEL in (node.metadata.labels or {})
        ),
    )


def _prometheuses(client: Any, call: Call) -> Iterable[OwnedObject]:
    from kubernetes.client import CustomObjectsApi

    listed = call(CustomObjectsApi(client).list_cluster_custom_object, *PROMETHEUS)
    return [_owned(item["metadata"]) for item in listed["items"]]


def _owned(metadata: Mapping[str, Any]) -> OwnedObject:
    annotations = metadata.get("annotations") or {}
    return OwnedObject(
        metadata["name"], metadata.get("namespace") or "", annotations.get(RELEASE_NAME)
    )
