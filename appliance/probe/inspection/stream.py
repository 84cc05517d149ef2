"""One TCP stream between two nodes, first one way and then the other, within limits.

The serving side listens on the node's own address, takes one connection from its partner alone,
and closes the port. A deadline of the kernel ends both sides, whoever was killed. What must not be
here: which nodes are paired, and a judgement.
"""

from __future__ import annotations

import hmac
import json
import os
import re
import signal
import socket
import struct
import time
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from ..source import Source
from .trials import require_no_pods

SCHEMA = 1
KIND = "stream"
BLOCK = 1 << 20
# The first byte of a block.
MORE, LAST = 1, 0
# Until the partner listens, and until it comes: its login and its Python may be slower.
CONNECT_SECONDS = 10.0
WAIT_SECONDS = 25.0
GRACE_SECONDS = 10.0
SILENT_SECONDS = 6.0
# linux/tcp.h: tcpi_snd_mss and tcpi_total_retrans of struct tcp_info.
MSS_AT, RETRANSMITTED_AT = 16, 100
COUNTERS = {
    "errors": ("rx_errors", "tx_errors", "rx_crc_errors"),
    "dropped": ("rx_dropped", "tx_dropped"),
}


class Order(NamedTuple):
    """What one side of a stream has to do.

    Attributes:
        word: what the partner says first; both sides were told it.
        seconds: of each direction.
        most: bytes of each direction.
        among_pods: whether it may run on a node that carries pods.
        patience: seconds until a partner that refuses counts as closed.
    """

    role: str
    own: str
    peer: str
    port: int
    word: str
    seconds: float
    most: int
    among_pods: bool = False
    patience: float = CONNECT_SECONDS


def run(source: Source, text: str) -> Dict[str, Any]:
    """Serve or connect as the order says; the report of this side."""
    order = Order(**json.loads(text))
    # Its default action ends this process: nothing is left of a command that was killed.
    signal.alarm(int(WAIT_SECONDS + CONNECT_SECONDS + 2 * order.seconds + 2 * GRACE_SECONDS))
    name = interface_of(source, order.own)
    before = counters(source, name)
    found: Dict[str, Any] = {"schema": SCHEMA, "kind": KIND, "role": order.role, "reason": None}
    # Before the stream: commands have the deadline of a whole probe.
    found["firewall"] = firewalls(source)
    try:
        if not order.among_pods:
            require_no_pods(source)
        found.update(serve(order) if order.role == "serve" else connect(order))
    except (OSError, struct.error) as error:
        found["reason"] = reason_of(error)
    after = counters(source, name)
    found["interface"] = name
    speed = source.word("/sys/class/net/%s/speed" % name) if name else None
    found["speed_mbps"] = int(speed) if speed and speed.isdigit() else None
    for kind in COUNTERS:
        known = before.get(kind) is not None and after.get(kind) is not None
        found[kind] = max(0, after[kind] - before[kind]) if known else None
    return found


def reason_of(error: Exception) -> str:
    """Why there is no stream, in words."""
    if isinstance(error, socket.timeout):
        return str(error) if str(error) != "timed out" else "no answer"
    return str(getattr(error, "strerror", None) or error)


def serve(order: Order) -> Dict[str, Any]:
    """Take one connection of the partner: receive, then send."""
    ends = time.monotonic() + WAIT_SECONDS
    foreign = 0
    with _socket(order.own) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((order.own, order.port))
        listener.listen(4)
        while True:
            try:
                # Strangers may come faster than any timeout.
                listener.settimeout(max(1e-3, ends - time.monotonic()))
                if time.monotonic() > ends:
                    raise socket.timeout
                connection, address = listener.accept()
            except socket.timeout:
                words = "its partner did not connect within %d s" % WAIT_SECONDS
                raise socket.timeout(words) from None
            connection.settimeout(SILENT_SECONDS)
            if address[0] == order.peer and _is_partner(connection, order.word, ends):
                break
            foreign += 1
            connection.close()
    with connection:
        found = {"foreign": foreign}
        found.update(receive(connection, order))
        found.update(send(connection, order))
        return found


def _is_partner(connection: socket.socket, word: str, ends: float) -> bool:
    try:
        said = _exactly(connection, bytearray(len(word)), ends)
    except OSError:
        return False
    return hmac.compare_digest(bytes(said), word.encode())


