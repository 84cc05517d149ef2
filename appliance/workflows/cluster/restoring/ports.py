"""What a restore needs from the outside, as Protocols."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import IO, TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from appliance.model.backup.new_machines import Machine
    from appliance.model.backup.record import Manifest
    from appliance.model.backup.restore_view import NodeView
    from appliance.model.site.settings import Node


class Restoring(Protocol):
    """The control-plane nodes, without etcd and the API."""

    def look(self, asked: Sequence[Node]) -> Mapping[str, NodeView | str]:
        """Node -> what a restore is planned by, or why nothing is known."""

    def bring(
        self,
        nodes: Sequence[Node],
        key: str,
        snapshot: tuple[int, str],
        read: Callable[[Callable[[IO[bytes]], None]], None],
    ) -> None:
        """Bring a snapshot, of that size and sha256, to nodes that do not have it whole.

        Raises:
            ClusterError: a node did not take it, or what it took is not what was sent.
            NodeUnreachable: a node did not answer.
        """


class OpenedBackup(Protocol):
    """A backup that was read to its end once, and can be read again."""

    @property
    def sha256(self) -> str:
        """Of the encrypted file."""

    @property
    def manifest(self) -> Manifest:
        """What it holds."""

    def read(self, name: str, take: Callable[[IO[bytes]], None]) -> None:
        """Hand over the content of one part.

        Raises:
            NotHealthy: the file changed since it was checked.
        """


class NewMachines(Protocol):
    """The machines of a site, before and after they are members."""

    def look(self, asked: Sequence[Node], key: str) -> Mapping[str, Machine | str]:
        """Node -> what it says of itself, or why nothing is known."""

    def act(self, nodes: Sequence[Node], key: str, act: str) -> None:
        """Carry out one act on each machine.

        Raises:
            ClusterError: a machine refused; its reason.
            NodeUnreachable: one does not answer.
        """

    def give_authorities(self, node: Node, key: str, contents: Mapping[str, bytes]) -> None:
        """Put the authorities of the lost cluster in their place.

        Raises:
            ClusterError: the machine is not claimed, or has others.
            NodeUnreachable: it does not answer.
        """
