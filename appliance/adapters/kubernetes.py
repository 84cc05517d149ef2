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

from appliance.adapters.kubernetes_client import (
    NotReadable,
    NotReady,
    api_client,
    ask_readiness,
    ask_version,
    call,
    credentials_of,
)
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
            except NotReadable as error:
                reasons.append(f"{node.name}: {error}")
        return Unreachable("; ".join(reasons), traces)

    def _with_parts(self, client: Any, cluster: Cluster) -> Cluster:
        """The cluster with what the site's optional parts say of themselves."""
        from appliance.adapters.kubernetes_roles import read_roles

        settings = self._site.settings
        if settings.nfs is not None:
            cluster = replace(cluster, storage=read_storage(client, call))
        if settings.gpu is None and settings.runai is None:
            return cluster
        releases, operators = read_releases(client, call), read_gpu_operators(client, call)
        stack = read_gpu_stack(client, call, pod_of, operators) if settings.gpu else None
        return replace(
            cluster,
            releases=releases,
            gpu_stack=stack,
            gpu_operators=operators,
            surroundings=read_surroundings(client, call, releases) if settings.runai else None,
            vendor_pods=_pods(client, VENDOR_NAMESPACES) if settings.runai else (),
            roles=read_roles(client, call) if settings.runai else None,
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
        from appliance.adapters.kubernetes_roles import write_roles

        with self.any_client() as client:
            try:
                write_roles(client, call, plan)
            except NotReadable as error:
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
                    call(core.patch_node, name, {"metadata": {"annotations": {key: value}}})
                except NotReadable as error:
                    raise ClusterError(
                        f"{name}: the annotation {key} could not be written: {error}",
                        hint="the same command goes on from here",
                    ) from error

    @contextmanager
    def client(self, node: Node) -> Iterator[Any]:
        """An API client that talks to ``node``'s own API server.

        Raises:
            NotReadable: no whole credentials there.
        """
        answer = self._nodes.run(
            node,
            "if [ -r {0} ]; then cat {0}; else sudo -n cat {0}; fi".format(
                "/etc/kubernetes/admin.conf"
            ),
            timeout=10,
        )
        if answer.code != 0:
            raise NotReadable("no /etc/kubernetes/admin.conf there")
        credentials = credentials_of(answer.output)
        with (
            self._nodes.tunnel(node, str(node.address.ip), API_PORT) as port,
            api_client(credentials, port) as client,
        ):
            yield client

    @contextmanager
    def any_client(self) -> Iterator[Any]:
        """A client to the first control-plane node whose API server is ready.

        Where none is, to the first that tells its version: a server that has just started works
        before it calls itself ready.

        Raises:
            NodeUnreachable: none answers.
        """
        reasons: dict[str, str] = {}
        not_ready: list[Node] = []
        # The second list is what the first pass puts there.
        for nodes, ask in ((self._site.control_plane, ask_readiness), (not_ready, ask_version)):
            for node in nodes:
                with ExitStack() as stack:
                    try:
                        client = stack.enter_context(self.client(node))
                        ask(client)
                    except NodeUnreachable as error:
                        reasons[node.name] = error.message
                        continue
                    except NotReadable as error:
                        reasons[node.name] = f"{node.name}: {error}"
                        if isinstance(error, NotReady):
                            not_ready.append(node)
                        continue
                    yield client
                    return
        raise NodeUnreachable(
            f"no API server answers: {'; '.join(reasons.values())}",
            hint="see what is wrong: appliance status",
        )


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


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _read(client: Any) -> Cluster:
    from kubernetes.client import AppsV1Api, CoreV1Api, VersionApi

    from appliance.adapters.kubernetes_roles import api_flags

    core, apps = CoreV1Api(client), AppsV1Api(client)
    version = call(VersionApi(client).get_code).git_version
    nodes = call(core.list_node).items
    pods = _listed(client, SYSTEM_NAMESPACES)
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
        pod for namespace in namespaces for pod in call(core.list_namespaced_pod, namespace).items
    ]
