"""SSH servers on loopback that do what a test says: answer as a node does, or lie.

Real connections, real keys: what a node can do to the control host, it can do here.
"""

from __future__ import annotations

import dataclasses
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from ipaddress import IPv4Interface
from pathlib import Path

import paramiko
from paramiko.common import (
    AUTH_FAILED,
    AUTH_SUCCESSFUL,
    OPEN_FAILED_CONNECT_FAILED,
    OPEN_SUCCEEDED,
)

from appliance.model.site.settings import Node, Site

Behaviour = Callable[[paramiko.Channel, str], None]
KEY = paramiko.ECDSAKey.generate()


def says(output: bytes, code: int = 0, *, noise: bytes = b"") -> Behaviour:
    """Runs nothing: prints noise, then the mark of the command, then the output."""

    def behave(channel: paramiko.Channel, command: str) -> None:
        channel.sendall(noise + mark_of(command) + output)
        channel.send_exit_status(code)

    return behave


def mark_of(command: str) -> bytes:
    """What the command prints first."""
    return b"\n" + command.partition("' ")[2].partition(";")[0].strip("'").encode() + b"\n"


def says_for_ever(channel: paramiko.Channel, command: str) -> None:
    """Answers without end, as fast as it is taken."""
    channel.sendall(mark_of(command))
    while True:
        channel.sendall(b"[" * 65536)


def drips(channel: paramiko.Channel, command: str) -> None:
    """A byte now and then: every single read is answered in time."""
    channel.sendall(mark_of(command))
    while True:
        channel.sendall(b" ")
        time.sleep(0.1)


def drips_errors(channel: paramiko.Channel, command: str) -> None:
    """The same on standard error, and the output is long closed."""
    channel.sendall(mark_of(command))
    while True:
        channel.sendall_stderr(b" ")
        time.sleep(0.1)


def loses_connection(channel: paramiko.Channel, command: str) -> None:
    """Begin, and end the whole connection before the command's end."""
    channel.sendall(mark_of(command))
    channel.get_transport().close()


def sends_no_status(channel: paramiko.Channel, command: str) -> None:
    """Says all there is to say, closes its outputs, and keeps the channel."""
    channel.sendall(mark_of(command))
    channel.shutdown_write()
    time.sleep(60)


def is_silent(_channel: paramiko.Channel, _command: str) -> None:
    """Takes the command, and that is all."""
    time.sleep(60)


class _Server(paramiko.ServerInterface):
    def __init__(self, behaviour: Behaviour, takes_keys: Callable[[], bool]) -> None:
        self._behaviour = behaviour
        self._takes_keys = takes_keys

    def check_auth_publickey(self, _username: str, _key: paramiko.PKey) -> int:
        return AUTH_SUCCESSFUL if self._takes_keys() else AUTH_FAILED

    def get_allowed_auths(self, _username: str) -> str:
        return "publickey"

    def check_channel_request(self, _kind: str, _chanid: int) -> int:
        return OPEN_SUCCEEDED

    def check_channel_direct_tcpip_request(
        self, _chanid: int, _origin: tuple[str, int], destination: tuple[str, int]
    ) -> int:
        """Connect as sshd does, and answer once that has been decided; nothing is copied."""
        try:
            socket.create_connection(destination, timeout=10).close()
        except OSError:
            return OPEN_FAILED_CONNECT_FAILED
        return OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        def run() -> None:
            # The reply to the request goes first.
            time.sleep(0.02)
            with suppress(OSError, EOFError, paramiko.SSHException):
                self._behaviour(channel, command.decode())
                # A client ends its input once it has the reply: on a busy machine that is late.
                until = time.monotonic() + 1
                while not (channel.eof_received or channel.closed) and time.monotonic() < until:
                    time.sleep(0.005)
                channel.close()

        threading.Thread(target=run, daemon=True).start()
        return True


def begin(
    connection: socket.socket,
    key: paramiko.PKey,
    behaviour: Behaviour,
    takes_keys: Callable[[], bool] = lambda: True,
) -> paramiko.Transport:
    """Speak SSH on a connection: with this host key, and what a command does."""
    transport = paramiko.Transport(connection)
    transport.add_server_key(key)
    with suppress(paramiko.SSHException, EOFError):
        transport.start_server(server=_Server(behaviour, takes_keys))
    return transport


class Servers:
    """One server each node, all on one port of addresses of 127/8.

    Attributes:
        asked: node -> the commands that it was sent.
        refusing: nodes whose server takes no key.
    """

    def __init__(self, folder: Path) -> None:
        self._key_file = folder / "id_ecdsa"
        paramiko.ECDSAKey.generate().write_private_key_file(str(self._key_file))
        self._folder = folder
        self._sockets: list[socket.socket] = []
        self._transports: list[paramiko.Transport] = []
        self._listening: dict[str, socket.socket] = {}
        self.asked: dict[str, list[str]] = {}
        self.refusing: set[str] = set()
        self._port = 0

    def serve(
        self,
        site: Site,
        behaviours: Mapping[str, Behaviour],
        raw: Mapping[str, Callable[[socket.socket], None]] | None = None,
    ) -> Site:
        """The same site, its nodes at servers that behave so; ``raw`` ones speak no SSH."""
        nodes = []
        for number, node in enumerate(site.nodes):
            address = f"127.0.7.{number + 1}"
            speak = (raw or {}).get(node.name) or self._ssh(node, behaviours[node.name])
            self._listening[node.name] = self._listen(address, speak)
            nodes.append(dataclasses.replace(node, address=IPv4Interface(f"{address}/24")))
        known = [
            f"[{n.address.ip}]:{self._port} {KEY.get_name()} {KEY.get_base64()}" for n in nodes
        ]
        (self._folder / "known_hosts").write_text("\n".join(known) + "\n", encoding="utf-8")
        ssh = site.settings.ssh.model_copy(
            update={"port": self._port, "private_key": str(self._key_file)}
        )
        settings = site.settings.model_copy(update={"ssh": ssh})
        return dataclasses.replace(
            site, directory=self._folder, settings=settings, nodes=tuple(nodes)
        )

    def stop(self, name: str) -> None:
        """Let nobody listen there any more: the next connection is refused."""
        self._listening[name].shutdown(socket.SHUT_RDWR)
        self._listening[name].close()

    def close(self) -> None:
        """End every connection."""
        for transport in self._transports:
            transport.close()
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _recorded(self, node: Node, behaviour: Behaviour) -> Behaviour:
        def behave(channel: paramiko.Channel, command: str) -> None:
            self.asked.setdefault(node.name, []).append(command)
            behaviour(channel, command)

        return behave

    def _ssh(self, node: Node, behaviour: Behaviour) -> Callable[[socket.socket], None]:
        def speak(connection: socket.socket) -> None:
            told, takes = self._recorded(node, behaviour), lambda: node.name not in self.refusing
            self._transports.append(begin(connection, KEY, told, takes))

        return speak

    def _listen(self, address: str, speak: Callable[[socket.socket], None]) -> socket.socket:
        listening = socket.create_server((address, self._port))
        self._port = self._port or listening.getsockname()[1]
        self._sockets.append(listening)

        def accept() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    self._sockets.append(connection)
                    threading.Thread(target=quietly, args=(connection,), daemon=True).start()

        def quietly(connection: socket.socket) -> None:
            with suppress(OSError):
                speak(connection)

        threading.Thread(target=accept, daemon=True).start()
        return listening


@contextmanager
def servers(folder: Path) -> Iterator[Servers]:
    """Servers that end with the block."""
    made = Servers(folder)
    try:
        yield made
    finally:
        made.close()
