"""The machine's network: nics, routes, neighbours, listening."""

from __future__ import annotations

import json
import os
import socket
import struct
from functools import partial
from typing import Any, Dict, List, Optional, Set, Tuple

from ..source import Source

# A pod's end of a cable; they come and go with pods.
POD_INTERFACES = ("veth", "cali", "lxc")
# Interfaces of a container runtime or a pod network, which section cni lists.
VIRTUAL_INTERFACES = (
    "docker0", "cni0", "flannel.1", "kube-ipvs0", "kube-bridge", "weave", "tunl0",
    "vxlan.calico", "cilium_host", "podman0",
)  # fmt: skip
ARP_SECONDS = 0.25
CONFIRMED = {"REACHABLE", "PERMANENT", "NOARP"}
ARP = 0x0806
STATES = {"0A": "tcp", "07": "udp"}


def split(
    links: Optional[List[Dict[str, Any]]],
) -> Tuple[Optional[List[Dict[str, Any]]], Dict[str, Any]]:
    """Return the names of the machine's own interfaces and of the containers' interfaces."""
    if links is None:
        return None, {}
    own = [link for link in links if not _is_virtual(link["name"])]
    keys = ("mtu", "state", "addresses", "mac")
    virtual = {
        link["name"]: {key: link[key] for key in keys}
        for link in links
        if _is_virtual(link["name"])
    }
    return own, virtual


def _is_virtual(name: str) -> bool:
    # Docker names the bridges of its own networks br-<12 hexadecimal digits>.
    return name in VIRTUAL_INTERFACES or (name.startswith("br-") and len(name) == 15)


def interfaces(source: Source) -> Optional[List[Dict[str, Any]]]:
    """Return network interfaces with addresses, without loopback and pod interfaces."""
    document = source.json_command("ip-address", ["ip", "-j", "-d", "address"])
    if document is None:
        return None
    found = []
    for link in document:
        name = link.get("ifname", "")
        if not name or link.get("link_type") == "loopback" or name.startswith(POD_INTERFACES):
            continue
        base = "/sys/class/net/%s/" % name
        speed = source.word(base + "speed")
        addresses = [
            "%s/%s" % (info["local"], info["prefixlen"])
            for info in link.get("addr_info", [])
            if info.get("scope") == "global" and "local" in info
        ]
        found.append(
            {
                "name": name,
                "mac": link.get("address"),
                "permanent_mac": _permanent(source, link, base),
                "mtu": link.get("mtu"),
                "speed_mbps": int(speed) if speed and speed.isdigit() else None,
                "state": str(link.get("operstate", "")).lower(),
                "driver": source.link(base + "device/driver"),
                "kind": (link.get("linkinfo") or {}).get("info_kind"),
                "addresses": addresses,
            }
        )
    return found


def _permanent(source: Source, link: Dict[str, Any], base: str) -> Optional[str]:
    """Return a card's permanent address; None for anything that is not a card of the machine.

    A bond gives its members one address. A USB device belongs to a BMC or is a loose adapter.
    """
    if source.link(base + "device/driver") is None or link.get("link_type") != "ether":
        return None
    if source.link(base + "device/subsystem") == "usb":
        return None
    # Of a member of a bond; iproute2 tells it from 5.6 on, Ubuntu 20.04 has 5.5.
    kept = link.get("permaddr") or source.word(base + "bonding_slave/perm_hwaddr")
    if kept:
        return str(kept).lower()
    # 0: a permanent address, neither random nor set by hand.
    own = source.word(base + "addr_assign_type") == "0"
    return str(link["address"]).lower() if own and link.get("address") else None


def routes(source: Source) -> Optional[Dict[str, Any]]:
    """The IPv4 routes of the main table, the default one apart."""
    document = source.json_command("ip-route", ["ip", "-j", "-4", "route"])
    if document is None:
        return None
    table = [
        {
            "to": route.get("dst"),
            "dev": route.get("dev"),
            "via": route.get("gateway"),
            "metric": route.get("metric", 0),
        }
        for route in document
    ]
    defaults = sorted((r for r in table if r["to"] == "default"), key=lambda r: r["metric"] or 0)
    default = {"via": defaults[0]["via"], "dev": defaults[0]["dev"]} if defaults else None
    return {"default": default, "list": table}


def call_peers(source: Source) -> None:
    """Send one empty datagram to each peer, so that the kernel resolves its MAC."""
    if not source.live or not source.request.peers:
        return
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        for peer in source.request.peers:
            try:
                sender.sendto(b"", (peer, 9))
            except OSError:
                continue
    finally:
        sender.close()


def neighbours(source: Source) -> Optional[Dict[str, Any]]:
    """Return the MAC of each neighbour's address, and other MACs that answer for ours.

    An entry that the kernel has not confirmed recently may belong to a replaced machine.
    """
    conflicts = _conflicts(source)
    document = source.json_command("ip-neighbour", ["ip", "-j", "-4", "neighbour"])
    table = [
        {"address": entry.get("dst"), "mac": entry.get("lladdr"), "dev": entry.get("dev")}
        for entry in document or []
        if entry.get("lladdr") and CONFIRMED & set(entry.get("state") or CONFIRMED)
    ]
    return {"table": table, "conflicts": conflicts}


