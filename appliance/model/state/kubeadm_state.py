"""Signs that a machine is, or was, in a cluster: evidence against a fresh ``kubeadm init``."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from appliance.model.site.settings import Site
from appliance.model.state.facts.facts import Photograph, watching
from appliance.model.state.facts.identity import identity_of

if TYPE_CHECKING:
    from appliance.model.state.facts.facts import Photograph

CA: Final = "/etc/kubernetes/pki/ca.crt"
# The others point to a control-plane node's own API server, in any cluster.
_OF_MEMBERS: Final = ("kubelet.conf", "bootstrap-kubelet.conf", "admin.conf")


def cluster_traces(photograph: Photograph) -> str | None:
    """Return a control-plane node's cluster data in words; None when there is none."""
    found = []
    if photograph.at("kubernetes.etcd_data.present"):
        found.append("etcd data")
    if photograph.at("kubernetes.manifests"):
        found.append("static pod manifests")
    if photograph.at("kubernetes.pki"):
        found.append("PKI")
    return ", ".join(found) or None


def pod_containers(photograph: Photograph) -> int:
    """Return how many containers of pods run on a machine; 0 in an old document without it."""
    return int(photograph.at("runtime.docker.containers_of_pods") or 0)


def containers_untold(photograph: Photograph) -> bool:
    """Whether its Docker did not answer the query for them."""
    with watching() as missed:
        pod_containers(photograph)
    return bool(missed)


def is_member(photograph: Photograph) -> bool:
    """Whether the kubelet has an identity of its own: ``/etc/kubernetes/kubelet.conf`` exists."""
    return any(
        str(config.get("path", "")).endswith("kubelet.conf")
        and "bootstrap" not in str(config.get("path", ""))
        for config in photograph.at("kubernetes.kubeconfigs") or ()
    )


def servers_of(photo: Photograph) -> tuple[str, ...]:
    """Return the API servers in a machine's member kubeconfigs."""
    configs = photo.items("kubernetes.kubeconfigs")
    named = (c for c in configs if str(c.get("path", "")).rpartition("/")[2] in _OF_MEMBERS)
    return tuple(sorted({str(c["server"]) for c in named if c.get("server")}))


def api_hosts(site: Site) -> frozenset[str]:
    """Return every name and address by which members may reach the site's API."""
    endpoint = site.settings.control_plane_endpoint
    found = {endpoint.name.lower(), *(node.ip for node in site.control_plane)}
    return frozenset(found | ({str(endpoint.virtual_address)} - {"None"}))


def strange_servers(photo: Photograph, hosts: Collection[str]) -> tuple[str, ...]:
    """Return a machine's API servers of another cluster, by host: a port may change."""
    return tuple(server for server in servers_of(photo) if _host(server) not in hosts)


def _host(server: str) -> str | None:
    try:
        return urlsplit(server).hostname
    except ValueError:
        return None


def ca_of(photo: Photograph) -> str | None:
    """Return the sha256 of a member's cluster CA; None when it is missing or unread."""
    found = (c.get("sha256") for c in photo.items("kubernetes.pki") if c.get("path") == CA)
    return next((str(sha256) for sha256 in found if sha256), None)


def named(photo: Photograph) -> str:
    """Return the machine in words: its hostname, and its serial or other identifiers."""
    return f"the machine {photo.hostname or 'without a name'} ({identity_of(photo).words()})"
