"""Node objects as members come and go: what was kept of one is put back, one is deleted.

What must not be here: what is to be kept (that is :mod:`appliance.model.node.membership`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from appliance.adapters.kubernetes.connection.client import (
    TIMEOUT,
    ApiRefused,
    ApiSilent,
    api_errors,
)
from appliance.adapters.kubernetes.nodes.conflicts import (
    CONFLICT,
    HINT,
    Conflict,
    retry_on_conflict,
)
from appliance.errors import ClusterError, ClusterRefused
from appliance.model.state.cluster.cluster import ClusterNode
from appliance.model.state.nodes.maintenance import MANAGER
from appliance.model.state.nodes.node_metadata import NodeMetadata, new_role_taints

if TYPE_CHECKING:
    from appliance.adapters.kubernetes.connection.connection import ApiConnection


class KubernetesMembers:
    """Writes and deletes Node objects of one site."""

    def __init__(self, api: ApiConnection) -> None:
        self._api = api

    def put_back(self, node: ClusterNode, kept: NodeMetadata) -> None:
        """Write what was kept; what else is on the Node stays, but for kubeadm's new role taints.

        Raises:
            ClusterError: the API refused, or others change the node all the time.
        """
        gone = set(new_role_taints(kept, node))
        with self._core(f"{node.name}: its labels and taints could not be restored") as core:
            metadata = {"labels": dict(kept.labels), "annotations": dict(kept.annotations)}
            core.patch_node(node.name, {"metadata": metadata}, _request_timeout=TIMEOUT)
            retry_on_conflict(node.name, lambda: _put_taints_back(core, node.name, kept, gone))

    def delete(self, name: str) -> None:
        """Delete a Node object; one that is not there is no error.

        Raises:
            ClusterError: the API refused.
        """
        with self._core(f"{name}: its Node object could not be deleted") as core:
            try:
                with api_errors():
                    core.delete_node(name, _request_timeout=TIMEOUT)
            except ApiRefused as error:
                if error.status != 404:
                    raise

    def annotate(self, names: Sequence[str], key: str, value: str | None) -> None:
        """Write an annotation on Node objects; None removes it.

        Raises:
            ClusterError: the API refused; some of the nodes may have it.
        """
        body = {"metadata": {"annotations": {key: value}}}
        with self._core(f"{', '.join(names)}: {key} could not be written") as core:
            for name in names:
                core.patch_node(name, body, _request_timeout=TIMEOUT, field_manager=MANAGER)

    @contextmanager
    def _core(self, what: str) -> Iterator[Any]:
        from kubernetes.client import CoreV1Api

        with self._api.any_client() as client:
            try:
                with api_errors():
                    yield CoreV1Api(client)
            except ApiRefused as error:
                kind = ClusterRefused if error.is_final else ClusterError
                raise kind(f"{what}: {error.reason}", hint=HINT) from error
            except ApiSilent as error:
                raise ClusterError(f"{what}: {error.reason}", hint=HINT) from error


def _put_taints_back(core: Any, node: str, kept: NodeMetadata, gone: set[str]) -> None:
    now = core.read_node(node, _request_timeout=TIMEOUT)
    # The list is replaced as a whole; with its version a taint set meanwhile is not lost.
    taints = [t.to_dict() for t in now.spec.taints or [] if _text(t) not in gone]
    there = {_text(t) for t in now.spec.taints or []}
    taints += [_taint(text) for text in kept.taints if text not in there]
    body = {
        "metadata": {"resourceVersion": now.metadata.resource_version},
        "spec": {"taints": [_plain(taint) for taint in taints]},
    }
    try:
        with api_errors():
            core.patch_node(node, body, _request_timeout=TIMEOUT)
    except ApiRefused as error:
        if error.status == CONFLICT:
            raise Conflict(f"{node}: another client changed the Node", hint=HINT) from error
        raise


def _text(taint: Any) -> str:
    return f"{taint.key}={taint.value or ''}:{taint.effect}"


def _taint(text: str) -> dict[str, str]:
    """``key=value:effect`` as the API has it."""
    key, _, rest = text.partition("=")
    value, _, effect = rest.rpartition(":")
    return {"key": key, "value": value, "effect": effect}


def _plain(taint: dict[str, Any]) -> dict[str, Any]:
    """A taint without what is empty, under the API's own names."""
    names = {"time_added": "timeAdded"}
    found = {names.get(key, key): value for key, value in taint.items() if value}
    if "timeAdded" in found and not isinstance(found["timeAdded"], str):
        found["timeAdded"] = found["timeAdded"].isoformat()
    return found
