"""Checks of addresses, ranges, ports and the endpoint of a site: conflicts and gaps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ipaddress import IPv4Address, IPv4Network
from typing import Final

from appliance.model.site import addresses
from appliance.model.site.files.diagnostics import SiteFault, Where
from appliance.model.site.files.draft import Draft, KnownContent, NodeDraft
from appliance.model.site.groups import CLUSTER_GROUPS, CONTROL_PLANE, SERVICES
from appliance.model.site.settings import SiteSettings

_ENDPOINT: Final[Where] = ("control_plane_endpoint",)
_POD: Final[Where] = ("network", "pod_cidr")
_SERVICE: Final[Where] = ("network", "service_cidr")
_LAN: Final[Where] = ("network", "lan_cidrs")
_NODE_PREFIX: Final = 24
_KUBERNETES_PORTS: Final = {6443, 2379, 2380, 10250, 10256, 10257, 10259}
_DOCKER_BRIDGE: Final = IPv4Network("172.17.0.0/16")
_LINK_LOCAL: Final = (IPv4Network("127.0.0.0/8"), IPv4Network("169.254.0.0/16"))


def addresses_are_unique(draft: Draft, _known: KnownContent) -> Iterator[SiteFault]:
    """No two nodes, BMCs or the virtual address share an address.

    Nodes of one chassis may share a BMC, where each of them names a system of its own.
    """
    seen: dict[IPv4Address, str] = {}
    systems: dict[IPv4Address, dict[str | None, str]] = {}
    for name, node, key, address in _written(draft):
        if key == "bmc_address" and address in systems:
            yield from _of_one_bmc(name, node, address, systems[address])
        elif address in seen:
            yield node.document.fault(
                (key,),
                f"{address} is also {seen[address]}",
                "give each node and each BMC an address of its own",
            )
        if key == "bmc_address":
            systems.setdefault(address, {}).setdefault(node.bmc_system, name)
        seen.setdefault(address, f"{name}'s {key}")
    virtual = draft.value.control_plane_endpoint.virtual_address if draft.value else None
    if virtual is not None and virtual in seen:
        yield draft.fault(
            (*_ENDPOINT, "virtual_address"),
            f"{virtual} is also {seen[virtual]}",
            "write an address that no host has; it moves between the control-plane nodes",
        )


def _written(draft: Draft) -> Iterator[tuple[str, NodeDraft, str, IPv4Address]]:
    """Each address of each node: its name, what is written of it, the key, the address."""
    for name in draft.hosts.groups:
        node = draft.nodes.get(name)
        if node is not None and node.address is not None:
            yield name, node, "address", node.address.ip
        if node is not None and node.bmc_address is not None:
            yield name, node, "bmc_address", node.bmc_address


def _of_one_bmc(
    name: str, node: NodeDraft, address: IPv4Address, others: Mapping[str | None, str]
) -> Iterator[SiteFault]:
    """The fault of a node at the BMC of others, unless each names another system of it."""
    system = node.bmc_system
    if system is not None and system in others:
        yield node.document.fault(
            ("bmc_system",),
            f"the system {system} of the BMC {address} is also {others[system]}'s",
            "name this node's own; the BMC lists them: appliance hardware inspect " + name,
        )
    elif system is None or None in others:
        other = others[None] if None in others else next(iter(others.values()))
        yield node.document.fault(
            ("bmc_address",),
            f"{address} is also {other}'s bmc_address",
            "give each BMC an address of its own; where one BMC serves several nodes, write each "
            "node's system into its host_vars: bmc_system",
        )


def bmc_settings_have_a_bmc(draft: Draft, _known: KnownContent) -> Iterator[SiteFault]:
    """A fingerprint or a system belongs to a BMC with an address."""
    for name, node in draft.nodes.items():
        settings = node.checked.value
        if name not in draft.hosts.groups or settings is None or settings.bmc_address is not None:
            continue
        for key in ("bmc_fingerprint", "bmc_system"):
            if getattr(settings, key) is not None:
                yield node.document.fault(
                    (key,),
                    f"{key} is set, but not the address of the BMC",
                    "write bmc_address, too",
                )


def nodes_stand_in_a_lan(draft: Draft, _known: KnownContent) -> Iterator[SiteFault]:
    """Each address lies in a LAN of the site; without a list of LANs there is one."""
    if draft.value is None or not draft.sound(_LAN):
        return
    written = draft.value.network.lan_cidrs
    found = draft.addresses()
    if written is None:
        networks = [address.network for address in found.values()]
        if not networks:
            return
        home = max(networks, key=networks.count)
        for name, address in found.items():
            if address.network != home:
                yield draft.nodes[name].document.fault(
                    ("address",),
                    f"{address} is not in {home}, where the other nodes are",
                    "correct it, or list both LANs under network.lan_cidrs if they are routed",
                )
        return
    for name, address in found.items():
        if not any(address.network.subnet_of(lan) for lan in written):
            listed = ", ".join(map(str, written)) or "an empty list"
            yield draft.nodes[name].document.fault(
                ("address",),
                f"{address} is in no LAN of network.lan_cidrs ({listed})",
                "correct the address or its prefix, or add its LAN to the list",
            )


def ranges_have_a_size(draft: Draft, _known: KnownContent) -> Iterator[SiteFault]:
    """The ranges are as large as kubeadm asks, and pods get a /24 on each node."""
    if draft.value is None:
        return
    service = draft.value.network.service_cidr
    if draft.sound(_SERVICE) and not 12 <= service.prefixlen <= 28:
        yield draft.fault(
            _SERVICE,
            f"{service}: the API server takes a service range between /12 and /28",
            "write it like 10.96.0.0/12",
        )
    pods = draft.value.network.pod_cidr
    if not draft.sound(_POD):
        return
    members = sum(1 for groups in draft.hosts.groups.values() if groups & CLUSTER_GROUPS)
    if not 8 <= pods.prefixlen <= _NODE_PREFIX or 2 ** (_NODE_PREFIX - pods.prefixlen) < members:
        yield draft.fault(
            _POD,
            f"{pods} does not hold a /24 for each of {members} nodes",
            "write a range between /8 and /24 that does, such as 10.244.0.0/16",
        )


def ranges_are_apart(draft: Draft, _known: KnownContent) -> Iterator[SiteFault]:
    """Pods, services and LANs do not share an address."""
    if draft.value is None:
        return
    network = draft.value.network
    if draft.sound(_POD, _SERVICE) and network.pod_cidr.overlaps(network.service_cidr):
        yield draft.fault(
            _POD,
            f"the pod range {network.pod_cidr} overlaps the service range {network.service_cidr}",
            "write two ranges that share no address",
        )
    if not draft.sound(_LAN):
        return
    for place, what, cidr in (
        (_POD, "pod", network.pod_cidr),
        (_SERVICE, "service", network.service_cidr),
    ):
        if not draft.sound(place):
            continue
        for lan in addresses.overlapping(cidr, draft.lans()):
            yield draft.fault(
                place,
                f"the {what} range {cidr} overlaps the LAN {lan}",
                "write a range that is used nowhere on the site",
            )


def _single_addresses(value: SiteSettings) -> Iterator[tuple[Where, str]]:
    for index, dns in enumerate(value.dns_servers):
        yield ("dns_servers", index), str(dns)
    for index, ntp in enumerate(value.ntp_servers):
        yield ("ntp_servers", index), ntp
    if value.nfs is not None:
        yield ("nfs", "server"), value.nfs.server
    virtual = value.control_plane_endpoint.virtual_address
    if virtual is not None:
        yield (*_ENDPOINT, "virtual_address"), str(virtual)


def servers_are_reachable(draft: Draft, _known: KnownContent) -> Iterator[SiteFault]:
    """No server of the site has an address that leads into the cluster or nowhere."""
    if draft.value is None or not draft.sound(_POD, _SERVICE):
        return
    network = draft.value.network
    inner = (network.pod_cidr, network.service_cidr)
    lans = draft.lans()
    for place, text in _single_addresses(draft.value):
        if not addresses.is_address(text):
            continue
        address = IPv4Address(text)
        for cidr in inner:
            # A range that overlaps the LAN is one fault, not one more for each server in it.
            if address in cidr and not addresses.overlapping(cidr, lans):
                yield draft.fault(
                    place,
                    f"{address} lies in {cidr}, which leads into the cluster",
                    "write an address outside the pod and service ranges",
                )
        if any(address in local for local in _LINK_LOCAL):
            yield draft.fault(
                place,
                f"{address} is a loopback or link-local address, which pods cannot reach",
                "write the server's address on the LAN",
            )


def lists_have_no_twins(draft: Draft, _known: KnownContent) -> Iterator[SiteFault]:
    """A server is named once."""
    if draft.value is None:
        return
    for key, values in (
        ("dns_servers", [str(server) for server in draft.value.dns_servers]),
        ("ntp_servers", list(draft.value.ntp_servers)),
    ):
        for index, value in enumerate(values):
            if value in values[:index]:
                yield draft.fault((key, index), f"{value} is listed twice", "delete one of them")


def endpoint_fits(draft: Draft, _known: KnownContent) -> Iterator[SiteFault]:
    """Port and virtual address are those of the chosen balancer."""
    if draft.value is None or not draft.sound((*_ENDPOINT, "balancer")):
        return
    endpoint = draft.value.control_plane_endpoint
    balancer, virtual = endpoint.balancer, endpoint.virtual_address
    place = (*_ENDPOINT, "virtual_address")
    if draft.sound(place):
        if balancer == "none" and virtual is not None:
            yield draft.fault(
                place,
                f"virtual_address {virtual} is not used with balancer: none",
                "delete it, or write balancer: keepalived",
            )
        if balancer != "none" and virtual is None:
            yield draft.fault(
                (*_ENDPOINT, "balancer"),
                f"balancer: {balancer} needs a virtual_address",
                "write virtual_address: a free address, to which the endpoint's name resolves",
            )
        carried = balancer == "keepalived" and virtual is not None and draft.sound(_LAN)
        lans = draft.lans() if carried else ()
        if lans and virtual is not None and not any(virtual in lan for lan in lans):
            yield draft.fault(
                place,
                f"{virtual} is in no LAN of the nodes: keepalived cannot use it",
                f"write a free address in {lans[0]}",
            )
    yield from _endpoint_port(draft, balancer, endpoint.port)


def _endpoint_port(draft: Draft, balancer: str, port: int) -> Iterator[SiteFault]:
    place = (*_ENDPOINT, "port")
    if not draft.sound(place):
        return
    if balancer == "none" and port != 6443:
        yield draft.fault(
            place,
            f"port {port}: without a balancer the API server listens on 6443",
            "write port: 6443",
        )
    if balancer == "keepalived" and port in _KUBERNETES_PORTS:
        yield draft.fault(
            place,
            f"port {port} is in use on each control-plane node: haproxy cannot listen there",
            "write port: 8443",
        )


def service_ports_are_free(draft: Draft, _known: KnownContent) -> Iterator[SiteFault]:
    """Registry and bundle server find their ports free on the services host."""
    if draft.value is None or not draft.sound(("registry",), ("artifacts",)):
        return
    own = () if draft.value.external_registry else (("registry", draft.value.registry),)
    ports = {
        key: addresses.split_host_port(text)[1]
        for key, text in (*own, ("artifacts", draft.value.artifacts))
    }
    if ports.get("registry") == ports["artifacts"]:
        yield draft.fault(
            ("artifacts",),
            f"port {ports['artifacts']} is also the registry's port, on the same host",
            "write another port, such as 9443",
        )
    taken = {draft.value.ssh.port}
    services = draft.hosts.members.get(SERVICES, ())
    if set(services) & set(draft.hosts.members.get(CONTROL_PLANE, ())):
        taken |= _KUBERNETES_PORTS
        if draft.value.control_plane_endpoint.balancer == "keepalived":
            taken.add(draft.value.control_plane_endpoint.port)
    for key, port in ports.items():
        if port in taken:
            yield draft.fault(
                (key,),
                f"port {port} is in use on {services[0] if services else 'the services host'}",
                "write another port, such as 5000 for the registry and 9443 for the artifacts",
            )


NETWORK_CHECKS: Final = (
    addresses_are_unique,
    bmc_settings_have_a_bmc,
    nodes_stand_in_a_lan,
    ranges_have_a_size,
    ranges_are_apart,
    servers_are_reachable,
    lists_have_no_twins,
    endpoint_fits,
    service_ports_are_free,
)


def docker_bridge_meets_lan(draft: Draft, _known: KnownContent) -> Iterator[SiteFault]:
    """Docker's default bridge hides a LAN in the same range."""
    for lan in addresses.overlapping(_DOCKER_BRIDGE, draft.lans()):
        yield draft.fault(
            _LAN,
            f"the LAN {lan} overlaps {_DOCKER_BRIDGE}, the default range of Docker's bridge",
            "hosts in it are not reachable from the nodes; give Docker another range to avoid this",
        )


NETWORK_WARNINGS: Final = (docker_bridge_meets_lan,)
