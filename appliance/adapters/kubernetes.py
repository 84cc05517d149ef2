"""The Kubernetes API of a site, by the official client, through an SSH tunnel.

The control host needs SSH only: admin credentials are read from a control-plane node over SSH and
kept in memory, so a laptop that never saw this site can look at it. ``kubernetes`` is imported
inside functions: it takes a second, and ``--help`` must not pay for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import yaml

from appliance.adapters.kubernetes_gpu import read_gpu_operators, read_gpu_stack
from appliance.adapters.kubernetes_objects import node_of, pod_network_of, pod_of
from appliance.adapters.kubernetes_releases import read_releases
from appliance.adapters.kubernetes_storage import read_storage
from appliance.adapters.kubernetes_surroundings import read_surroundings
from appliance.errors import ApplianceError, ClusterError, NodeUnreachable
from appliance.model.cluster import (
    GPU_ANNOTATION,
    NETWORK_ANNOTATION,
    Cluster,
    ClusterState,
    NoCluster,
    SystemPod,
    Unreachable,
)
from appliance.model.traces import cluster_traces

if TYPE_CHECKING:
    from appliance.adapters.ssh import SshNodes
    from appliance.model.node_roles import RolesPlan, RolesView
    from appliance.model.observation import GpuProof, PodView
    from appliance.model.photograph import Photograph
    from appliance.model.site import Node, Site

API_PORT = 6443
SYSTEM_NAMESPACES = ("kube-system", "kube-flannel")
VENDOR_NAMESPACES = ("runai-backend", "runai")
TIMEOUT = (3, 10)


class KubernetesApi:
    """Reads the cluster of one site.

    Args:
        site: whose control-plane nodes are asked, in the inventory's order.
        nodes: SSH to them.
    """

    def __init__(self, site: Site, nodes: SshNodes) -> None:
        self._site = site
        self._nodes = nodes

    def read(self, photographs: Mapping[str, Photograph]) -> ClusterState:
        """The cluster's state; a cluster that does not answer is a value, not an error."""
        traces = {
            node.name: trace
            for node in self._site.control_plane
            if node.name in photographs
            and (trace := cluster_traces(photographs[node.name])) is not None
        }
        unseen = [n.name for n in self._site.control_plane if n.name not in photographs]
        if not traces and not unseen:
            return NoCluster()
        reasons = [f"{name}: not photographed" for name in unseen]
        for node in self._site.control_plane:
            if node.name not in traces:
                continue
            try:
                with self.client(node) as client:
                    return self._with_parts(client, _read(client))
            except NodeUnreachable as error:
                reasons.append(error.message)
            except _NotReadable as error:
                reasons.append(f"{node.name}: {error}")
        return Unreachable("; ".join(reasons), traces)

    def _with_parts(self, client: Any, cluster: Cluster) -> Cluster:
        """The cluster with what the site's optional parts say of themselves."""
        from appliance.adapters.kubernetes_roles import read_roles

        settings = self._site.settings
        if settings.nfs is not None:
            cluster = replace(cluster, storage=read_storage(client, _call))
        if settings.gpu is None and settings.runai is None:
            return cluster
        releases, operators = read_releases(client, _call), read_gpu_operators(client, _call)
        stack = read_gpu_stack(client, _call, pod_of, operators) if settings.gpu else None
        return replace(
            cluster,
            releases=releases,
            gpu_stack=stack,
            gpu_operators=operators,
            surroundings=read_surroundings(client, _call, releases) if settings.runai else None,
            vendor_pods=_pods(client, VENDOR_NAMESPACES) if settings.runai else (),
            roles=read_roles(client, _call) if settings.runai else None,
        )

    def prove_gpus(
        self, nodes: Sequence[str], image: str, meanwhile: Callable[[], None]
    ) -> GpuProof:
        """Let a pod on each node list the GPUs that it was given; ``meanwhile`` they start.

        Raises:
            ClusterError: the API refused what the test needs.
        """
        from appliance.adapters.gpu_proof import prove_gpus

        proof = prove_gpus(self, nodes, image, meanwhile)
        well = [name for name in nodes if not proof.faults_of(name)]
        self._annotate(well, GPU_ANNOTATION, _now())
        self._annotate([name for name in nodes if name not in well], GPU_ANNOTATION, None)
        return proof

    def prove(self, nodes: Sequence[str], image: str) -> tuple[str, ...]:
        """Test the pod network with real pods; one sentence per fault.

        That it was proven is written on the Node objects (decision 2), or taken from them when it
        was not, so that the next run proves it again.

        Raises:
            ClusterError: the API refused what the test needs.
        """
        from appliance.adapters.network_proof import prove_network

        faults = prove_network(self, nodes, image)
        self._annotate(nodes, NETWORK_ANNOTATION, None if faults else _now())
        return faults

    def look_from_pods(self, nodes: Sequence[str], image: str, names: Sequence[str]) -> PodView:
        """The same test, and how pods resolve ``names``; nothing is written on Node objects.

        Raises:
            ClusterError: the API refused what the test needs.
        """
        from appliance.adapters.network_proof import look_from_pods

        return look_from_pods(self, nodes, image, names=names)

    def roles(self) -> RolesView:
        """Run:ai's labels, its RunaiConfig, and what is bound to nodes.

        Raises:
            NodeUnreachable: no API server answers.
            ApplianceError: it refused.
        """
        from appliance.adapters.kubernetes_roles import read_roles

        with self.any_client() as client:
            try:
                return read_roles(client, _call)
            except _NotReadable as error:
                raise ApplianceError(
                    f"the roles could not be read: {error}", hint="appliance status"
                ) from error

    def write_roles(self, plan: RolesPlan) -> None:
        """Write labels and the RunaiConfig's patch, and nothing else, in the plan's order.

        Raises:
            ClusterError: the API refused.
        """
        from appliance.adapters.kubernetes_roles import write_roles

        with self.any_client() as client:
            try:
                write_roles(client, _call, plan)
            except _NotReadable as error:
                raise ClusterError(
                    f"the roles could not be written: {error}",
                    hint="the same command goes on from here",
                ) from error

    def _annotate(self, nodes: Sequence[str], key: str, value: str | None) -> None:
        from kubernetes.client import CoreV1Api

        if not nodes:
            return
        with self.any_client() as client:
            core = CoreV1Api(client)
            for name in nodes:
                try:
                    _call(core.patch_node, name, {"metadata": {"annotations": {key: value}}})
                except _NotReadable as error:
                    raise ClusterError(
                        f"{name}: the annotation {key} could not be written: {error}",
                        hint="the same command goes on from here",
                    ) from error

    @contextmanager
    def client(self, node: Node) -> Iterator[Any]:
        """An API client that talks to ``node``'s own API server.

        Raises:
            _NotReadable: no credentials there, or nothing answers.
        """
        from kubernetes.config import new_client_from_config_dict

        answer = self._nodes.run(
            node,
            "if [ -r {0} ]; then cat {0}; else sudo -n cat {0}; fi".format(
                "/etc/kubernetes/admin.conf"
            ),
            timeout=10,
        )
        if answer.code != 0:
            raise _NotReadable("no /etc/kubernetes/admin.conf there")
        config = yaml.safe_load(answer.output)
        with self._nodes.tunnel(node, str(node.address.ip), API_PORT) as port:
            for cluster in config["clusters"]:
                cluster["cluster"]["server"] = f"https://127.0.0.1:{port}"
                cluster["cluster"]["tls-server-name"] = "kubernetes"
            client = new_client_from_config_dict(config)  # type: ignore[no-untyped-call]
            client.configuration.retries = False
            client.configuration.proxy = None
            client.rest_client.pool_manager.connection_pool_kw["retries"] = False
            try:
                yield client
            finally:
                client.close()

    @contextmanager
    def any_client(self) -> Iterator[Any]:
        """A client to the first control-plane node whose API server answers.

        Raises:
            NodeUnreachable: none does.
        """
        from kubernetes.client import VersionApi

        reasons = []
        for node in self._site.control_plane:
            with ExitStack() as stack:
                try:
                    client = stack.enter_context(self.client(node))
                    _call(VersionApi(client).get_code)
                except NodeUnreachable as error:
                    reasons.append(error.message)
                    continue
                except _NotReadable as error:
                    reasons.append(f"{node.name}: {error}")
                    continue
                yield client
                return
        raise NodeUnreachable(
            f"no API server answers: {'; '.join(reasons)}",
            hint="see what is wrong: appliance status",
        )


