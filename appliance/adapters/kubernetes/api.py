"""The Kubernetes API of a site, by the official client, through an SSH tunnel.

The control host needs SSH only: admin credentials are read from a control-plane node over SSH and
kept in memory, so a laptop that never saw this site can look at it. ``kubernetes`` is imported
inside functions: it takes a second, and ``--help`` must not pay for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from appliance.adapters.kubernetes.connection.client import (
    NotReadable,
    call,
)
from appliance.adapters.kubernetes.connection.connection import ApiConnection, tell
from appliance.adapters.kubernetes.connection.first import first_open
from appliance.adapters.kubernetes.gpu import (
    read_discoveries,
    read_gpu_operators,
    read_gpu_stack,
)
from appliance.adapters.kubernetes.nodes.roles import RolesApi, api_flags, read_roles
from appliance.adapters.kubernetes.objects import node_of, pod_network_of, pod_of
from appliance.adapters.kubernetes.pod_tests.annotated import PodTests
from appliance.adapters.kubernetes.prerequisites import read_prerequisites
from appliance.adapters.kubernetes.releases import NO_RECORD, read_record, read_releases
from appliance.adapters.kubernetes.storage import read_storage
from appliance.model.state.cluster.cluster import (
    Cluster,
    ClusterState,
    NoCluster,
    Unreachable,
)
from appliance.model.state.cluster.pods import Pod
from appliance.model.state.facts.facts import NodeFacts
from appliance.model.state.nodes.kubeadm_state import kubeadm_signs

if TYPE_CHECKING:
    from appliance.adapters.ssh.nodes import SshNodes
    from appliance.model.site.settings import Site

SYSTEM_NAMESPACES = ("kube-system", "kube-flannel")
VENDOR_NAMESPACES = ("runai-backend", "runai")


class ClusterReader(ApiConnection):
    """Reads the cluster of one site.

    Args:
        site: whose control-plane nodes are asked, in the inventory's order.
        nodes: SSH to them.
        seen: told of every answer.
    """

    def __init__(
        self,
        site: Site,
        nodes: SshNodes,
        seen: Callable[[ClusterState], None] = lambda _cluster: None,
    ) -> None:
        super().__init__(site, nodes)
        self._seen = seen

    def read(self, node_facts: Mapping[str, NodeFacts]) -> ClusterState:
        """The cluster's state; a cluster that does not answer is a value, not an error."""
        found = self._read(node_facts)
        self._seen(found)
        return found

    def _read(self, node_facts: Mapping[str, NodeFacts]) -> ClusterState:
        kubeadm_state = {
            node.name: sign
            for node in self.site.control_plane
            if node.name in node_facts
            and (sign := kubeadm_signs(node_facts[node.name])) is not None
        }
        unseen = [n.name for n in self.site.control_plane if n.name not in node_facts]
        if not kubeadm_state and not unseen:
            return NoCluster()
        reasons = [f"{name}: not read" for name in unseen]
        left = [node for node in self.site.control_plane if node.name in kubeadm_state]
        told: dict[str, str] = {}
        while left:
            with first_open(left, self.client, partial(tell, told)) as found:
                if found is not None:
                    node, client = found
                    try:
                        return self._with_parts(client, _read(client))
                    except NotReadable as error:
                        tell(told, node, error)
            left = [node for node in left if node.name not in told]
        return Unreachable("; ".join([*reasons, *self.in_order(told)]), kubeadm_state)

    def _with_parts(self, client: Any, cluster: Cluster) -> Cluster:
        """The cluster with what the site's optional parts say of themselves."""
        settings = self.site.settings
        # Also where site.yml has no nfs: any more: what an earlier one made stays in the cluster.
        cluster = replace(cluster, storage=read_storage(client, call))
        if settings.gpu is None and settings.runai is None:
            return cluster
        releases, operators = read_releases(client, call), read_gpu_operators(client, call)
        stack = read_gpu_stack(client, call, operators) if settings.gpu else None
        unconfirmed, logins = read_record(client, call) if settings.runai else NO_RECORD
        return replace(
            cluster,
            releases=releases,
            gpu_stack=stack,
            gpu_operators=operators,
            discoveries=read_discoveries(client, call),
            prerequisites=read_prerequisites(client, call, releases) if settings.runai else None,
            runai_unconfirmed=unconfirmed,
            runai_logins=logins,
            vendor_pods=_pods(client, VENDOR_NAMESPACES) if settings.runai else (),
            roles=read_roles(client, call) if settings.runai else None,
        )


class KubernetesApi(ClusterReader, PodTests, RolesApi):
    """Everything that a site's workflows ask of its API servers."""


def load_library() -> None:
    """Import what :meth:`KubernetesApi.read` imports: half a second of this machine's time."""
    from kubernetes.client import (  # noqa: F401
        ApiClient,
        ApisApi,
        AppsV1Api,
        Configuration,
        CoreV1Api,
        CustomObjectsApi,
        NetworkingV1Api,
        StorageV1Api,
        VersionApi,
    )


def _read(client: Any) -> Cluster:
    from kubernetes.client import AppsV1Api, CoreV1Api, VersionApi

    core, apps = CoreV1Api(client), AppsV1Api(client)
    version = call(VersionApi(client).get_code).git_version
    nodes = call(core.list_node).items
    listed_pods = _listed(client, SYSTEM_NAMESPACES)
    pods = tuple(pod_of(pod) for pod in listed_pods)
    maps = {
        (item.metadata.namespace, item.metadata.name): item.data or {}
        for namespace in SYSTEM_NAMESPACES
        for item in call(core.list_namespaced_config_map, namespace).items
    }
    # That they were asked for ends kubeadm's work; that their pods run is for the network to show.
    asked_for = {
        item.metadata.name
        for listed in (apps.list_namespaced_daemon_set, apps.list_namespaced_deployment)
        for item in call(listed, "kube-system").items
    }
    missing = [
        what
        for what, there in (
            ("ConfigMap kubeadm-config", ("kube-system", "kubeadm-config") in maps),
            ("kube-proxy", "kube-proxy" in asked_for),
            ("CoreDNS", "coredns" in asked_for),
        )
        if not there
    ]
    return Cluster(
        nodes={node.metadata.name: node_of(node, pods) for node in nodes},
        pods=pods,
        version=version,
        pod_network=pod_network_of(maps.get(("kube-flannel", "kube-flannel-cfg"))),
        missing=tuple(missing),
        api_flags=api_flags(listed_pods, maps.get(("kube-system", "kubeadm-config"))),
    )


def _pods(client: Any, namespaces: Iterable[str]) -> tuple[Pod, ...]:
    return tuple(pod_of(pod) for pod in _listed(client, namespaces))


def _listed(client: Any, namespaces: Iterable[str]) -> list[Any]:
    from kubernetes.client import CoreV1Api

    core = CoreV1Api(client)
    return [
        pod for namespace in namespaces for pod in call(core.list_namespaced_pod, namespace).items
    ]
