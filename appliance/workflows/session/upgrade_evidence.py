"""What is asked of a cluster before an upgrade, and of nodes before a patch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from appliance.model.patch.state import NodeState, NoState
    from appliance.model.site.settings import Node
    from appliance.model.upgrade.evidence import DeprecatedUse, EtcdStatus, Silence, SnapshotProof
    from appliance.model.upgrade.losses import Document, Documents


class UpgradeEvidence(Protocol):
    """What is asked of the cluster before an upgrade; no answer is a Silence."""

    def statuses(self, asked: Sequence[Node]) -> tuple[EtcdStatus, ...] | Silence:
        """What each member of etcd says of itself."""

    def prove(self, node: Node, reason: str, keep: Sequence[str] = ()) -> SnapshotProof:
        """Save a snapshot of etcd on a node, and restore it once.

        ``keep`` has names of older snapshots that make no room for it.

        Raises:
            ClusterError: it was not saved, or not restored.
        """

    def keeps(self, node: Node, path: str) -> bool | Silence:
        """Whether a snapshot of etcd is on a node still; another path is none."""

    def began(self, node: Node, upgrade: str) -> bool | Silence:
        """Whether a control-plane node keeps a kubelet of before an upgrade, by its word."""

    def documents(self, members: Iterable[Node]) -> Documents:
        """What people change by hand."""

    def carry(self, found: Documents, kubelet: Document | None, cluster: Document | None) -> None:
        """Write what is carried into kubeadm's ConfigMaps, from which it renders.

        Raises:
            ClusterError: they were changed meanwhile, or the API refused.
        """

    def deprecated_uses(self) -> tuple[DeprecatedUse, ...] | Silence:
        """The deprecated APIs that somebody asked for."""

    def runai_runtime(self) -> str | Silence | None:
        """The container runtime in the values of Run:ai's cluster release.

        Empty: they name none; None: there is no such release.
        """

    def deserved_gpus(self) -> Mapping[str, float | None] | Silence:
        """Run:ai's project -> GPUs that it has a claim to; None: not readable."""


class PackageReader(Protocol):
    """What nodes say of their packages."""

    def read(self, nodes: Sequence[Node]) -> Mapping[str, NodeState | NoState]:
        """Node -> its packages, or why it did not say."""
