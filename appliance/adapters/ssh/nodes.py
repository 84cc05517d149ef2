"""SSH to nodes with paramiko: the probe round, small reads, and a tunnel to the API.

Host keys are strict: a key is accepted only when the site's ``known_hosts`` holds it. Connections
are kept for the life of the object; one object serves one command.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from appliance.adapters.ssh.become import Become
from appliance.adapters.ssh.call import (
    Answer,
    BeginLimits,
    CallFailed,
    Flooded,
    call,
    ended_after,
    follow,
)
from appliance.adapters.ssh.login_failure import login_failure, login_timed_out, told_of_login
from appliance.adapters.ssh.probing.answer import facts_of
from appliance.adapters.ssh.probing.archive import probe_archive, probe_script
from appliance.adapters.ssh.streaming import WORK_SECONDS, Exchange, Pace
from appliance.adapters.ssh.trust.keys import check_private_key, local_fault
from appliance.adapters.ssh.trust.known_hosts import load, put
from appliance.adapters.ssh.tunnel import open_tunnel, without_delay
from appliance.adapters.ssh.way import MANY, logins_at_once, said_by, through_jump_host, was_dropped
from appliance.errors import ConfigError, NodeUnreachable
from appliance.model.site.settings import Node, Site
from appliance.model.site.ssh import CONNECT_SECONDS, FIRST_OUTPUT_SECONDS, ssh_command
from appliance.model.state.facts.facts import NodeFacts
from appliance.model.state.observed import Fault, Look

if TYPE_CHECKING:
    import paramiko

_LOGGER = logging.getLogger(__name__)
# paramiko logs tracebacks of connections that fail; they become sentences here.
logging.getLogger("paramiko").addHandler(logging.NullHandler())
logging.getLogger("paramiko").propagate = False

# All of it: the way there, the server's banner, the exchange of keys, and each key that is tried.
LOGIN_SECONDS = 24
PROBE_SECONDS = 40
# OpenSSH drops one in three of ten parallel logins (MaxStartups); dropped logins are retried.
RETRY_PAUSES = (0.5, 1.5, 3.0)


class SshNodes:
    """The nodes of one site, by SSH.

    Args:
        site: the site with the ``ssh`` block and ``known_hosts``.
        probe_arguments: arguments of the probe.
        meanwhile: called while the probes run, for work on this machine.
        secret: reads a secret of the vault by its name, for sudo; None if it has none.
        seen: told of every look.
    """

    def __init__(
        self,
        site: Site,
        probe_arguments: Sequence[str] = (),
        meanwhile: Callable[[], None] = lambda: None,
        secret: Callable[[str], str | None] = lambda _name: None,
        seen: Callable[[Look], None] = lambda _look: None,
    ) -> None:
        self._site = site
        self._become = Become(site, secret)
        self._connection = site.settings.ssh
        self._known_hosts = site.known_hosts
        self._arguments = tuple(probe_arguments)
        self._meanwhile = meanwhile
        self._seen = seen
        self._trusted: dict[tuple[str, int], paramiko.PKey] = {}
        self._key_checked = False
        self._clients: dict[str, paramiko.SSHClient] = {}
        self._lock = threading.Lock()
        self._connecting: dict[str, threading.Lock] = {}
        self._logins = threading.BoundedSemaphore(logins_at_once(site))

    def trust(self, keys: Mapping[tuple[str, int], paramiko.PKey]) -> None:
        """Trust host keys of (address, port) for the life of this object; writes nothing."""
        self._trusted.update(keys)

    def look(self, nodes: Sequence[Node]) -> Look:
        """Probe every node in parallel; a failed node becomes a Fault.

        Raises:
            ConfigError: this machine's key or ``known_hosts`` is faulty.
        """
        # Imported before the threads start: parallel imports can meet an incomplete module.
        import paramiko  # noqa: F401

        if not nodes:
            return Look({})
        pool = ThreadPoolExecutor(min(len(nodes), MANY))
        try:
            looking = pool.map(self._read_facts, nodes)
            self._meanwhile()
            results = list(looking)
        except KeyboardInterrupt:
            # The answers are not needed any more; open connections end by their time limit.
            pool.shutdown(wait=False, cancel_futures=True)
            self.close()
            raise
        except ConfigError:
            pool.shutdown(cancel_futures=True)
            raise
        pool.shutdown(wait=False)
        look = Look(
            {
                node.name: item
                for node, item in zip(nodes, results, strict=True)
                if isinstance(item, NodeFacts)
            },
            tuple(item for item in results if isinstance(item, Fault)),
        )
        self._seen(look)
        return look

    def run(self, node: Node, command: str, *, stdin: bytes = b"", timeout: float = 60) -> Answer:
        """Run one shell command on a node.

        Raises:
            NodeUnreachable: no connection, a silent shell, or no complete answer in time.
            ConfigError: this machine's key or ``known_hosts`` is faulty.
        """
        with self._as_unreachable(node):
            transport, began = self._transport(node), time.monotonic()
            answer = call(
                transport,
                command,
                stdin,
                seconds=timeout,
                limits=BeginLimits(CONNECT_SECONDS, FIRST_OUTPUT_SECONDS),
            )
        took = time.monotonic() - began
        _LOGGER.debug("%s: exit %d in %.2f s: %s", node.name, answer.code, took, command)
        return answer

    @contextmanager
    def _as_unreachable(self, node: Node) -> Iterator[None]:
        """What breaks a call, as an error of ours; the connection is not used again."""
        import paramiko

        try:
            yield
        except CallFailed as error:
            self._forget(node)
            raise NodeUnreachable(
                f"{node.name}: a command over SSH failed: {error}",
                hint=f"test the connection: {ssh_command(self._site, node, 'uptime')}",
                logged_in=True,
                deceives=isinstance(error, Flooded),
            ) from error
        except (OSError, EOFError, paramiko.SSHException) as error:
            self._forget(node)
            raise NodeUnreachable(
                f"{node.name}: the SSH connection to {node.address.ip} broke: {error}",
                hint=f"check the node's console, then: {ssh_command(self._site, node)}",
                logged_in=True,
            ) from error

    def run_as_root(
        self,
        node: Node,
        script: str,
        *,
        stdin: bytes = b"",
        timeout: float = 60,
        or_self: bool = False,
    ) -> Answer:
        """Run a shell script as root, through sudo if needed.

        Args:
            node: where.
            script: for ``sh -c``.
            stdin: its standard input.
            timeout: seconds.
            or_self: without sudo it runs with the login user's own rights.

        Raises:
            NodeUnreachable: no connection, or no answer within ``timeout`` seconds.
            ConfigError: the vault lacks the password that sudo asks for.
        """
        command = self._become.command(script, or_self=or_self)
        return self.run(node, command, stdin=self._become.stdin(stdin), timeout=timeout)

    def follow_as_root(
        self, node: Node, script: str, on_text: Callable[[str], None], *, seconds: float
    ) -> int:
        """Run a script for ``sh -c`` as root, pass on its output as it comes; its exit status.

        Raises:
            NodeUnreachable: no connection, or it broke.
            ConfigError: the vault lacks the password that sudo asks for.
        """
        command, stdin = self._become.command(script), self._become.stdin(b"")
        limits = BeginLimits(CONNECT_SECONDS, FIRST_OUTPUT_SECONDS)
        with self._as_unreachable(node):
            transport = self._transport(node)
            return follow(
                transport, command, stdin, seconds=seconds, limits=limits, on_text=on_text
            )

    @contextmanager
    def stream_as_root(  # noqa: PLR0913 - every limit is a keyword
        self,
        node: Node,
        script: str,
        pieces: Iterable[bytes],
        *,
        silence: float,
        seconds: float,
        work: float = WORK_SECONDS,
    ) -> Iterator[Iterator[bytes]]:
        """Run a script as root; its output is a stream, and so is its input, ``pieces``.

        Args:
            node: where.
            script: for ``sh -c``.
            pieces: its standard input.
            silence: seconds in which nothing comes.
            seconds: of all of it.
            work: seconds before its answer begins; from then on its bytes need a pace.

        Raises:
            NodeUnreachable: no connection, it broke, the script failed, it was silent or too slow.
            ConfigError: the vault lacks the password that sudo asks for.
        """
        given = chain([self._become.stdin(b"")], pieces)
        with self._as_unreachable(node):
            where = self._transport(node)
            exchange = Exchange(where, self._become.command(script), given, silence, Pace(work))
        with closing(exchange):
            yield self._output_of(node, exchange, seconds)

    def _output_of(self, node: Node, exchange: Exchange, seconds: float) -> Iterator[bytes]:
        with self._as_unreachable(node):
            yield from exchange.output(seconds)

    def read_as_root(
        self, node: Node, path: str, *, most_bytes: int | None = None, timeout: float = 60
    ) -> Answer:
        """The content of a file, through sudo if the login user cannot read it.

        A broken connection is made once more: other calls share it, and each may end it by its
        own deadline.

        Raises:
            NodeUnreachable: no connection, or no answer within ``timeout`` seconds.
            ConfigError: the vault lacks the password that sudo asks for.
        """
        program = "cat" if most_bytes is None else f"head -c {most_bytes}"
        command = self._become.command(f"exec {program} {path}", enough=f"[ -r {path} ]")
        stdin = self._become.stdin(b"")
        try:
            return self.run(node, command, stdin=stdin, timeout=timeout)
        except NodeUnreachable as error:
            if isinstance(error.__cause__, CallFailed) or not error.logged_in:
                raise
        return self.run(node, command, stdin=stdin, timeout=timeout)

    @contextmanager
    def tunnel(self, node: Node, host: str, port: int) -> Iterator[int]:
        """A local port on loopback that forwards, through ``node``, to ``host:port``."""
        with open_tunnel(self._transport(node), host, port) as local:
            yield local

    def close(self) -> None:
        """Close every connection."""
        with self._lock:
            for client in self._clients.values():
                client.close()
            self._clients.clear()

    def _read_facts(self, node: Node) -> NodeFacts | Fault:
        script = probe_script(self._connection.python, self._arguments)
        try:
            answer = self.run_as_root(
                node, script, stdin=probe_archive(), timeout=PROBE_SECONDS, or_self=True
            )
        except NodeUnreachable as error:
            return Fault(
                node.name,
                error.message,
                error.hint or "",
                error.answers,
                error.deceives,
                error.logged_in,
                error.cause,
            )
        return facts_of(self._site, node, answer)

    def _transport(self, node: Node) -> paramiko.Transport:
        with self._lock:
            connecting = self._connecting.setdefault(node.name, threading.Lock())
        with connecting:
            # Calls share a connection, and one that ends by its own deadline ends it for all.
            if transport := _active(self._clients.get(node.name)):
                return transport
            self._forget(node)
            client = self._connect_patiently(node)
            with self._lock:
                self._clients[node.name] = client
        if transport := _active(client):
            return transport
        self._forget(node)
        raise NodeUnreachable(f"{node.name}: the SSH connection is closed", answers=True)

    def _forget(self, node: Node) -> None:
        with self._lock:
            client = self._clients.pop(node.name, None)
        if client is not None:
            with suppress(Exception):
                client.close()

    def _connect_patiently(self, node: Node) -> paramiko.SSHClient:
        """Connect; retry if a busy jump host dropped the connection."""
        for pause in RETRY_PAUSES if self._connection.jump_host else ():
            try:
                return self._connect(node)
            except NodeUnreachable as error:
                if not was_dropped(error.__cause__):
                    raise
                time.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311 - a wait, no secret
        return self._connect(node)

    def _connect(self, node: Node) -> paramiko.SSHClient:
        import paramiko

        self._check_key_once()
        address = str(node.address.ip)
        client = paramiko.SSHClient()
        client.set_missing_host_key_policy(paramiko.RejectPolicy())
        load(self._known_hosts, client.get_host_keys())
        if trusted := self._trusted.get((address, self._connection.port)):
            put(client.get_host_keys(), address, self._connection.port, trusted)
        key = self._connection.private_key
        proxy = None
        with self._logins, ended_after(LOGIN_SECONDS, lambda: _close(client)) as expired:
            try:
                proxy = through_jump_host(self._site, address)
                client.connect(
                    address,
                    port=self._connection.port,
                    username=self._connection.user,
                    key_filename=str(Path(key).expanduser()) if key else None,
                    timeout=CONNECT_SECONDS,
                    banner_timeout=CONNECT_SECONDS,
                    auth_timeout=CONNECT_SECONDS,
                    sock=proxy,
                )
            except (OSError, EOFError, paramiko.SSHException) as error:
                told = told_of_login(error, client.get_transport())
                client.close()
                _LOGGER.debug("%s: no login at %s: %r", node.name, address, error)
                if expired.is_set():
                    raise login_timed_out(self._site, node, LOGIN_SECONDS) from error
                said = said_by(proxy) if proxy else ""
                raise (local_fault(error) or login_failure(self._site, node, told, said)) from error
        if expired.is_set():
            raise login_timed_out(self._site, node, LOGIN_SECONDS)
        _LOGGER.debug("%s: logged in at %s", node.name, address)
        transport = client.get_transport()
        if transport is not None:
            transport.set_keepalive(15)
            without_delay(transport.sock)
        return client

    def _check_key_once(self) -> None:
        with self._lock:
            if not self._key_checked:
                check_private_key(self._connection.private_key)
                self._key_checked = True


def _active(client: paramiko.SSHClient | None) -> paramiko.Transport | None:
    """The connection, as long as nobody closed it."""
    transport = client.get_transport() if client else None
    return transport if transport and transport.is_active() else None


def _close(client: paramiko.SSHClient) -> None:
    """Close a connection that is still being opened."""
    transport = client.get_transport()
    if transport is not None:
        transport.close()
