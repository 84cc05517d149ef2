"""Signs that a machine is, or was, in a cluster: evidence against a fresh ``kubeadm init``."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final
from urllib.parse import urlsplit

from appliance.model.site.settings import Site
from appliance.model.state.facts.facts import NodeFacts, watching
from appliance.model.state.facts.identity import identity_of

RUNTIMES: Final = ("docker", "containerd")
CA: Final = "/etc/kubernetes/pki/ca.crt"
# The others point to a control-plane node's own API server, in any cluster.
_OF_MEMBERS: Final = ("kubelet.conf", "bootstrap-kubelet.conf", "admin.conf")


def kubeadm_signs(facts: NodeFacts) -> str | None:
    """Return a control-plane node's cluster data in words; None when there is none."""
    found = []
    if facts.at("kubernetes.etcd_data.present"):
        found.append("etcd data")
    if facts.at("kubernetes.manifests"):
        found.append("static pod manifests")
    if facts.at("kubernetes.pki"):
        found.append("PKI")
    return ", ".join(found) or None


def pod_containers(facts: NodeFacts) -> int:
    """Return how many containers of pods run on a machine; 0 in an old document without it."""
    return sum(int(facts.at(f"runtime.{name}.containers_of_pods") or 0) for name in RUNTIMES)


def containers_untold(facts: NodeFacts) -> bool:
    """Whether its Docker did not answer the query for them; containerd's are files."""
    with watching() as missed:
        pod_containers(facts)
    return bool(missed)


def is_member(facts: NodeFacts) -> bool:
    """Whether the kubelet has an identity of its own: ``/etc/kubernetes/kubelet.conf`` exists."""
    return any(
        str(config.get("path", "")).endswith("kubelet.conf")
        and "bootstrap" not in str(config.get("path", ""))
        for config in facts.at("kubernetes.kubeconfigs") or ()
    )


def servers_of(facts: NodeFacts) -> tuple[str, ...]:
    """Return the API servers in a machine's member kubeconfigs."""
    configs = facts.items("kubernetes.kubeconfigs")
    named = (c for c in configs if str(c.get("path", "")).rpartition("/")[2] in _OF_MEMBERS)
    return tuple(sorted({str(c["server"]) for c in named if c.get("server")}))


def api_hosts(site: Site) -> frozenset[str]:
    """Return every name and address by which members may reach the site's API."""
    endpoint = site.settings.control_plane_endpoint
    found = {endpoint.name.lower(), *(node.ip for node in site.control_plane)}
    return frozenset(found | ({str(endpoint.virtual_address)} - {"None"}))


def strange_servers(facts: NodeFacts, hosts: Collection[str]) -> tuple[str, ...]:
    """Return a machine's API servers of another cluster, by host: a port may change."""
    return tuple(server for server in servers_of(facts) if host_and_port(server)[0] not in hosts)


def host_and_port(server: str) -> tuple[str | None, int | None]:
    """Return the host and the port of a kubeconfig's server; None for what cannot be read.

    The text is what a node says: a port of letters or an open bracket is no error here.
    """
    try:
        parts = urlsplit(server)
        return parts.hostname, parts.port
    except ValueError:
        return None, None


def ca_of(facts: NodeFacts) -> str | None:
    """Return the sha256 of a member's cluster CA; None when it is missing or unread."""
    found = (c.get("sha256") for c in facts.items("kubernetes.pki") if c.get("path") == CA)
    return next((str(sha256) for sha256 in found if sha256), None)


def named(facts: NodeFacts) -> str:
    """Return the machine in words: its hostname, and its serial or other identifiers."""
    return f"the machine {facts.hostname or 'without a name'} ({identity_of(facts).words()})"
