"""What the areas of a clean-up need from the outside. ``tests/unit/care`` has fakes of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from appliance.model.backup.kept import KeptBackups
    from appliance.model.site.settings import Node
    from appliance.model.upkeep.care.etcd import MemberSpace
    from appliance.model.upkeep.care.records import KeptRun, StateSizes
    from appliance.model.upkeep.care.supply import NodeImage, Supply


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


class SupplyReader(Protocol):
    """What the services node, and the container runtimes, hold."""

    def supply(self, services: Node, *, own_registry: bool) -> Supply:
        """The bundles, and the images of the registry.

        Raises:
            NodeUnreachable: the services node does not answer.
            ClusterError: it could not be read.
        """

    def images(
        self, asked: Sequence[Node], runtime: str
    ) -> tuple[Mapping[str, tuple[NodeImage, ...]], tuple[str, ...]]:
        """Node -> its images; and a sentence for each node without an answer."""


class RunFolders(Protocol):
    """The state of the site on this machine."""

    def runs(self) -> tuple[KeptRun, ...]:
        """The folders of runs."""

    def sizes(self) -> StateSizes:
        """How large the parts are that stay."""

    def remove_facts(self, name: str) -> None:
        """Remove the kept facts of a node that the site no longer has."""

    def remove_run(self, run: str) -> None:
        """Remove the folder of a run.

        Raises:
            OSError: it is none, or could not be removed.
        """


@dataclass(frozen=True)
class Care:
    """Everything that a clean-up looks at and changes.

    Attributes:
        pod_images: the images that pods and their templates name.
        backups: what a place holds of backups.
    """

    etcd: EtcdSpace
    supply: SupplyReader
    runs: RunFolders
    pod_images: Callable[[], frozenset[str]]
    backups: Callable[[str], KeptBackups]
