"""A DHCP question in a server's name, and the answer that another ``node image`` gives to it.

dnsmasq of :mod:`appliance.model.node.imaging.pxe` answers the servers of its command alone. So an
offer with the path of our script shows that a command on another machine serves this very server.
The packets are those of RFC 2131 (DHCP), RFC 2132 (options) and RFC 4578 (PXE). What must not be
here: sending and receiving them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from ipaddress import IPv4Address
from typing import Final
from urllib.parse import urlsplit

from appliance.model.node.imaging.pxe import SCRIPT

CLIENT_PORT: Final = 68
SERVER_PORT: Final = 67
_COOKIE: Final = b"\x63\x82\x53\x63"
_UDP: Final = 17
_BOOTP: Final = struct.Struct("!BBBBIHH4s4s4s4s16s64s128s")
_ASKS, _ANSWERS = 1, 2
_BROADCAST: Final = 0x8000
_BOOT_FILE, _MESSAGE = 67, 53
_DISCOVER, _OFFER = 1, 2
# As iPXE on a BIOS asks: a PXE client (60), its architecture (93), its interface (94), iPXE (175).
_OPTIONS: Final = (
    (_MESSAGE, bytes([_DISCOVER])),
    (60, b"PXEClient:Arch:00000:UNDI:002001"),
    (93, b"\x00\x00"),
    (94, b"\x01\x02\x01"),
    (55, bytes([1, 43, 54, 60, 66, _BOOT_FILE])),
    (175, b"\xb1\x01\x01"),
)


def question(mac: str, transaction: int) -> bytes:
    """An IP packet: a DHCPDISCOVER as iPXE on the server with this MAC would send it.

    Args:
        mac: six hexadecimal bytes with colons.
        transaction: any number of 32 bits; the answer repeats it.
    """
    hardware = bytes.fromhex(mac.replace(":", ""))
    none = bytes(4)
    head = _BOOTP.pack(
        *(_ASKS, 1, 6, 0, transaction, 0, _BROADCAST),
        *(none, none, none, none, hardware, b"", b""),
    )
    options = b"".join(bytes([code, len(value)]) + value for code, value in _OPTIONS)
    return _packet(head + _COOKIE + options + b"\xff")


def _packet(payload: bytes) -> bytes:
    """The payload from the unspecified address to everybody's DHCP server."""
    udp = struct.pack("!HHHH", CLIENT_PORT, SERVER_PORT, 8 + len(payload), 0) + payload
    head = struct.pack(
        "!BBHHHBBH4s4s",
        *(0x45, 0, 20 + len(udp), 0, 0, 64, _UDP, 0),
        *(IPv4Address(0).packed, IPv4Address(0xFFFFFFFF).packed),
    )
    return head[:10] + struct.pack("!H", _checksum(head)) + head[12:] + udp


def _checksum(head: bytes) -> int:
    """RFC 1071."""
    total: int = sum(struct.unpack(f"!{len(head) // 2}H", head))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def boot_file(packet: bytes, mac: str, transaction: int) -> str:
    """The boot file that an IP packet offers to this question; empty where it is no such offer."""
    payload = _to_client(packet)
    if len(payload) < _BOOTP.size + len(_COOKIE):
        return ""
    operation, *_, hardware, _, file = found = _BOOTP.unpack_from(payload)
    ours = hardware[:6] == bytes.fromhex(mac.replace(":", "")) and found[4] == transaction
    rest = payload[_BOOTP.size :]
    if operation != _ANSWERS or not ours or not rest.startswith(_COOKIE):
        return ""
    options = dict(_options(rest[len(_COOKIE) :]))
    if options.get(_MESSAGE) != bytes([_OFFER]):
        return ""
    return (options.get(_BOOT_FILE) or file).partition(b"\0")[0].decode("ascii", "replace")


def _to_client(packet: bytes) -> bytes:
    """What a whole UDP packet for a DHCP client carries; empty for any other one."""
    head = (packet[0] & 0x0F) * 4 if packet else 0
    if len(packet) < max(20, head) + 8 or packet[0] >> 4 != 4 or packet[9] != _UDP:
        return b""
    source, target = struct.unpack_from("!HH", packet, head)
    return packet[head + 8 :] if (source, target) == (SERVER_PORT, CLIENT_PORT) else b""


def _options(rest: bytes) -> Iterator[tuple[int, bytes]]:
    """Code and value of each option, up to the first that is cut."""
    at = 0
    while at + 1 < len(rest) and rest[at] != 0xFF:
        if rest[at] == 0:
            at += 1
            continue
        size = rest[at + 1]
        yield rest[at], rest[at + 2 : at + 2 + size]
        at += 2 + size


def server_of(offered: str) -> str:
    """The address that serves a boot script of ours; empty where the file is no such script."""
    try:
        url = urlsplit(offered)
        address = str(IPv4Address(url.hostname or ""))
    except ValueError:
        return ""
    return address if url.path == SCRIPT and url.scheme == "http" else ""
