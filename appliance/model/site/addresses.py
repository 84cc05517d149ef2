"""Names, addresses and ranges: what is well formed, what overlaps.

Pure functions over strings and :mod:`ipaddress` values. What must not be here: resolving a name,
looking at an interface, or knowing which key of the site a value came from.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Interface, IPv4Network

_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_LOOKS_LIKE_ADDRESS = re.compile(r"[0-9.]+")


def is_label(text: str) -> bool:
    """Say whether ``text`` is one RFC 1123 label in lower case (a host name without dots)."""
    return _LABEL.fullmatch(text) is not None


def is_dns_name(text: str) -> bool:
    """Say whether ``text`` is a lower-case DNS name; an address in figures is not a name."""
    if len(text) > 253 or _LOOKS_LIKE_ADDRESS.fullmatch(text):
        return False
    return all(is_label(label) for label in text.split("."))


def is_address(text: str) -> bool:
    """Say whether ``text`` is an IPv4 address without a prefix."""
    try:
        IPv4Address(text)
    except ValueError:
        return False
    return True


def split_host_port(text: str) -> tuple[str, int]:
    """Take ``NAME:PORT`` apart.

    Raises:
        ValueError: when it is not a DNS name, a colon and a port.
    """
    name, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or not 1 <= int(port) <= 65535:
        raise ValueError(text)
    if not is_dns_name(name):
        raise ValueError(text)
    return name, int(port)


def overlapping(one: IPv4Network, others: Iterable[IPv4Network]) -> tuple[IPv4Network, ...]:
    """Return those of ``others`` that share at least one address with ``one``."""
    return tuple(other for other in others if one.overlaps(other))


def usable(interface: IPv4Interface) -> bool:
    """Say whether a host can carry this address: not the network's own, not its broadcast."""
    network = interface.network
    if network.prefixlen >= 31:
        return False
    return interface.ip not in (network.network_address, network.broadcast_address)
