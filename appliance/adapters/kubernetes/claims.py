"""The volumes of a cluster, and those that Run:ai's claims are bound to, as the API tells them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from appliance.adapters.kubernetes.connection.client import ApiRefused, ApiSilent, call
from appliance.errors import ClusterError
from appliance.model.backup.names import plain_words
from appliance.model.backup.not_carried import VolumeData
from appliance.model.components.runai.upgrade.record import ClaimedVolume

if TYPE_CHECKING:
    from appliance.adapters.kubernetes.connection.connection import ApiConnection

NAMESPACES: Final = ("runai-backend", "runai")


def read_claimed_volumes(api: ApiConnection) -> tuple[ClaimedVolume, ...]:
    """Every volume that a claim of Run:ai's namespaces is bound to, by name.

    Raises:
        NodeUnreachable: no API server answers.
        ClusterError: the API refused.
    """
    found = [
        ClaimedVolume(
            item.metadata.name,
            f"{claim.namespace}/{claim.name}",
            str(item.spec.persistent_volume_reclaim_policy or ""),
        )
        for item in _volumes(api, "the volumes of Run:ai")
        if (claim := item.spec.claim_ref) is not None and claim.namespace in NAMESPACES
    ]
    return tuple(sorted(found, key=lambda volume: volume.name))


def read_volumes(api: ApiConnection) -> tuple[VolumeData, ...]:
    """Every volume of the cluster, and where its data has to be, by claim.

    Raises:
        NodeUnreachable: no API server answers.
        ClusterError: the API refused.
    """
    items = _volumes(api, "the volumes")
    return tuple(sorted({VolumeData(_claim(item), plain_words(_place(item))) for item in items}))


def _volumes(api: ApiConnection, what: str) -> list[Any]:
    from kubernetes.client import CoreV1Api

    with api.any_client() as client:
        try:
            items: list[Any] = call(CoreV1Api(client).list_persistent_volume).items
        except (ApiRefused, ApiSilent) as error:
            raise ClusterError(
                f"{what} could not be read: {error}", hint="see what is wrong: appliance status"
            ) from error
    return items


def _claim(item: Any) -> str:
    claim = item.spec.claim_ref
    return f"{claim.namespace}/{claim.name}" if claim is not None else ""


def _place(item: Any) -> str:
    """Where a volume has its data: on a server, on a node, or what its driver calls it."""
    spec = item.spec
    if spec.nfs is not None:
        return f"{spec.nfs.server}:{spec.nfs.path}"
    if spec.host_path is not None:
        return str(spec.host_path.path)
    if spec.local is not None:
        return str(spec.local.path)
    if spec.csi is not None:
        return f"{spec.csi.driver} {spec.csi.volume_handle}"
    return str(item.metadata.name)
