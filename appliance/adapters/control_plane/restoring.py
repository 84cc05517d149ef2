"""What a restore asks of control-plane nodes and brings there: SSH and the nodes' Python alone.

It works without etcd, the API and the container runtime. The snapshot goes through this machine's
memory in pieces; plain text never reaches its disk. What must not be here: whether the cluster may
be restored (:mod:`appliance.model.backup.restore`).
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import IO, TYPE_CHECKING, Any, Final

from appliance.adapters.local.content import find_content_root
from appliance.adapters.ssh.streaming import seconds_for
from appliance.errors import ApplianceError, ClusterError, NodeUnreachable
from appliance.model.backup.restore_view import NodeView, read_view
from appliance.model.documents.strict_json import Unreadable, read_json

if TYPE_CHECKING:
    from appliance.adapters.ssh.nodes import SshNodes
    from appliance.model.site.settings import Node

PROGRAM: Final = "appliance_restore_intake.py"
SECONDS: Final = 30
SEAL_SECONDS: Final = 300
PIECE_BYTES: Final = 8 << 20
MOST_BYTES: Final = 1 << 20


class SshRestoring:
    """Looks at the control-plane nodes of one site, and brings a snapshot there.

    Args:
        nodes: SSH to them.
        python: the interpreter on the nodes.
    """

    def __init__(self, nodes: SshNodes, python: str) -> None:
        self._nodes = nodes
        self._python = python

    def look(self, asked: Sequence[Node]) -> Mapping[str, NodeView | str]:
        """Node -> what a restore is planned by, or why nothing is known.

        Each is also asked whether it reaches an etcd on one of the others.
        """
        addresses = [str(node.ip) for node in asked]
        with ThreadPoolExecutor(9) as pool:
            views = pool.map(lambda node: self._view(node, addresses), asked)
            return dict(zip((node.name for node in asked), views, strict=True))

    def _view(self, node: Node, addresses: Sequence[str]) -> NodeView | str:
        try:
            others = [one for one in addresses if one != str(node.ip)]
            return read_view(self._ask(node, ["look", *others]))
        except ApplianceError as error:
            return error.message
        except (Unreadable, ValueError, LookupError, TypeError) as error:
            return f"{node.name}: its answer is not readable: {error}"

    def bring(
        self,
        nodes: Sequence[Node],
        key: str,
        snapshot: tuple[int, str],
        read: Callable[[Callable[[IO[bytes]], None]], None],
    ) -> None:
        """Bring the snapshot to nodes that do not have it whole.

        Args:
            nodes: where to.
            key: the word of the restore.
            snapshot: size and sha256.
            read: calls what it is given with the snapshot as a stream.

        Raises:
            ClusterError: a node did not take it, or what it took is not what was sent.
            NodeUnreachable: a node did not answer.
        """
        size, sha256 = snapshot
        with ThreadPoolExecutor(9) as pool:
            has = list(pool.map(lambda node: self._has(node, key, sha256), nodes))
            lacking = [node for node, there in zip(nodes, has, strict=True) if not there]
            if not lacking:
                return

            def take(stream: IO[bytes]) -> None:
                at = 0
                while piece := _piece(stream):
                    send = partial(self._ask, words=["append", key, str(at)], piece=piece)
                    list(pool.map(send, lacking))
                    at += len(piece)

            read(take)
            words = ["seal", key, str(size), sha256]
            list(pool.map(lambda node: self._ask(node, words, seconds=SEAL_SECONDS), lacking))

    def _has(self, node: Node, key: str, sha256: str) -> bool:
        return self._ask(node, ["has", key, sha256], seconds=SEAL_SECONDS).get("has") is True

    def _ask(
        self, node: Node, words: Sequence[str], piece: bytes = b"", seconds: float = 0
    ) -> dict[str, Any]:
        limit = seconds or (seconds_for(len(piece)) if piece else SECONDS)
        command = program_command(self._python, PROGRAM, words)
        return ask_as_root(self._nodes, node, command, piece, limit)


def program_command(python: str, program: str, words: Sequence[str]) -> str:
    """The command that runs one of our self-contained programs on a node."""
    path = find_content_root() / "playbooks" / "module_utils" / program
    return shlex.join((python, "-c", path.read_text(), *words))


def ask_as_root(
    nodes: SshNodes, node: Node, command: str, stdin: bytes, seconds: float
) -> dict[str, Any]:
    """What a program of ours answers on a node.

    Raises:
        ClusterError: it failed; its reason.
        NodeUnreachable: the node does not answer, or not with an object.
    """
    answer = nodes.run_as_root(node, command, stdin=stdin, timeout=seconds)
    if answer.code != 0:
        why = (answer.errors or answer.output).strip()[-300:] or "no answer"
        raise ClusterError(
            f"{node.name}: {why}", hint=f"see its disk: appliance node ssh {node.name}"
        )
    found = read_json(answer.output, most_bytes=MOST_BYTES)
    if not isinstance(found, dict):
        raise NodeUnreachable(f"{node.name}: its answer is no object")
    return found


def _piece(stream: IO[bytes]) -> bytes:
    """The next piece, whole where the stream has as much."""
    found = bytearray()
    while len(found) < PIECE_BYTES:
        more = stream.read(PIECE_BYTES - len(found))
        if not more:
            break
        found += more
    return bytes(found)
