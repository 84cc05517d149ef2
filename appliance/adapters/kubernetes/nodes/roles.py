"""Run:ai's roles and the API server's flags, read from the Kubernetes API; roles written to it.

What must not be here: which role a node is to have
(:mod:`appliance.model.components.node_metadata.node_roles`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import yaml

from appliance.adapters.kubernetes.connection.client import ApiRefused, NotReadable, call
from appliance.adapters.kubernetes.connection.connection import ApiConnection
from appliance.errors import ApplianceError, ClusterError
from appliance.model.components.node_metadata.node_roles import RolesPlan
from appliance.model.state.cluster.api_flags import ApiFlags, oidc_flags
from appliance.model.state.nodes.roles import AnchoredObject, NodeAffinity, RolesView

# The namespaces of Run:ai's own software: the cluster part and the backend.
NAMESPACES: Final = ("runai", "runai-backend")
RUNAI_CONFIG: Final = ("run.ai", "v1", "runai", "runaiconfigs", "runai")
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
Call = Callable[..., Any]


class RolesApi(ApiConnection):
    """Reads and writes the roles of a site's nodes."""

    def roles(self) -> RolesView:
        """Run:ai's labels, its RunaiConfig, and what is bound to nodes.

        Raises:
            NodeUnreachable: no API server answers.
            ApplianceError: it refused.
        """
        with self.any_client() as client:
            try:
                return read_roles(client, call)
            except NotReadable as error:
                raise ApplianceError(
                    f"the roles could not be read: {error}", hint="appliance status"
                ) from error

    def write_roles(self, plan: RolesPlan) -> None:
        """Write labels and the RunaiConfig's patch, and nothing else, in the plan's order.

        Raises:
            ClusterError: the API refused.
        """
        with self.any_client() as client:
            try:
                write_roles(client, call, plan)
            except NotReadable as error:
                raise ClusterError(
                    f"the roles could not be written: {error}",
                    hint="run the same command again: it resumes here",
                ) from error


def read_roles(client: Any, call: Call, nodes: Sequence[Any] | None = None) -> RolesView:
    """The labels of every node, the RunaiConfig, and what is bound to a node."""
    from kubernetes.client import CoreV1Api

    core = CoreV1Api(client)
    found = call(core.list_node).items if nodes is None else nodes
    return RolesView(
        labels={node.metadata.name: dict(node.metadata.labels or {}) for node in found},
        affinity=_affinity(client, call),
        anchored=tuple(_anchored(core, call)),
    )


def _affinity(client: Any, call: Call) -> NodeAffinity | None:
    """What the RunaiConfig says; None without the object or without its definition."""
    from kubernetes.client import CustomObjectsApi

    try:
        config = call(CustomObjectsApi(client).get_namespaced_custom_object, *RUNAI_CONFIG)
    except ApiRefused as error:
        if error.status == 404:
            return None
        raise
    said = config.get("spec", {}).get("global", {}).get("nodeAffinity", {})
    return NodeAffinity(
        restrict_scheduling=bool(said.get("restrictScheduling")),
        restrict_system=bool(said.get("restrictRunaiSystem")),
    )


def _anchored(core: Any, call: Call) -> Iterator[AnchoredObject]:
    for namespace in NAMESPACES:
        for pod in call(core.list_namespaced_pod, namespace).items:
            owners = [
                o.name for o in pod.metadata.owner_references or [] if o.kind == "StatefulSet"
            ]
            if owners and pod.spec.node_name:
                yield AnchoredObject("StatefulSet", namespace, owners[0], pod.spec.node_name)
        for claim in call(core.list_namespaced_persistent_volume_claim, namespace).items:
            node = (claim.metadata.annotations or {}).get(SELECTED_NODE)
            if node:
                yield AnchoredObject("claim", namespace, claim.metadata.name, node)


def write_roles(client: Any, call: Call, plan: RolesPlan) -> None:
    """Write the plan; a restriction is loosened before its labels go, and set after they came."""
    if plan.patch_first:
        _patch(client, call, plan.patch)
    _label(client, call, plan)
    if not plan.patch_first:
        _patch(client, call, plan.patch)


def _label(client: Any, call: Call, plan: RolesPlan) -> None:
    from kubernetes.client import CoreV1Api

    core = CoreV1Api(client)
    nodes: dict[str, dict[str, str | None]] = {}
    for change in plan.changes:
        nodes.setdefault(change.node, {})[change.key] = "" if change.present else None
    for name, labels in nodes.items():
        call(core.patch_node, name, {"metadata": {"labels": labels}})


def _patch(client: Any, call: Call, patch: Mapping[str, Any] | None) -> None:
    from kubernetes.client import CustomObjectsApi

    if patch is not None:
        write = CustomObjectsApi(client).patch_namespaced_custom_object
        call(write, *RUNAI_CONFIG, dict(patch))


def api_flags(pods: Sequence[Any], config: Mapping[str, str] | None) -> ApiFlags:
    """The OIDC flags in ClusterConfiguration, and what the control plane's own pods run with."""
    servers = _flags_of(pods, "kube-apiserver")
    managers = _flags_of(pods, "kube-controller-manager")
    configuration = yaml.safe_load((config or {}).get("ClusterConfiguration") or "{}") or {}
    arguments = (configuration.get("apiServer") or {}).get("extraArgs") or {}
    return ApiFlags(
        configured=oidc_flags(arguments),
        running={node: oidc_flags(flags) for node, flags in servers.items()},
        service_ranges=_values_of(servers, "service-cluster-ip-range"),
        pod_ranges=_values_of(managers, "cluster-cidr"),
    )


def _flags_of(pods: Sequence[Any], component: str) -> dict[str, dict[str, str]]:
    """Node -> the flags of its pod of that component."""
    return {
        pod.spec.node_name: _flags(pod.spec.containers[0])
        for pod in pods
        if (pod.metadata.labels or {}).get("component") == component and pod.spec.node_name
    }


def _values_of(flags: Mapping[str, Mapping[str, str]], name: str) -> dict[str, str]:
    return {node: own[name] for node, own in flags.items() if own.get(name)}


def _flags(container: Any) -> dict[str, str]:
    words = [*(container.command or []), *(container.args or [])]
    pairs = (word[2:].partition("=") for word in words if word.startswith("--"))
    return {name: value for name, _, value in pairs}