def load_library() -> None:
    """Import what :meth:`KubernetesApi.read` imports: half a second of this machine's time."""
    from kubernetes.client import (  # noqa: F401
        ApisApi,
        AppsV1Api,
        CoreV1Api,
        CustomObjectsApi,
        NetworkingV1Api,
        StorageV1Api,
        VersionApi,
    )
    from kubernetes.config import new_client_from_config_dict  # noqa: F401


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


class _NotReadable(Exception):
    """The API of one node could not be read; the text says why."""


def _call(function: Callable[..., Any], *arguments: object) -> Any:
    from kubernetes.client import ApiException
    from urllib3.exceptions import HTTPError

    try:
        return function(*arguments, _request_timeout=TIMEOUT)
    except ApiException as error:
        raise _NotReadable(f"the API answered {error.status} {error.reason}") from error
    except (HTTPError, OSError) as error:
        raise _NotReadable(f"the API does not answer: {error.__class__.__name__}") from error


def _read(client: Any) -> Cluster:
    from kubernetes.client import AppsV1Api, CoreV1Api, VersionApi

    from appliance.adapters.kubernetes_roles import api_flags

    core, apps = CoreV1Api(client), AppsV1Api(client)
    version = _call(VersionApi(client).get_code).git_version
    nodes = _call(core.list_node).items
    pods = _listed(client, SYSTEM_NAMESPACES)
    maps = {
        (item.metadata.namespace, item.metadata.name): item.data or {}
        for namespace in SYSTEM_NAMESPACES
        for item in _call(core.list_namespaced_config_map, namespace).items
    }
    # That they were asked for ends kubeadm's work; that their pods run is for the network to show.
    asked_for = {
        item.metadata.name
        for listed in (apps.list_namespaced_daemon_set, apps.list_namespaced_deployment)
        for item in _call(listed, "kube-system").items
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
        nodes={node.metadata.name: node_of(node) for node in nodes},
        pods=tuple(pod_of(pod) for pod in pods),
        version=version,
        pod_network=pod_network_of(maps.get(("kube-flannel", "kube-flannel-cfg"))),
        missing=tuple(missing),
        api_flags=api_flags(pods, maps.get(("kube-system", "kubeadm-config"))),
    )


def _pods(client: Any, namespaces: Iterable[str]) -> tuple[SystemPod, ...]:
    return tuple(pod_of(pod) for pod in _listed(client, namespaces))


def _listed(client: Any, namespaces: Iterable[str]) -> list[Any]:
    from kubernetes.client import CoreV1Api

    core = CoreV1Api(client)
    return [
        pod for namespace in namespaces for pod in _call(core.list_namespaced_pod, namespace).items
    ]
