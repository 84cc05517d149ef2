"""Reads what the cluster holds of shared storage: its class and the volumes of that class."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from appliance.model.site.shared_storage import (
    PROVISIONER,
    PROVISIONER_NAMESPACE,
    STORAGE_CLASS,
    TESTED_ANNOTATION,
)
from appliance.model.state.cluster.cluster import ClusterStorage, Volume

DEFAULT_ANNOTATION = "storageclass.kubernetes.io/is-default-class"


def read_storage(client: Any, call: Callable[..., Any]) -> ClusterStorage:
    """The class and its volumes.

    Args:
        client: an API client.
        call: how the adapter calls the API, with its time limits and errors.
    """
    from kubernetes.client import CoreV1Api, StorageV1Api

    classes = {
        item.metadata.name: item for item in call(StorageV1Api(client).list_storage_class).items
    }
    ours = classes.get(STORAGE_CLASS)
    notes = (ours.metadata.annotations or {}) if ours else {}
    volumes = {
        item.metadata.name: Volume(
            source=f"{item.spec.nfs.server}:{item.spec.nfs.path}" if item.spec.nfs else "no NFS",
            phase=item.status.phase or "",
            reason=item.status.message or "",
        )
        for item in call(CoreV1Api(client).list_persistent_volume).items
        if item.spec.storage_class_name == STORAGE_CLASS
    }
    return ClusterStorage(
        is_class=ours is not None,
        is_default=notes.get(DEFAULT_ANNOTATION) == "true",
        tested=notes.get(TESTED_ANNOTATION),
        provisioner=ours.provisioner if ours else None,
        provisioner_ready=ours is not None
        and ours.provisioner == PROVISIONER
        and _is_ready(call(CoreV1Api(client).list_namespaced_pod, PROVISIONER_NAMESPACE).items),
        mount_options=tuple((ours.mount_options if ours else None) or ()),
        volumes=volumes,
    )


def _is_ready(pods: list[Any]) -> bool:
    """Whether one of the pods is ready and stays."""
    return any(
        condition.type == "Ready" and condition.status == "True"
        for pod in pods
        if pod.metadata.deletion_timestamp is None
        for condition in pod.status.conditions or ()
    )
