"""Firewall rules that keep pods from the shared storage and from the registry's push port.

Mounts and pulls come from the node itself. A pod's own traffic leaves the node under the node's
address (flannel masquerades), so only the sending node can tell the two apart. The rules are in
table mangle, which runs before masquerading and after a Service was resolved.

A source address alone does not identify a pod: a pod can forge any address, and through VXLAN
(flannel.1 accepts frames from any sender) even one of the LAN. So all traffic that arrives on a pod
interface counts as a pod's.

The rules do not hold back pods with ``hostNetwork``, which use the node's own address.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address, IPv4Interface
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from appliance.model.site.settings import Node, Site
from appliance.model.site.shared_storage import export_of

if TYPE_CHECKING:
    from appliance.model.state.facts.facts import NodeFacts

    AllFacts = Mapping[str, NodeFacts]

CHAIN = "APPLIANCE-PODS"
# Packets recognised as a pod's continue here.
DENIED = "APPLIANCE-PODS-DENIED"
CHAINS = (CHAIN, DENIED)
HOOKS = ("FORWARD", "INPUT")
UNIT = "pod-guard"
# NFS itself, and the additional ports of version 3.
_NFS_PORTS = (
    ("tcp", 2049),
    ("udp", 2049),
    ("tcp", 111),
    ("udp", 111),
    ("tcp", 20048),
    ("udp", 20048),
)
NOT_SEEN: Final[AllFacts] = MappingProxyType({})
# Frames between nodes come from the nodes themselves, never from a pod or through a Service.
_VXLAN_PORT = 8472
_POD_INTERFACES = ("cni0", "flannel.1")
# Each address adds rules on every member, and the server itself reports the addresses.
_MOST_SEEN = 16
# Ignored when rules are compared: they name modules and do not change the meaning.
_NO_WORDS = {"-m", "tcp", "udp"}


@dataclass(frozen=True)
class GuardedService:
    """A service that no pod may reach.

    Attributes:
        addresses: where it may answer, the site's own address for it first.
        here: whether the node with the rules serves it, under any of its addresses.
    """

    addresses: tuple[str, ...]
    protocol: str
    port: int
    here: bool


def guarded(
    node: Node, site: Site, all_facts: AllFacts = NOT_SEEN, *, stored: bool = True
) -> tuple[GuardedService, ...]:
    """Return what no pod may reach from a node; a foreign server must have an address.

    Args:
        node: whose pods.
        site: with the registry and the shared storage.
        all_facts: facts by node; a server answers on all of its addresses.
        stored: whether the shared storage counts.
    """
    services = site.services_node
    found = []
    # The organisation's registry has a login of its own, and pods of the site may need it.
    if site.settings.external_registry is None:
        everywhere = _addresses(services, site, all_facts)
        found = [GuardedService(everywhere, "tcp", site.registry_port, node == services)]
    export = export_of(site) if stored else None
    if export is not None and _is_address(export.server):
        own = export.node
        everywhere = (export.server,) if own is None else _addresses(own, site, all_facts)
        found += [
            GuardedService(everywhere, protocol, port, node == own) for protocol, port in _NFS_PORTS
        ]
    return tuple(found)


def _addresses(server: Node, site: Site, all_facts: AllFacts) -> tuple[str, ...]:
    """Return every address under which a node of the site may answer.

    They include the site's virtual addresses whether or not the node has them now, so that the
    rules stay the same when an address moves.
    """
    settings = site.settings
    moving = [settings.control_plane_endpoint.virtual_address]
    moving.append(settings.runai.address if settings.runai else None)
    facts = all_facts.get(server.name)
    seen = sorted(str(IPv4Interface(each).ip) for each in facts.addresses) if facts else []
    wanted = (server.ip, *(str(each) for each in moving if each is not None), *seen[:_MOST_SEEN])
    owners = site.by_address
    return tuple(dict.fromkeys(each for each in wanted if owners.get(each, server) == server))


def without_address(site: Site) -> str | None:
    """Return the foreign server without an address: no rule can name it and block pods."""
    export = export_of(site)
    if export is None or _is_address(export.server):
        return None
    return export.server


def rules(
    node: Node, site: Site, all_facts: AllFacts = NOT_SEEN, *, stored: bool = True
) -> tuple[str, ...]:
    """Return the rules of a member, as iptables-save prints them; none for any other node."""
    if not node.in_cluster:
        return ()
    items = guarded(node, site, all_facts, stored=stored)
    return (
        *(f"-A {CHAIN} {whose} -j {DENIED}" for whose in _of_pods(site)),
        f"-A {DENIED} -p udp -m udp --dport {_VXLAN_PORT} -j DROP",
        *(rule for item in items for rule in _rules_of(item)),
    )


def _of_pods(site: Site) -> Iterator[str]:
    yield f"-s {site.settings.network.pod_cidr}"
    yield from (f"-i {interface}" for interface in _POD_INTERFACES)
    # Through a Service with manual endpoints: another node may have masqueraded the sender.
    yield "-m conntrack --ctstate DNAT"


def _rules_of(item: GuardedService) -> Iterator[str]:
    port = f"-p {item.protocol} -m {item.protocol} --dport {item.port}"
    if item.here:
        yield f"-A {DENIED} {port} -m addrtype --dst-type LOCAL -j DROP"
        return
    yield from (f"-A {DENIED} -d {address}/32 {port} -j DROP" for address in item.addresses)


def unmet(node: Node, site: Site, all_facts: AllFacts, *, stored: bool = True) -> Iterator[str]:
    """Yield what is missing on a member; nothing where the rules could not be read."""
    facts = all_facts[node.name]
    seen = facts.at("firewall.pod_guard")
    if not isinstance(seen, list):
        return
    have = {_meaning(str(line)) for line in seen}
    wanted = (
        *rules(node, site, all_facts, stored=stored),
        *(f"-A {hook} -j {CHAIN}" for hook in HOOKS),
    )
    absent = [rule for rule in wanted if _meaning(rule) not in have]
    if absent:
        yield (
            f"pods can reach the shared storage or the registry: {len(absent)} of {len(wanted)} "
            f"rules are missing, first iptables -t mangle {absent[0]}"
        )
    elif facts.unit(UNIT).get("enabled") != "enabled":
        yield f"{UNIT}, which keeps pods from the shared storage, does not start at boot"


def _meaning(rule: str) -> frozenset[str]:
    words = rule.split()
    kept = [word for word in words if word not in _NO_WORDS]
    protocol = words[words.index("-p") + 1] if "-p" in words[:-1] else ""
    return frozenset((*kept, f"protocol {protocol}"))


def _is_address(text: str) -> bool:
    try:
        IPv4Address(text)
    except AddressValueError:
        return False
    return True