def connect(order: Order) -> Dict[str, Any]:
    """Connect to the partner, which may not listen yet: send, then receive."""
    ends = time.monotonic() + order.patience
    while True:
        connection = _socket(order.own)
        try:
            connection.settimeout(max(0.5, ends - time.monotonic()))
            connection.bind((order.own, 0))
            connection.connect((order.peer, order.port))
            break
        except ConnectionRefusedError:
            connection.close()
            if time.monotonic() > ends:
                raise
            time.sleep(0.2)
        except OSError:
            connection.close()
            raise
    with connection:
        connection.settimeout(SILENT_SECONDS)
        connection.sendall(order.word.encode())
        found = send(connection, order)
        found.update(receive(connection, order))
        return found


def _socket(address: str) -> socket.socket:
    return socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)


def send(connection: socket.socket, order: Order) -> Dict[str, Any]:
    """Send blocks until the time or the bytes are used up, and wait until all have arrived."""
    block = bytearray(os.urandom(BLOCK))
    block[0] = MORE
    began, sent = time.monotonic(), 0
    while sent + 2 * BLOCK <= order.most and time.monotonic() - began < order.seconds:
        connection.sendall(block)
        sent += BLOCK
    block[0] = LAST
    connection.sendall(block)
    sent += BLOCK
    ends = began + order.seconds + GRACE_SECONDS
    (arrived,) = struct.unpack("!Q", _exactly(connection, bytearray(8), ends))
    took = time.monotonic() - began
    if arrived != sent:
        raise OSError("%d of %d bytes arrived" % (arrived, sent))
    told = tcp_info(connection)
    return {
        "sent_bytes": sent,
        "sent_seconds": round(took, 4),
        "retransmitted": told[0] if told else None,
        "segments": -(-sent // told[1]) if told and told[1] else None,
    }


def receive(connection: socket.socket, order: Order) -> Dict[str, Any]:
    """Receive blocks until the last, and tell how many bytes came."""
    ends, received = time.monotonic() + order.seconds + GRACE_SECONDS, 0
    block = bytearray(BLOCK)
    while True:
        if received > order.most:
            raise OSError("the partner sent more than it was asked to")
        _exactly(connection, block, ends)
        received += BLOCK
        if block[0] == LAST:
            break
    connection.sendall(struct.pack("!Q", received))
    return {"received_bytes": received}


def _exactly(connection: socket.socket, buffer: bytearray, ends: float) -> bytearray:
    """So many bytes, by then: a partner that sends one now and then holds nobody up."""
    view, got = memoryview(buffer), 0
    while got < len(buffer):
        if time.monotonic() > ends:
            raise socket.timeout("the partner sent too few bytes in its time")
        count = connection.recv_into(view[got:])
        if not count:
            raise OSError("the partner closed the connection")
        got += count
    return buffer


def tcp_info(connection: socket.socket) -> Optional[Tuple[int, int]]:
    """How many segments were sent again, and how large a segment is; None if it is not told."""
    raw = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    if len(raw) < RETRANSMITTED_AT + 4:
        return None
    (retransmitted,) = struct.unpack_from("=I", raw, RETRANSMITTED_AT)
    (mss,) = struct.unpack_from("=I", raw, MSS_AT)
    return retransmitted, mss


def interface_of(source: Source, address: str) -> Optional[str]:
    """The interface that has an address."""
    for link in source.json_command("ip-address", ["ip", "-j", "-d", "address"]) or ():
        if any(info.get("local") == address for info in link.get("addr_info") or ()):
            return str(link.get("ifname"))
    return None


def counters(source: Source, name: Optional[str]) -> Dict[str, int]:
    """What an interface counted since it came up; with the devices below a bond or VLAN."""
    names = [name] if name else []
    for one in names:
        below = source.names("/sys/class/net/%s" % one)
        names += [found[6:] for found in below if re.match(r"lower_.", found) and len(names) < 16]
    found: Dict[str, int] = {}
    for kind, files in COUNTERS.items():
        words = [
            source.word("/sys/class/net/%s/statistics/%s" % (one, file))
            for one in names
            for file in files
        ]
        if words and all(word is not None and word.isdigit() for word in words):
            found[kind] = sum(int(word) for word in words if word)
    return found


def firewalls(source: Source) -> List[str]:
    """Firewalls that are seen to be on at this node."""
    found = []
    if re.search(r"^ENABLED=yes", source.text("/etc/ufw/ufw.conf") or "", re.MULTILINE):
        found.append("ufw")
    if source.exists("/run/firewalld"):
        found.append("firewalld")
    rules = source.command("iptables-filter", ["iptables-save", "-t", "filter"], quiet=True) or ""
    if re.search(r"^:INPUT DROP|^-A INPUT .*-j (?:DROP|REJECT)", rules, re.MULTILINE):
        found.append("iptables")
    return found