def _conflicts(source: Source) -> Optional[List[Dict[str, str]]]:
    """Return other machines that answer an ARP probe (RFC 5227) for an address of this node.

    What keepalived carries is probed too, wherever it is. The sender address is 0.0.0.0, so
    no other machine's ARP table changes.
    """
    if not source.live:
        recorded = source.recorded("arp-conflicts")
        return None if recorded is None else list(json.loads(recorded))
    if not source.request.peers or not hasattr(socket, "AF_PACKET"):
        return None
    if not source.privileged:
        source.note("address conflicts: needs root")
        return None
    own = [(dev, address) for dev, address in _own(source) if address in source.request.peers]
    asked = {*own, *((dev, shared) for dev, _ in own for shared in source.request.virtual)}
    calls = [partial(_arp_probe, source, dev, a) for dev, a in sorted(asked)]
    answers = source.together(calls, feeds=("neighbours.conflicts",))
    return [conflict for answer in answers for conflict in answer or []]


def _own(source: Source) -> List[Tuple[str, str]]:
    document = source.json_command("ip-address", ["ip", "-j", "-4", "address"]) or []
    return [
        (str(link["ifname"]), str(info.get("local")))
        for link in document
        for info in link.get("addr_info", [])
    ]


def _arp_probe(source: Source, interface: str, address: str) -> List[Dict[str, str]]:
    try:
        macs = _answers_for(interface, address, source.seconds_left(ARP_SECONDS))
    except OSError as error:
        source.note("address conflicts on %s: %s" % (interface, error.strerror))
        return []
    return [{"address": address, "mac": mac} for mac in sorted(macs)]


def _answers_for(interface: str, address: str, seconds: float) -> Set[str]:
    raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ARP))
    answers: Set[str] = set()
    try:
        raw.bind((interface, ARP))
        own = raw.getsockname()[4]
        if len(own) != 6:
            return answers
        wanted = socket.inet_aton(address)
        frame = b"\xff" * 6 + own + struct.pack("!HHHBBH", ARP, 1, 0x0800, 6, 4, 1)
        frame += own + b"\0" * 4 + b"\0" * 6 + wanted
        raw.send(frame)
        raw.settimeout(seconds)
        while True:
            answer = raw.recv(2048)
            operation, sender, sender_address = answer[20:22], answer[22:28], answer[28:32]
            if operation == b"\0\x02" and sender_address == wanted and sender != own:
                answers.add(":".join("%02x" % byte for byte in sender))
                raw.settimeout(0.05)
    except socket.timeout:
        return answers
    finally:
        raw.close()


def listening(source: Source) -> List[Dict[str, Any]]:
    """Return listening TCP sockets and bound UDP sockets, with their process."""
    found: Dict[Tuple[int, str, str], str] = {}
    for protocol, family in (("tcp", ""), ("tcp", "6"), ("udp", ""), ("udp", "6")):
        for line in source.lines("/proc/net/" + protocol + family)[1:]:
            words = line.split()
            if len(words) < 10 or STATES.get(words[3]) != protocol:
                continue
            address, port = words[1].split(":")
            key = (int(port, 16), protocol, _address(address))
            found[key] = words[9]
    owners = _owners(source, set(found.values()))
    return [
        {"port": port, "proto": protocol, "address": address, "process": owners.get(inode)}
        for (port, protocol, address), inode in sorted(found.items())
    ]


def _address(text: str) -> str:
    """Decode an address as printed by the kernel: 32-bit words in the machine's byte order."""
    raw = b"".join(
        struct.pack("=I", int(text[index : index + 8], 16)) for index in range(0, len(text), 8)
    )
    family = socket.AF_INET if len(raw) == 4 else socket.AF_INET6
    return socket.inet_ntop(family, raw)


def _owners(source: Source, inodes: Set[str]) -> Dict[str, str]:
    """Return the process name of each socket; sockets of other users need root."""
    owners: Dict[str, str] = {}
    if not source.privileged:
        source.note("processes of listening sockets: needs root")
        return owners
    wanted = {"socket:[%s]" % inode for inode in inodes if inode != "0"}
    for pid in source.names("/proc"):
        if not pid.isdigit() or not wanted:
            continue
        folder = str(source.path("/proc/%s/fd" % pid))
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    target = _target(entry.path)
                    if target in wanted:
                        owners[target[8:-1]] = source.word("/proc/%s/comm" % pid) or "?"
                        wanted.discard(target)
        except OSError:
            continue  # the process ended meanwhile
    return owners


def _target(path: str) -> str:
    """Return where a file descriptor points; empty if it was closed meanwhile."""
    try:
        return os.readlink(path)  # noqa: PTH115  (thousands of them: be quick)
    except OSError:
        return ""
