"""Run:ai's prerequisites in a cluster besides nodes and system pods, as read from the API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

BACKEND_RELEASE = "runai-backend"
CLUSTER_RELEASE = "runai-cluster"
OWN_RELEASES = frozenset({BACKEND_RELEASE, CLUSTER_RELEASE})


@dataclass(frozen=True)
class OwnedObject:
    """An object of the cluster and its helm release, if any."""

    name: str
    namespace: str = ""
    release: str | None = None

    @property
    def is_runais(self) -> bool:
        """Whether it comes from Run:ai's own charts."""
        return self.release in OWN_RELEASES

    def __str__(self) -> str:
        where = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{where} (helm release {self.release})" if self.release else where


@dataclass(frozen=True)
class Prerequisites:
    """Everything that the checks before Run:ai need from the API.

    Attributes:
        default_storage_classes: names of those marked as default.
        releases: ``namespace/name`` of every helm release -> its newest revision's status.
        system_labelled: nodes with the label of Run:ai's system nodes, whatever its value.
    """

    ingress_classes: tuple[OwnedObject, ...] = ()
    storage_classes: tuple[str, ...] = ()
    default_storage_classes: tuple[str, ...] = ()
    prometheuses: tuple[OwnedObject, ...] = ()
    releases: Mapping[str, str] = field(default_factory=dict)
    system_labelled: tuple[str, ...] = ()

    @property
    def has_backend(self) -> bool:
        """Whether the backend is installed already."""
        return f"{BACKEND_RELEASE}/{BACKEND_RELEASE}" in self.releases
