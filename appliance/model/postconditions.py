"""When is a step done on a node? One predicate per step, over what was observed.

Each returns one sentence per thing that is not so, empty when the step is done there. Planner and
verifier ask the same predicate; neither reads the journal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from appliance.model import pod_guard
from appliance.model.cluster import Cluster, ClusterNode, ClusterState
from appliance.model.desired import MODULES, SYSCTLS, Desired
from appliance.model.final_settings import other_names, other_pod_range, other_service_range
from appliance.model.groups import CONTROL_PLANE
from appliance.model.machine_identity import identity_of
from appliance.model.site_certificate import service_ends_soon
from appliance.model.traces import is_member

if TYPE_CHECKING:
    from appliance.model.photograph import Photograph
    from appliance.model.site import Node


NODE_PODS = ("flannel", "kube-proxy")
# Unauthorized: how a registry says that it wants a login.
LOGIN_WANTED = 401
CONTROL_PLANE_PODS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")


@dataclass(frozen=True)
class Observed:
    """What was seen in one round.

    Attributes:
        photographs: node name -> photograph; every node of the site that could be reached.
        cluster: what the API said, with the same freshness.
    """

    photographs: Mapping[str, Photograph]
    cluster: ClusterState


def host(node: Node, desired: Desired, observed: Observed) -> Iterator[str]:
    """Kernel settings live and persisted, swap off for good, every name of the site known."""
    photo = observed.photographs[node.name]
    yield from _sysctls(photo)
    yield from _modules(photo)
    if desired.override("host_base", "swap_managed") is not False:
        if photo.at("swap.active"):
            yield "swap is on"
        if photo.at("swap.fstab"):
            yield "swap would come back at the next boot (/etc/fstab)"
    known = photo.at("resolver.hosts") or {}
    absent = [
        (address, name)
        for address, names in desired.host_names_as_lists.items()
        if (here := known.get(address, ())) != names
        for name in names
        if name not in here
    ]
    if absent:
        more = f", nor {len(absent) - 1} other names" if absent[1:] else ""
        yield f"/etc/hosts does not give {absent[0][0]} the name {absent[0][1]}{more}"


def _sysctls(photo: Photograph) -> Iterator[str]:
    live, kept = photo.at("sysctl") or {}, photo.at("sysctl_persisted") or {}
    for key, value in SYSCTLS.items():
        if live.get(key) != value:
            yield f"{key} is {live.get(key, 'absent')}, not {value}"
        elif kept.get(key) != value:
            yield f"{key} is {value} now and would not survive a reboot"


def _modules(photo: Photograph) -> Iterator[str]:
    builtin = set(photo.at("modules.builtin") or ())
    loaded = set(photo.at("modules.loaded") or ()) | builtin
    persisted = set(photo.at("modules.persisted") or ()) | builtin
    for module in MODULES:
        if module not in loaded:
            yield f"kernel module {module} is not loaded"
        elif module not in persisted:
            yield f"kernel module {module} would not be loaded after a reboot"


def artifacts(node: Node, desired: Desired, observed: Observed) -> Iterator[str]:
    """The bundle in custody, complete and served; every node trusts and uses it; time in sync."""
    photo = observed.photographs[node.name]
    if node.name == desired.site.services_node.name:
        yield from custody(photo, desired)
        yield from service_ends_soon("the bundle server's certificate", "artifacts", desired, photo)
    if not photo.at("artifacts.serving.ok"):
        yield f"https://{desired.site.settings.artifacts} does not answer here"
    if not photo.at("trust.site_ca_sha256"):
        yield "does not have the site's CA"
    yield from _package_source(photo, desired)
    if photo.at("clock.service") != "chrony":
        yield "time is not kept by chrony"


def custody(photo: Photograph, desired: Desired) -> Iterator[str]:
    """What keeps the services node from having the whole bundle that is meant."""
    digest = photo.at("artifacts.bundle_digest")
    signature = desired.signature.sha256 if desired.signature else None
    if not photo.at("artifacts.present"):
        yield "no bundle in custody"
    elif desired.bundle_digest and digest != desired.bundle_digest:
        yield f"holds bundle {str(digest)[:12]}, not {desired.bundle_digest[:12]}"
    elif not photo.at("artifacts.complete"):
        yield "the bundle in custody is not complete"
    elif signature and photo.at("artifacts.signature_sha256") != signature:
        yield "does not hold the signature of its bundle"


def _package_source(photo: Photograph, desired: Desired) -> Iterator[str]:
    source = photo.at("artifacts.package_source") or {}
    if desired.site.settings.artifacts not in str(source.get("line") or ""):
        yield "does not take its packages from the bundle"
    elif desired.manifest and source.get("index_sha256") != desired.manifest.package_index_sha256:
        yield "takes its packages by the index of another bundle"


def runtime(node: Node, desired: Desired, observed: Observed) -> Iterator[str]:
    """Docker of the release's line runs with the systemd cgroup driver, and is held."""
    photo = observed.photographs[node.name]
    version = photo.at("runtime.docker.version")
    wanted = ".".join(
        desired.release.versions_on(desired.site.settings.operating_system).docker.split(".")[:2]
    )
    if not version:
        yield "Docker does not run"
        return
    if not str(version).startswith(wanted + "."):
        yield f"Docker is {version}, not {wanted}"
    if photo.at("runtime.docker.cgroup_driver") != "systemd":
        yield f"Docker's cgroup driver is {photo.at('runtime.docker.cgroup_driver')}, not systemd"
    if photo.unit("docker").get("enabled") != "enabled":
        yield "Docker would not start at boot"


