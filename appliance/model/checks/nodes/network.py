"""Can the node be reached, reach the others, and carry the cluster's ranges?"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from ipaddress import IPv4Address, IPv4Interface, IPv4Network

from appliance.model.components.base.subject import Subject
from appliance.model.site.addresses import split_host_port
from appliance.model.site.settings import Site
from appliance.model.site.ssh import ssh_command
from appliance.model.state.findings import Finding

POD_DEVICES = ("cni0", "flannel.1", "kube-ipvs0", "dummy0")
# Processes that may use a port of ours; the kernel cuts names after 15 letters.
CONTROL_PLANE_PORTS = {
    6443: "kube-apiserver",
    2379: "etcd",
    2380: "etcd",
    10257: "kube-controller",
    10259: "kube-scheduler",
}
NODE_PORTS = {10250: "kubelet", 10248: "kubelet", 10249: "kube-proxy", 10256: "kube-proxy"}
VXLAN_PORT = 8472
FIREWALLS = {
    "ufw": "sudo ufw disable",
    "firewalld": "sudo systemctl disable --now firewalld",
}


def address(subject: Subject) -> Iterator[Finding]:
    """The node has the site's address for it, with the same prefix."""
    wanted = subject.node.address
    carried = [IPv4Interface(text) for text in subject.facts.addresses]
    same = [item for item in carried if item.ip == wanted.ip]
    if not same:
        yield subject.error(
            "address",
            f"the addresses {', '.join(str(item) for item in carried) or 'none'}",
            f"{wanted} on one of its interfaces",
            f"correct address in host_vars/{subject.node.name}.yml, or the node's netplan; look: "
            + subject.ssh("ip -br address"),
        )
    elif same[0].network.prefixlen != wanted.network.prefixlen:
        yield subject.warning(
            "address",
            f"{same[0]} on the node",
            str(wanted),
            f"correct the prefix in host_vars/{subject.node.name}.yml or in the node's netplan",
        )


def address_in_use(subject: Subject) -> Iterator[Finding]:
    """No other machine answers for the node's address."""
    ip = subject.node.ip
    for mac, witness in sorted(_strangers(subject).items()):
        yield subject.error(
            "address_in_use",
            f"{ip} answered by another machine, MAC {mac} (seen by {witness})",
            f"{ip} on this node only",
            f"find the machine with MAC {mac} in the switch's table and change its address",
        )
    for name, facts in subject.others.items():
        if ip in (text.split("/")[0] for text in facts.addresses):
            yield subject.error(
                "address_in_use",
                f"{ip} on {name} too",
                f"{ip} on this node only",
                f"correct the address of {name}: "
                + ssh_command(subject.site, subject.site.node(name), "ip -br address"),
            )


def _strangers(subject: Subject) -> dict[str, str]:
    """Return MAC -> the node that saw another machine with it answer for the address."""
    ip = subject.node.ip
    found: dict[str, str] = {}
    # Other nodes' caches may show a replaced machine; the node's own request is current.
    asked = subject.facts.at("neighbours.conflicts")
    witnesses = subject.others if asked is None else {}
    for name, facts in witnesses.items():
        for entry in facts.items("neighbours.table"):
            if entry.get("address") == ip and entry.get("mac"):
                found.setdefault(str(entry["mac"]).lower(), name)
    for entry in asked or ():
        if entry.get("address") == ip:
            found[str(entry.get("mac")).lower()] = f"{subject.node.name} itself"
    return {mac: witness for mac, witness in found.items() if mac not in subject.macs}


def carried_addresses(site: Site) -> Iterator[tuple[IPv4Address, str]]:
    """Return each address that keepalived is to carry, and the setting that names it."""
    endpoint, runai = site.settings.control_plane_endpoint, site.settings.runai
    if endpoint.virtual_address is not None and endpoint.balancer == "keepalived":
        yield endpoint.virtual_address, "control_plane_endpoint.virtual_address"
    if runai is not None and runai.address is not None and runai.address_on == "keepalived":
        yield runai.address, "runai.address"


