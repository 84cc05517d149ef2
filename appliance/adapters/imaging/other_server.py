"""Ask the LAN by DHCP who else serves our servers: another ``node image`` answers, nobody else.

Packets are sent and read below the sockets of DHCP clients, for which port 68 may be taken; so it
needs root, as dnsmasq does.
"""

from __future__ import annotations

import secrets
import select
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final, Protocol

from appliance.errors import ConfigError
from appliance.model.node.imaging.boot_question import boot_file, question, server_of

# How long answers are waited for; the question is sent again meanwhile, for one may be lost.
SECONDS: Final = 3.0
AGAIN_SECONDS: Final = 1.0
_ETHERTYPE_IP: Final = 0x0800
_EVERYBODY: Final = b"\xff" * 6
_MOST_BYTES: Final = 2048


class Wire(Protocol):
    """Sends IP packets to everybody on a LAN, and receives those that arrive."""

    def send(self, packet: bytes) -> None:
        """Send one."""

    def receive(self, seconds: float) -> bytes:
        """The next one; empty where none came within these seconds."""


class InterfaceWire:
    """The LAN of one interface.

    Args:
        line: a packet socket that is bound to the interface.
        interface: its name.
    """

    def __init__(self, line: socket.socket, interface: str) -> None:
        self._line, self._to = line, (interface, _ETHERTYPE_IP, 0, 0, _EVERYBODY)

    def send(self, packet: bytes) -> None:
        """Send one."""
        self._line.sendto(packet, self._to)

    def receive(self, seconds: float) -> bytes:
        """The next one."""
        ready, _, _ = select.select([self._line], [], [], max(0.0, seconds))
        return self._line.recv(_MOST_BYTES) if ready else b""


@contextmanager
def on_interface(interface: str) -> Iterator[Wire]:
    """The LAN of an interface of this machine.

    Raises:
        ConfigError: this user may not, or there is no such interface.
    """
    try:
        line = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(_ETHERTYPE_IP))
    except PermissionError as error:
        raise ConfigError(
            "PXE needs root on this machine", hint="run the same command as root: sudo -E"
        ) from error
    with line:
        try:
            line.bind((interface, _ETHERTYPE_IP))
            yield InterfaceWire(line, interface)
        except OSError as error:
            raise ConfigError(
                f"{interface}: {error.strerror}", hint="see this machine's interfaces: ip -br link"
            ) from error


def other_servers(
    wire: Wire,
    macs: Iterable[str],
    own: str,
    seconds: float = SECONDS,
    clock: Callable[[], float] = time.monotonic,
) -> dict[str, str]:
    """MAC -> address of another machine that serves it; those that nobody else serves are absent.

    Args:
        wire: the servers' LAN.
        macs: of our servers.
        own: address of this machine, whose own answers do not count.
        seconds: how long answers are waited for.
        clock: monotonic.
    """
    asked = {mac: secrets.randbits(32) for mac in macs}
    found: dict[str, str] = {}
    ends, again = clock() + seconds, clock()
    while (now := clock()) < ends and len(found) < len(asked):
        if now >= again:
            again = now + AGAIN_SECONDS
            for mac, transaction in asked.items():
                wire.send(question(mac, transaction))
        packet = wire.receive(min(again, ends) - now)
        for mac, transaction in asked.items() if packet else ():
            server = server_of(boot_file(packet, mac, transaction))
            if server and server != own:
                found[mac] = server
    return found