def registry(node: Node, desired: Desired, observed: Observed) -> Iterator[str]:
    """Images can be pulled, and pods are kept from the registry and the export."""
    yield from images(node, desired, observed)
    if node.in_cluster:
        yield from pod_guard.unmet(node, desired.site, observed.photographs)


def images(node: Node, desired: Desired, observed: Observed) -> Iterator[str]:
    """The registry answers over TLS and holds every image whole; members have what they run."""
    photo = observed.photographs[node.name]
    name = desired.site.settings.registry
    authority = photo.at("trust.site_ca_sha256")
    if node.name == desired.site.services_node.name:
        held = photo.at("registry.images") or {}
        wanted = desired.manifest.images if desired.manifest else {}
        absent = [image for image, digest in wanted.items() if held.get(image) != digest]
        if not photo.at("registry.configured"):
            yield "no registry is set up"
        elif absent:
            yield f"the registry lacks {len(absent)} of {len(wanted)} images, first {absent[0]}"
        elif photo.at("registry.missing_blobs"):
            yield f"the registry lacks {len(photo.at('registry.missing_blobs'))} blobs"
        yield from _open_to_writing(name, photo)
        yield from service_ends_soon("the registry's certificate", "registry", desired, photo)
    if not photo.at("registry.serving.ok"):
        yield f"https://{name} does not answer here: {photo.at('registry.serving.error')}"
    trusted = (photo.at("trust.docker") or {}).get(name)
    if node.in_cluster and (trusted != authority or not authority):
        yield f"Docker does not trust {name}"
    if node.in_cluster:
        yield from _programs(photo, desired)


def _open_to_writing(name: str, photo: Photograph) -> Iterator[str]:
    """A write without a login is refused; an answer that did not come says nothing."""
    code = photo.at("registry.writing.code")
    if code not in (None, LOGIN_WANTED):
        yield f"https://{name} takes a write without a login: it answers {code}, not {LOGIN_WANTED}"


def control_plane(node: Node, desired: Desired, observed: Observed) -> Iterator[str]:
    """The node is a control-plane member of an initialised cluster of the release's version."""
    photo = observed.photographs[node.name]
    yield from _kubelet(photo)
    cluster = observed.cluster
    if not isinstance(cluster, Cluster):
        yield (
            "there is no cluster yet"
            if not photo.at("kubernetes.manifests")
            else ("the API does not answer")
        )
        return
    member = cluster.nodes.get(node.name)
    if member is None or not member.control_plane:
        yield "is not a control-plane member of the cluster"
    else:
        if not photo.at("kubernetes.api_healthz.ok"):
            yield "its API server is not healthy"
        yield from _passport(photo, member)
    yield from _as_it_was_made(node, desired, observed)
    for what in cluster.missing:
        yield f"the cluster has no {what}"
    if desired.site.settings.control_plane_endpoint.balancer == "keepalived":
        for unit in ("haproxy", "keepalived"):
            if photo.unit(unit).get("active") != "active":
                yield f"{unit} does not run"


def _as_it_was_made(node: Node, desired: Desired, observed: Observed) -> Iterator[str]:
    """What no step can change on a living cluster: preflight refuses it (decision 62)."""
    services = other_service_range(node, desired, observed)
    if services:
        yield (
            f"its API server gives services addresses of {services}, not of "
            f"{desired.site.settings.network.service_cidr}"
        )
    pods = other_pod_range(node, desired, observed)
    if pods:
        yield (
            f"its controller manager gives nodes parts of {pods} for pods, not of "
            f"{desired.site.settings.network.pod_cidr}"
        )
    if other_names(node, desired, observed):
        name = desired.site.settings.control_plane_endpoint.name
        yield f"the certificate of its API server does not name {name}"


