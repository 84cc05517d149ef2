"""The volumes that Run:ai's claims are bound to, as the API tells them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from appliance.adapters.kubernetes.connection.client import ApiRefused, ApiSilent, call
from appliance.errors import ClusterError
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
    from kubernetes.client import CoreV1Api

    with api.any_client() as client:
        try:
            items: list[Any] = call(CoreV1Api(client).list_persistent_volume).items
        except (ApiRefused, ApiSilent) as error:
            raise ClusterError(
                f"the volumes of Run:ai could not be read: {error}",
                hint="see what is wrong: appliance status",
            ) from error
    found = [
        ClaimedVolume(
            item.metadata.name,
            f"{claim.namespace}/{claim.name}",
            str(item.spec.persistent_volume_reclaim_policy or ""),
        )
        for item in items
        if (claim := item.spec.claim_ref) is not None and claim.namespace in NAMESPACES
    ]
    return tuple(sorted(found, key=lambda volume: volume.name))
