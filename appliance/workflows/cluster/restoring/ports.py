"""What a restore needs from the outside, as Protocols."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import IO, TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from appliance.model.backup.new_machines import Machine
    from appliance.model.backup.not_carried import VolumeData
    from appliance.model.backup.record import Manifest
    from appliance.model.backup.restore_view import NodeView
    from appliance.model.site.settings import Node
    from appliance.model.state.plan import Plan
    from appliance.workflows.cluster.restore import RestoreResult
    from appliance.workflows.session.session import Session


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


class Stages(Protocol):
    """The commands of which a restore onto new machines is made; each looks at the site anew."""

    def session(self) -> Session:
        """Ports of a run that begins to look now."""

    def forecast(self) -> Plan:
        """What an install up to the workers would do."""

    def install(self, until: str) -> None:
        """Install up to a step, as ``appliance install`` does.

        Raises:
            what :func:`appliance.workflows.install.install` raises.
        """

    def restore(self, claim: str, *, only_resumed: bool) -> RestoreResult | None:
        """Restore etcd over what was made on claimed machines, as for the same machines.

        Args:
            claim: the word of the claim.
            only_resumed: do nothing, and return None, unless a restore was begun and not ended.

        Raises:
            what :func:`appliance.workflows.cluster.restore.cluster_restore` raises.
        """

    def volumes(self) -> Sequence[VolumeData]:
        """Every volume that the restored cluster knows, and where its data has to be."""

    def digest(self) -> bytes:
        """The digest over the objects of the cluster, as a backup has it; empty: not to be had."""
