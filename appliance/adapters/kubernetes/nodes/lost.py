"""What the API says of nodes, their leases, pods, volumes and services, when a node may be lost.

Read only when there is reason to: a healthy site's status asks for none of it. What must not be
here: which node is lost (that is :mod:`appliance.model.node.lost`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from appliance.adapters.kubernetes.connection.client import ApiRefused, ApiSilent, call
from appliance.adapters.kubernetes.objects import node_of, pod_of
from appliance.errors import ApplianceError
from appliance.model.node.lost import Service, Workloads

if TYPE_CHECKING:
    from appliance.adapters.kubernetes.connection.connection import ApiConnection

LEASES: Final = "kube-node-lease"


def read_workloads(api: ApiConnection) -> Workloads:
    """Everything that the loss of a node is judged by.

    Raises:
        ApplianceError: no API server answers, or it refused.
    """
    from kubernetes.client import CoordinationV1Api, CoreV1Api, StorageV1Api

    with api.any_client() as client:
        core: Any = CoreV1Api(client)
        storage: Any = StorageV1Api(client)
        leases: Any = CoordinationV1Api(client)
        try:
            beats = {
                lease.metadata.name: lease.spec.renew_time
                for lease in _items(leases.list_namespaced_lease, LEASES)
            }
            nodes = {node.metadata.name: node_of(node) for node in _items(core.list_node)}
            return Workloads(
                nodes=nodes,
                heartbeats={name: beats[name] for name in nodes if beats.get(name)},
                pods=tuple(pod_of(pod) for pod in _items(core.list_pod_for_all_namespaces)),
                services=tuple(
                    Service(s.metadata.namespace, s.metadata.name, s.spec.selector or {})
                    for s in _items(core.list_service_for_all_namespaces)
                ),
                volumes={
                    (claim.namespace, claim.name): volume.metadata.name
                    for volume in _items(core.list_persistent_volume)
                    if (claim := volume.spec.claim_ref) is not None
                },
                attached=tuple(
                    (found.spec.node_name, found.spec.source.persistent_volume_name)
                    for found in _items(storage.list_volume_attachment)
                    if found.spec.source.persistent_volume_name
                ),
            )
        except (ApiRefused, ApiSilent) as error:
            raise ApplianceError(
                f"the objects stuck on lost nodes could not be read: {error.reason}",
                hint="try again: appliance status",
            ) from error


def _items(function: Any, *words: str) -> list[Any]:
    return list(call(function, *words).items)
