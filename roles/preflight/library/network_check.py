#!/usr/bin/python
"""Ansible module: check the network from one host, read-only."""

from __future__ import annotations

import errno
import ipaddress
import os
import select
import socket
import struct
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: network_check
short_description: Check peers, path MTU, names and ports from this host
description:
  - Sends each peer an unfragmentable ping of the full MTU, resolves the names of the site, and
    connects to the endpoints, which may exist already.
  - Changes nothing, and reports every fault at once.
options:
  peers: {description: Names and addresses of all nodes, type: dict, required: true}
  mtu: {description: The minimum MTU of every path, type: int, required: true}
  names: {description: Names and their allowed addresses, type: dict, default: {}}
  endpoints:
    description: "C(address:port) that must not be filtered; a refused connection is allowed"
    type: list
    elements: str
    default: []
  timeout_seconds: {description: How long to wait for answers, type: float, default: 2}
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Look at the network
  network_check:
    peers: {lab-w1: 198.18.0.21}
    mtu: 1500
"""

RETURN = r"""
faults: {description: One sentence for each fault, type: list, returned: always}
unresolved: {description: Names that do not resolve yet, type: list, returned: always}
"""

IP_MTU_DISCOVER, IP_PMTUDISC_PROBE = 10, 3
HEADERS = 28


def checksum(data):
    """Return the Internet checksum."""
    total = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    total = (total >> 16) + (total & 0xFFFF)
    return ~(total + (total >> 16)) & 0xFFFF


def echo(identifier, sequence, size):
    """Return an ICMP echo request whose payload has that size (rounded down to even)."""
    payload = b"\0" * (size - size % 2)
    head = struct.pack("!BBHHH", 8, 0, 0, identifier, sequence)
    return struct.pack("!BBHHH", 8, 0, checksum(head + payload), identifier, sequence) + payload


class Pinger:
    """Pings several addresses at once, without fragmentation."""

    def __init__(self, timeout):
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
        self._socket.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE)
        self._socket.setblocking(False)
        self._identifier = os.getpid() & 0xFFFF
        self._timeout = timeout

    def close(self):
        """Close the socket."""
        self._socket.close()

    def missing(self, addresses, size):
        """Return {address: reason} of those that did not answer a packet of that size."""
        faults, waiting = {}, set(addresses)
        for _ in range(3):
            for address in sorted(waiting):
                reason = self._send(address, size)
                if reason:
                    faults[address] = reason
            waiting -= set(faults)
            waiting -= self._answers(waiting)
            if not waiting:
                break
        faults.update((address, "no answer") for address in waiting)
        return faults

    def _send(self, address, size):
        try:
            self._socket.sendto(echo(self._identifier, 1, size - HEADERS), (address, 0))
        except OSError as error:
            if error.errno == errno.EMSGSIZE:
                return "this host's own interface refuses a packet of %d bytes" % size
            return error.strerror or str(error)
        return None

    def _answers(self, waiting):
        seen, until = set(), time.monotonic() + self._timeout
        while waiting - seen:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self._socket], [], [], left)[0]:
                break
            data, (address, _) = self._socket.recvfrom(65535)
            kind, identifier = data[20], struct.unpack("!H", data[24:26])[0]
            if kind == 0 and identifier == self._identifier:
                seen.add(address)
        return seen


def peer_faults(peers, mtu, pinger):
    """Return the faults of peers: no answer at all, or none to a packet of the full MTU."""
    by_address = {address: name for name, address in peers.items()}
    faults = []
    large = pinger.missing(by_address, mtu)
    small = pinger.missing(large, 84) if large else {}
    for address, reason in sorted(large.items()):
        node = "%s (%s)" % (by_address[address], address)
        if address in small:
            faults.append("%s does not answer a ping: %s" % (node, small[address]))
        else:
            faults.append(
                "%s answers a small ping, but not an unfragmented one of %d bytes (%s): "
                "the MTU of the path is smaller" % (node, mtu, reason)
            )
    return faults


def resolve(name):
    """Return the IPv4 addresses of a name from the system's resolver, or none."""
    try:
        found = socket.getaddrinfo(name, None, socket.AF_INET, socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    return sorted({entry[4][0] for entry in found})


def name_faults(names, lookup=resolve):
    """Return (faults, unresolved names); this host's own name may be a loopback address."""
    faults, unresolved = [], []
    order = sorted(names)
    # A silent resolver must not cost 5 s for each name; an unresolved name is no fault here.
    os.environ["RES_OPTIONS"] = "timeout:1 attempts:1"
    with ThreadPoolExecutor(max_workers=16) as pool:
        answers = dict(pool.map(lambda name: (name, lookup(name)), order))
    for name in order:
        right = [names[name]] if isinstance(names[name], str) else names[name]
        found = answers[name]
        wrong = [a for a in found if a not in right and not ipaddress.ip_address(a).is_loopback]
        if not found:
            unresolved.append(name)
        elif wrong:
            faults.append(
                "%s resolves to %s, but is %s in the site: check DNS and /etc/hosts (a wildcard "
                "in a search domain resolves every name)"
                % (name, ", ".join(wrong), ", ".join(right))
            )
    return faults, unresolved


def endpoint_faults(endpoints, timeout):
    """Return the faults of endpoints; a refused connection shows that no firewall filters."""
    faults = []
    for endpoint in endpoints:
        address, _, port = endpoint.rpartition(":")
        try:
            socket.create_connection((address, int(port)), timeout).close()
        except ConnectionRefusedError:
            continue
        except OSError as error:
            reason = error.strerror or str(error)
            faults.append(
                "%s cannot be reached from here: %s; check for a firewall" % (endpoint, reason)
            )
    return faults


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "peers": {"type": "dict", "required": True},
            "mtu": {"type": "int", "required": True},
            "names": {"type": "dict", "default": {}},
            "endpoints": {"type": "list", "elements": "str", "default": []},
            "timeout_seconds": {"type": "float", "default": 2},
        },
        supports_check_mode=True,
    )
    want = module.params
    try:
        with closing(Pinger(want["timeout_seconds"])) as pinger:
            faults = peer_faults(want["peers"], want["mtu"], pinger)
    except PermissionError as error:
        module.fail_json(msg="a ping needs root: %s" % error)
    wrong, unresolved = name_faults(want["names"])
    faults += wrong + endpoint_faults(want["endpoints"], want["timeout_seconds"])
    if faults:
        module.fail_json(msg="; ".join(faults), faults=faults, unresolved=unresolved)
    module.exit_json(changed=False, faults=[], unresolved=unresolved)


if __name__ == "__main__":
    main()