def network(node: Node, desired: Desired, observed: Observed) -> Iterator[str]:
    """Flannel carries the site's pod range, the node is Ready and so is every system pod on it."""
    cluster = observed.cluster
    if not isinstance(cluster, Cluster):
        yield "there is no cluster yet"
        return
    wanted = str(desired.site.settings.network.pod_cidr)
    if cluster.pod_network != wanted:
        yield f"flannel carries {cluster.pod_network or 'nothing'}, not {wanted}"
    yield from _in_cluster(node, desired, observed.photographs[node.name], cluster)
    if node.name == desired.site.control_plane[0].name:
        for pod in cluster.pods:
            where = cluster.nodes.get(pod.node or "")
            # A pod on a node that is away says nothing of the network; its node's own step does.
            if pod.app == "kube-dns" and not pod.ready and (where is None or where.ready):
                yield f"pod {pod.name} is not ready: {pod.reason or pod.phase}"


def workers(node: Node, desired: Desired, observed: Observed) -> Iterator[str]:
    """The node is a Ready member with this machine's serial, its network and proxy pods ready."""
    yield from _kubelet(observed.photographs[node.name])
    cluster = observed.cluster
    if not isinstance(cluster, Cluster):
        yield "there is no cluster yet"
        return
    yield from _in_cluster(node, desired, observed.photographs[node.name], cluster)
    if node.name in cluster.nodes:
        yield from _passport(observed.photographs[node.name], cluster.nodes[node.name])


def network_proof(node: Node, desired: Desired, observed: Observed) -> Iterator[str]:  # noqa: ARG001
    """Pods have reached each other from this Ready member since it joined."""
    cluster = observed.cluster
    member = cluster.nodes.get(node.name) if isinstance(cluster, Cluster) else None
    if member and member.ready and not member.network_proven:
        yield "pods have not proved its network since it joined"


def _passport(photo: Photograph, member: ClusterNode) -> Iterator[str]:
    """Its Node object tells which machine was accepted, for the day it is replaced."""
    if member.serial is None and photo.serial:
        yield "its accepted serial is not on its Node object"
    elif not member.identity.is_told and identity_of(photo).is_told:
        yield "its machine's UUID, board and NICs are not on its Node object"


def _programs(photo: Photograph, desired: Desired) -> Iterator[str]:
    for program in ("kubeadm", "kubelet"):
        version = photo.at(f"kubernetes.{program}_version")
        if version != desired.kubernetes_version:
            yield f"{program} is {version or 'absent'}, not {desired.kubernetes_version}"
    there = set(photo.at("cni.bin") or ())
    artifacts = desired.manifest.artifacts if desired.manifest else ()
    absent = [item.name for item in artifacts if item.kind == "cni" and item.name not in there]
    if absent:
        yield f"has no CNI plugin {absent[0]}, without which no pod gets a network"


def _kubelet(photo: Photograph) -> Iterator[str]:
    if not photo.at("kubernetes.kubelet_active"):
        yield "the kubelet does not run"


def _in_cluster(node: Node, desired: Desired, photo: Photograph, cluster: Cluster) -> Iterator[str]:
    member = cluster.nodes.get(node.name)
    if member is None:
        yield "is not a member of the cluster"
        return
    if photo.kubernetes_untold:
        yield "was too busy to tell whether it is a member"
        return
    if not is_member(photo):
        # The API notices after 40 s; until then it calls the Node of a wiped machine Ready.
        yield "is not a member any more: its Node is of the machine as it was"
        return
    if not member.ready:
        yield f"is not Ready: {member.not_ready_reason or 'no reason given'}"
    elif member.version != desired.kubernetes_version:
        yield f"its kubelet says {member.version}, not {desired.kubernetes_version}"
    if member.internal_ip and member.internal_ip != node.ip:
        yield f"is known to the cluster by {member.internal_ip}, not by {node.ip}"
    yield from _pods_on(node, cluster)


def _pods_on(node: Node, cluster: Cluster) -> Iterator[str]:
    here = [pod for pod in cluster.pods if pod.node == node.name]
    needed = [*NODE_PODS, *(CONTROL_PLANE_PODS if CONTROL_PLANE in node.groups else ())]
    for app in needed:
        pods = [pod for pod in here if pod.app == app]
        if not pods:
            yield f"no {app} pod runs on it"
        for pod in pods:
            if not pod.ready:
                yield f"pod {pod.name} is not ready: {pod.reason or pod.phase}"
