"""The volumes of a cluster, and those that Run:ai's claims are bound to, as the API tells them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from appliance.adapters.kubernetes.connection.client import ApiRefused, ApiSilent, call
from appliance.errors import ClusterError
from appliance.model.backup.names import plain_words
from appliance.model.backup.not_carried import VolumeData
from appliance.model.backup.volumes.record import Claim, User
from appliance.model.components.runai.upgrade.record import ClaimedVolume

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from appliance.adapters.kubernetes.connection.connection import ApiConnection

_ENDED: Final = ("Succeeded", "Failed")
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


def read_claims(api: ApiConnection) -> tuple[Claim, ...]:
    """Every claim that is bound to a volume, by name, and the pods that have it.

    Raises:
        NodeUnreachable: no API server answers.
        ClusterError: the API refused.
    """
    from kubernetes.client import CoreV1Api

    # A volume that is kept after its claim went still names the claim.
    bound = [one for one in _volumes(api, "the volumes") if one.status.phase == "Bound"]
    found = {claim: item for item in bound if (claim := _claim(item))}
    with api.any_client() as client:
        try:
            pods = call(CoreV1Api(client).list_pod_for_all_namespaces).items
        except (ApiRefused, ApiSilent) as error:
            raise ClusterError(
                f"the pods could not be read: {error}", hint="see what is wrong: appliance status"
            ) from error
    users = _users_of(found, [one for one in pods if one.status.phase not in _ENDED])
    return tuple(
        Claim(
            claim,
            str(item.spec.claim_ref.uid or ""),
            str(item.metadata.name),
            str(item.spec.nfs.server) if item.spec.nfs else "",
            str(item.spec.nfs.path) if item.spec.nfs else plain_words(_place(item)),
            tuple(sorted(users.get(claim, ()))),
        )
        for claim, item in sorted(found.items())
    )


def _users_of(found: Mapping[str, Any], pods: Sequence[Any]) -> Mapping[str, set[User]]:
    """Claim -> the pods that have it, or have its folder by another claim or by none."""
    users: dict[str, set[User]] = {}
    folders: dict[str, set[User]] = {}
    for pod in pods:
        names = _claims_of(pod)
        own = [found[name].spec.nfs for name in names if name in found]
        for name in names:
            users.setdefault(name, set()).add(_user(pod))
        for nfs in (*own, *(one.nfs for one in pod.spec.volumes or ())):
            if nfs is not None:
                folders.setdefault(_folder(nfs), set()).add(_user(pod))
    for claim, item in found.items():
        for folder, others in folders.items() if item.spec.nfs else ():
            # Not what is above: the provisioner has all of the export. Servers have several names.
            if f"{folder}/".startswith(f"{_folder(item.spec.nfs)}/"):
                users.setdefault(claim, set()).update(others)
    return users


def _folder(nfs: Any) -> str:
    return str(nfs.path).rstrip("/")


def _claims_of(pod: Any) -> set[str]:
    """The claims that a pod has."""
    namespace, own = pod.metadata.namespace, pod.metadata.name
    found = set()
    for volume in pod.spec.volumes or ():
        if volume.persistent_volume_claim is not None:
            found.add(f"{namespace}/{volume.persistent_volume_claim.claim_name}")
        elif volume.ephemeral is not None:
            found.add(f"{namespace}/{own}-{volume.name}")
    return found


def _user(pod: Any) -> User:
    """A pod, and what a person scales to stop it."""
    name, space = plain_words(str(pod.metadata.name), 253), str(pod.metadata.namespace)
    owner = next((one for one in pod.metadata.owner_references or () if one.controller), None)
    if owner is None:
        return User(name, f"pod/{name}", space)
    kind, owned = str(owner.kind).lower(), str(owner.name)
    # A ReplicaSet of a Deployment has its name, and this label's value after it.
    mark = (pod.metadata.labels or {}).get("pod-template-hash", "")
    if kind == "replicaset" and mark and owned.endswith(f"-{mark}"):
        kind, owned = "deployment", owned.removesuffix(f"-{mark}")
    return User(name, plain_words(f"{kind}/{owned}", 300), space)


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
