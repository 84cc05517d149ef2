"""What the areas of a clean-up need from the outside. ``tests/unit/care`` has fakes of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from appliance.model.care.etcd import MemberSpace
    from appliance.model.site.settings import Node


class EtcdSpace(Protocol):
    """The databases of etcd's members, asked on the control-plane nodes."""

    def spaces(self, asked: Sequence[Node]) -> tuple[tuple[MemberSpace, ...], tuple[str, ...]]:
        """What each member says; and a sentence for each that does not answer."""

    def save(self, node: Node) -> str:
        """Save a snapshot on a node; its path there.

        Raises:
            ClusterError: there is none.
            NodeUnreachable: the node does not answer.
        """

    def compact(self, node: Node, revision: int) -> None:
        """Drop what is older than a revision.

        Raises:
            ClusterError: etcd refused.
            NodeUnreachable: the node does not answer.
        """

    def defragment(self, node: Node) -> None:
        """Write a member's database anew.

        Raises:
            ClusterError: etcd refused, or the disk has no space for it.
            NodeUnreachable: the node does not answer.
        """

    def disarm(self, node: Node, member: str) -> None:
        """End a member's alarm for space.

        Raises:
            ClusterError: etcd refused.
            NodeUnreachable: the node does not answer.
        """
