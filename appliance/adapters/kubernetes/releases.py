"""Helm releases of a cluster, from the labels and annotations of Helm's own secrets.

Only metadata is asked for: the secrets hold every value of a release, secret ones too, and none of
them may come to the control host.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from appliance.adapters.kubernetes.connection.client import get_untyped
from appliance.model.state.cluster.cluster import (
    CERTIFICATE_ANNOTATION,
    CHART_ANNOTATION,
    DEFAULTS_ANNOTATION,
    ORIGIN_ANNOTATION,
    SITE_VALUES_ANNOTATION,
    VALUES_ANNOTATION,
    HelmRelease,
    RunaiLogins,
)
from appliance.model.state.cluster.prerequisites import BACKEND_RELEASE

# The ConfigMap in the backend's namespace that role runai_cluster keeps.
CLUSTER_RECORD: Final = "appliance-cluster"
UNCONFIRMED: Final = "unconfirmed"
FIRST_PASSWORDS: Final = "first-passwords"
RESEARCHERS: Final = "researcher-login"
USERS: Final = re.compile(r"[\w.+-]{1,64}@[\w.-]{1,190}(,[\w.+-]{1,64}@[\w.-]{1,190}){0,9}")
METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
PLACE: Final = re.compile(r"[\w .()@-]{1,120}")
MOST_PLACES: Final = 50
NO_RECORD: Final = (False, RunaiLogins())
Call = Callable[..., Any]


def read_releases(client: Any, call: Call) -> tuple[HelmRelease, ...]:
    """The newest revision of each release; ``call`` is how a request is made."""
    answer = call(_Secrets(client))
    return newest(item["metadata"] for item in answer.get("items") or ())


def read_history(client: Any, call: Call) -> tuple[Mapping[str, str], ...]:
    """Every kept revision of each release: its names, number, status and times; no values."""
    answer = call(_Secrets(client))
    return history(item["metadata"] for item in answer.get("items") or ())


def history(secrets: Iterable[Mapping[str, Any]]) -> tuple[Mapping[str, str], ...]:
    """The same from the metadata of Helm's secrets, by release and revision."""
    found = []
    for metadata in secrets:
        labels = metadata.get("labels") or {}
        if {"name", "status"} <= set(labels) and str(labels.get("version")).isdecimal():
            found.append(
                {
                    "namespace": str(metadata.get("namespace")),
                    "release": str(labels["name"]),
                    "revision": str(labels["version"]),
                    "status": str(labels["status"]),
                    "created": str(metadata.get("creationTimestamp") or ""),
                    "modified": str(labels.get("modifiedAt") or ""),
                }
            )
    found.sort(key=lambda one: (one["namespace"], one["release"], int(one["revision"])))
    return tuple(found)


def _places(text: str | None) -> tuple[str, ...] | None:
    """The places that a node noted; None for what is no list of texts."""
    try:
        found = json.loads(text or "null")
    except ValueError:
        return None
    if not isinstance(found, list) or len(found) > MOST_PLACES:
        return None
    return tuple(one for one in found if isinstance(one, str) and PLACE.fullmatch(one))


def read_record(client: Any, call: Call) -> tuple[bool, RunaiLogins]:
    """Read the record of Run:ai's cluster.

    Returns:
        Whether the backend was not seen to know the cluster yet, and what is noted of its logins.
    """
    from kubernetes.client import CoreV1Api

    found = call(
        CoreV1Api(client).list_namespaced_config_map,
        BACKEND_RELEASE,
        field_selector=f"metadata.name={CLUSTER_RECORD}",
    )
    data: dict[str, str] = {k: v for item in found.items for k, v in (item.data or {}).items()}
    said = data.get(FIRST_PASSWORDS, "")
    users = () if said == "none" else tuple(said.split(",")) if USERS.fullmatch(said) else None
    switched = {"on": True, "by-hand": False}.get(data.get(RESEARCHERS, ""))
    return UNCONFIRMED in data, RunaiLogins(users, switched)


class _Secrets:
    """The request, past the typed API, which knows no way to ask for metadata alone."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def __call__(self, *, _request_timeout: tuple[int, int]) -> Any:
        from kubernetes.client import ApiException

        answer = get_untyped(
            self._client,
            "/api/v1/secrets?labelSelector=owner%3Dhelm",
            {"Accept": METADATA_ONLY},
            _request_timeout=_request_timeout,
        )
        if answer.status != 200:
            raise ApiException(status=answer.status, reason=answer.reason)
        return json.loads(answer.data)


def newest(secrets: Iterable[Mapping[str, Any]]) -> tuple[HelmRelease, ...]:
    """The newest revision of each release, by the metadata of all of their secrets."""
    found: dict[tuple[str, str], HelmRelease] = {}
    for metadata in secrets:
        labels, notes = metadata.get("labels") or {}, metadata.get("annotations") or {}
        if not {"name", "status", "version"} <= set(labels):
            continue
        release = HelmRelease(
            namespace=metadata["namespace"],
            name=labels["name"],
            status=labels["status"],
            revision=int(labels["version"]),
            chart_sha256=notes.get(CHART_ANNOTATION),
            values_sha256=notes.get(VALUES_ANNOTATION),
            site_values_sha256=notes.get(SITE_VALUES_ANNOTATION),
            origin_sha256=notes.get(ORIGIN_ANNOTATION),
            certificate_sha256=notes.get(CERTIFICATE_ANNOTATION),
            vendor_defaults=_places(notes.get(DEFAULTS_ANNOTATION)),
        )
        key = (release.namespace, release.name)
        if key not in found or found[key].revision < release.revision:
            found[key] = release
    return tuple(found.values())