def virtual_address_in_use(subject: Subject) -> Iterator[Finding]:
    """Each address that keepalived is to carry is free, or on one of our own nodes."""
    carried = {str(address): key for address, key in carried_addresses(subject.site)}
    known = subject.macs.union(
        str(nic.get("mac")).lower()
        for facts in subject.others.values()
        for nic in facts.items("nics")
    )
    # The node's cache may show a replaced machine; its own request is current.
    asked = subject.facts.at("neighbours.conflicts")
    remembered = subject.facts.items("neighbours.table")
    for entry in remembered if asked is None else asked:
        mac = str(entry.get("mac")).lower()
        key = carried.get(str(entry.get("address")))
        if key is not None and mac not in known:
            yield subject.error(
                "virtual_address_in_use",
                f"{entry.get('address')} answered by another machine, MAC {mac}",
                "a virtual address that no other machine uses",
                f"choose a free address for {key} in site.yml",
            )


def interface(subject: Subject) -> Iterator[Finding]:
    """The interface that the site sets for the pod network exists."""
    wanted = subject.site.settings.network.interface
    names = [str(nic.get("name")) for nic in subject.facts.items("nics")]
    if wanted and wanted not in names:
        yield subject.error(
            "interface",
            f"the interfaces {', '.join(names) or 'none'}",
            f"{wanted}, set for every node by network.interface",
            "set network.interface in site.yml to null or to a name that every node has",
        )


def default_route(subject: Subject) -> Iterator[Finding]:
    """There is a default route: without one, service addresses are unreachable."""
    if not subject.facts.at("routes.default"):
        gateway = next(subject.node.address.network.hosts(), subject.node.address.ip)
        yield subject.error(
            "default_route",
            "no default route",
            "a default route, even to an unused gateway (service addresses need it)",
            subject.ssh(f"sudo ip route add default via {gateway}")
            + ", and the same in its netplan",
        )


def mtu(subject: Subject) -> Iterator[Finding]:
    """The MTU of the interface with the node's address is at least the site's."""
    wanted = subject.site.settings.network.mtu
    for nic in subject.facts.items("nics"):
        ips = [str(text).split("/")[0] for text in nic.get("addresses") or ()]
        if subject.node.ip in ips and int(nic.get("mtu") or 0) < wanted:
            yield subject.error(
                "mtu",
                f"MTU {nic.get('mtu')} on {nic.get('name')}",
                f"at least {wanted}, the site's network.mtu",
                subject.ssh(f"sudo ip link set {shlex.quote(str(nic.get('name')))} mtu {wanted}")
                + f", or set network.mtu to {nic.get('mtu')} in site.yml",
            )


def ranges(subject: Subject) -> Iterator[Finding]:
    """Pod and service ranges do not overlap a network that the node already reaches."""
    network = subject.site.settings.network
    taken = list(_networks(subject))
    for label, wanted in (("pod", network.pod_cidr), ("service", network.service_cidr)):
        for found, where in taken:
            if wanted.overlaps(found):
                yield subject.error(
                    "ranges",
                    f"{where}, inside the {label} range {wanted}",
                    f"a {label} range outside the node's networks",
                    f"choose another network.{label}_cidr in site.yml",
                )


def _networks(subject: Subject) -> Iterator[tuple[IPv4Network, str]]:
    for route in subject.facts.items("routes.list"):
        text, device = str(route.get("to")), str(route.get("dev"))
        if text == "default" or device in POD_DEVICES:
            continue
        yield IPv4Network(text, strict=False), f"the route {text} on {device}"
    routed = {str(route.get("to")) for route in subject.facts.items("routes.list")}
    for nic in subject.facts.items("nics"):
        for text in nic.get("addresses") or ():
            if ":" in text or nic.get("name") in POD_DEVICES:
                continue
            found = IPv4Interface(text)
            if str(found.network) not in routed:
                yield found.network, f"the address {text} on {nic.get('name')}"


