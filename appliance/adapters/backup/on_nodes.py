"""Backups that a timer made on control-plane nodes: which there are, and their content.

Only root reads them there. Changes nothing.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Final, cast

from appliance.errors import ApplianceError, NodeUnreachable
from appliance.model.backup.holdings import Held, holdings
from appliance.model.backup.names import SUFFIX, is_backup_id

if TYPE_CHECKING:
    from appliance.adapters.ssh.nodes import SshNodes
    from appliance.model.site.settings import Node

FOLDER: Final = "/var/backups/appliance"
_MOST: Final = 500
_MOST_BESIDE: Final = 1 << 18
_SECONDS: Final = 30
SILENCE_SECONDS: Final = 60.0
# For a whole file; beside that, its bytes need a pace.
FILE_SECONDS: Final = 6 * 3600.0
BEGIN_SECONDS: Final = 60.0
# Sizes first; then what lies beside a backup, each in one line. A link is none.
_SCRIPT: Final = f"""
cd {FOLDER} 2>/dev/null || exit 0
find . -maxdepth 1 -type f -name '*.backup*' -printf 'size %s %f\\n' | head -n {_MOST}
n=0
for f in *.backup.json; do
  [ -f "$f" ] && [ ! -L "$f" ] && [ $n -lt {_MOST} ] || continue
  n=$((n + 1)); printf 'beside %s ' "$f"; head -c {_MOST_BESIDE} "$f" | tr '\\n' ' '; echo
done
exit 0
"""
_LINE: Final = re.compile(r"(size|beside) (\S+) (.*)")


@dataclass(frozen=True)
class OnNode:
    """The backups of one node, or why nothing is known of them."""

    node: str
    held: tuple[Held, ...] = ()
    fault: str = ""


def on_nodes(asked: Sequence[Node], nodes: SshNodes) -> tuple[OnNode, ...]:
    """Ask nodes of the control plane; what one says is judged like storage of others."""
    with ThreadPoolExecutor(len(asked)) as pool:
        return tuple(pool.map(lambda node: _asked(node, nodes), asked))


def _asked(node: Node, nodes: SshNodes) -> OnNode:
    try:
        answer = nodes.run_as_root(node, _SCRIPT, timeout=_SECONDS)
    except ApplianceError as error:
        return OnNode(node.name, fault=error.message)
    if answer.code != 0:
        return OnNode(node.name, fault=f"{node.name}: {FOLDER} could not be read")
    return OnNode(node.name, read_listing(answer.output))


def read_listing(text: str) -> tuple[Held, ...]:
    """The backups in what a node says; lines of another form are left out."""
    sizes: dict[str, int] = {}
    beside: dict[str, bytes | None] = {}
    for line in text.splitlines():
        found = _LINE.fullmatch(line.rstrip())
        if found is None:
            continue
        kind, first, rest = found.groups()
        if kind == "beside":
            beside[first] = rest.encode(errors="replace")
        elif first.isascii() and first.isdigit() and len(first) < 20:
            sizes[rest] = int(first)
    return holdings(sizes, beside)


class NodeFolder:
    """The folder of backups on one node.

    Args:
        node: where.
        nodes: SSH to it.
    """

    def __init__(self, node: Node, nodes: SshNodes) -> None:
        self._node = node
        self._nodes = nodes

    @property
    def told(self) -> str:
        """The node and the folder."""
        return f"{self._node.name}:{FOLDER}"

    @contextmanager
    def open(self, name: str, start: int = 0) -> Iterator[IO[bytes]]:
        """A backup as a stream; a link is none, and what is gone has no bytes.

        Raises:
            OSError: the connection broke, or the node was silent or too slow.
            NodeUnreachable: it does not answer, or no honest node would answer like that.
        """
        if name == name.removesuffix(SUFFIX) or not is_backup_id(name.removesuffix(SUFFIX)):
            raise FileNotFoundError("no name of a backup")
        script = (
            f"cd {FOLDER} && [ -f {name} ] && [ ! -L {name} ] || exit 0; "
            f"exec tail -c +{start + 1} {name}"
        )
        how = {"silence": SILENCE_SECONDS, "seconds": FILE_SECONDS, "work": BEGIN_SECONDS}
        try:
            with self._nodes.stream_as_root(self._node, script, (), **how) as pieces:
                yield cast("IO[bytes]", _Stream(pieces))
        except NodeUnreachable as error:
            if error.deceives or not error.logged_in:
                raise
            # The same may work in a moment.
            raise OSError(error.message) from error


class _Stream(io.RawIOBase):
    """What a node sends, as a stream."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """So many bytes at most; empty at the end."""
        while not self._rest:
            piece = next(self._pieces, None)
            if piece is None:
                return b""
            self._rest = memoryview(piece)
        wanted = len(self._rest) if size < 0 else size
        found, self._rest = bytes(self._rest[:wanted]), self._rest[wanted:]
        return found
