"""What the API says of nodes, their leases, pods, volumes and services, when a node may be lost.

Read only when there is reason to: a healthy site's status asks for none of it. What must not be
here: which node is lost (that is :mod:`appliance.model.loss`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from appliance.errors import ApplianceError
from appliance.model.loss import Service, Sign, Tenancy, Tenant

if TYPE_CHECKING:
    from appliance.adapters.kubernetes import KubernetesApi

TIMEOUT: Final = (3, 10)
LEASES: Final = "kube-node-lease"


def read_tenancy(api: KubernetesApi) -> Tenancy:
    """Everything that the loss of a node is judged by.

    Raises:
        ApplianceError: no API server answers, or it refused.
    """
    from kubernetes.client import ApiException, CoordinationV1Api, CoreV1Api, StorageV1Api
    from urllib3.exceptions import HTTPError

    with api.any_client() as client:
        core: Any = CoreV1Api(client)
        storage: Any = StorageV1Api(client)
        leases: Any = CoordinationV1Api(client)
        try:
            renewed = {
                lease.metadata.name: lease.spec.renew_time
                for lease in _items(leases.list_namespaced_lease, LEASES)
            }
            return Tenancy(
                signs={node.metadata.name: _sign(node, renewed) for node in _items(core.list_node)},
                pods=tuple(_tenant(pod) for pod in _items(core.list_pod_for_all_namespaces)),
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
        except (ApiException, HTTPError, OSError) as error:
            why = getattr(error, "reason", None) or error.__class__.__name__
            raise ApplianceError(
                f"what is stuck on lost nodes could not be read: {why}",
                hint="look again: appliance status",
            ) from error


def _items(function: Any, *words: str) -> list[Any]:
    return list(function(*words, _request_timeout=TIMEOUT).items)


def _sign(node: Any, renewed: Mapping[str, Any]) -> Sign:
    ready = next((c for c in node.status.conditions or [] if c.type == "Ready"), None)
    return Sign(
        ready=ready is not None and ready.status == "True",
        renewed=renewed.get(node.metadata.name),
        changed=ready.last_transition_time if ready else None,
    )


def _tenant(pod: Any) -> Tenant:
    owner = next((o for o in pod.metadata.owner_references or [] if o.controller), None)
    conditions = {c.type: c.status for c in pod.status.conditions or []}
    ending = pod.metadata.deletion_timestamp is not None
    claims = (volume.persistent_volume_claim for volume in pod.spec.volumes or [])
    return Tenant(
        namespace=pod.metadata.namespace,
        name=pod.metadata.name,
        node=pod.spec.node_name or "",
        owner=(owner.kind, owner.name) if owner else None,
        labels=pod.metadata.labels or {},
        phase=pod.status.phase or "Unknown",
        ready=conditions.get("Ready") == "True" and not ending,
        ending=ending,
        claims=tuple(claim.claim_name for claim in claims if claim),
    )