def ports(subject: Subject) -> Iterator[Finding]:
    """Ports that the appliance needs are free, or used by its own processes."""
    wanted = _ports(subject)
    for socket in subject.facts.items("listening"):
        port, process = int(socket.get("port", 0)), socket.get("process")
        owners = wanted.get((port, str(socket.get("proto"))))
        if owners is None or process in owners:
            continue
        if port == VXLAN_PORT and "flannel.1" in (subject.facts.at("cni.interfaces") or {}):
            continue
        yield subject.error(
            "ports",
            f"port {port}/{socket.get('proto')} used by {process or 'an unknown process'}",
            f"port {port} free for {owners[0]}",
            subject.ssh(f"sudo ss -lnp sport = :{port}"),
        )


def _ports(subject: Subject) -> Mapping[tuple[int, str], tuple[str, ...]]:
    wanted: dict[tuple[int, str], tuple[str, ...]] = {}
    if subject.node.in_cluster:
        wanted |= {(port, "tcp"): (owner,) for port, owner in NODE_PORTS.items()}
        wanted[(VXLAN_PORT, "udp")] = ("flannel",)
    if subject.in_control_plane:
        wanted |= {(port, "tcp"): (owner,) for port, owner in CONTROL_PLANE_PORTS.items()}
        endpoint = subject.site.settings.control_plane_endpoint
        if endpoint.balancer == "keepalived":
            wanted[(endpoint.port, "tcp")] = ("haproxy",)
    if subject.serves:
        settings = subject.site.settings
        if settings.external_registry is None:
            wanted[(split_host_port(settings.registry)[1], "tcp")] = (
                "docker-registry",
                "registry",
                "nginx",
            )
        wanted[(split_host_port(settings.artifacts)[1], "tcp")] = ("nginx",)
    return wanted


def firewall(subject: Subject) -> Iterator[Finding]:
    """No other firewall is active: kube-proxy and Docker manage the tables."""
    facts = subject.facts
    for name, command in FIREWALLS.items():
        if facts.at(f"firewall.{name}_active"):
            yield subject.error(
                "firewall",
                f"{name} active",
                f"{name} off: its rules conflict with the cluster's",
                subject.ssh(command),
            )
    policies = facts.at("firewall.policies") or {}
    if policies.get("INPUT") in ("DROP", "REJECT") and not facts.at("firewall.ufw_active"):
        yield subject.error(
            "firewall",
            f"iptables policy {policies['INPUT']} on INPUT",
            "ACCEPT between the nodes",
            subject.ssh("sudo iptables -P INPUT ACCEPT"),
        )


def foreign_rules(subject: Subject) -> Iterator[Finding]:
    """There are only rules of Docker and Kubernetes: others may block pods."""
    count = subject.facts.at("firewall.iptables_rules_foreign")
    if count and not subject.facts.at("firewall.ufw_active"):
        first = (subject.facts.at("firewall.foreign_rules") or ["?"])[0]
        yield subject.warning(
            "foreign_rules",
            f"{count} foreign iptables rules, first {first}",
            "only rules of Docker and Kubernetes",
            subject.ssh("sudo iptables-save"),
        )


def lan(subject: Subject) -> Iterator[Finding]:
    """This node has a route to every other node besides the default route."""
    carried = [IPv4Interface(text).network for text in subject.facts.addresses]
    if not any(subject.node.address.ip in network for network in carried):
        return
    routed = [
        IPv4Network(str(route["to"]), strict=False)
        for route in subject.facts.items("routes.list")
        if route.get("to") not in (None, "default")
    ]
    for other in subject.site.cluster_members:
        if other.name != subject.node.name and not _inside(other.address.ip, [*carried, *routed]):
            yield subject.warning(
                "lan",
                f"only the default route to {other.name} ({other.ip})",
                "the nodes in one LAN, or a route between them",
                subject.ssh(f"ip route get {other.ip}"),
            )


def _inside(ip: IPv4Address, networks: list[IPv4Network]) -> bool:
    return any(ip in network for network in networks)
