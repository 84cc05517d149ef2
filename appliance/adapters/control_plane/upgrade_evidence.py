"""What is asked of a cluster before an upgrade: of etcd, of the API, and of files on nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from appliance.adapters.control_plane.begun_upgrade import began_on
from appliance.adapters.control_plane.etcd_evidence import EtcdEvidence
from appliance.adapters.kubernetes.handmade import HandmadeReader
from appliance.adapters.kubernetes.nodes.projects import ProjectsReader

if TYPE_CHECKING:
    from appliance.adapters.ssh.nodes import SshNodes
    from appliance.model.site.settings import Node, Site
    from appliance.model.upgrade.evidence import (
        DeprecatedUse,
        EtcdStatus,
        Silence,
        SnapshotProof,
    )
    from appliance.model.upgrade.losses import Document, Documents


class ClusterEvidence:
    """All readers of one site as one port.

    Args:
        site: which one.
        nodes: SSH to its nodes.
        seen: told of the documents that people change by hand.
    """

    def __init__(
        self,
        site: Site,
        nodes: SshNodes,
        seen: Callable[[Documents], None] = lambda _documents: None,
    ) -> None:
        self._seen = seen
        self._nodes = nodes
        self._etcd = EtcdEvidence(nodes, site.settings.ssh.python, site.settings.etcd_restore)
        self._reader = HandmadeReader(site, nodes)
        self._projects = ProjectsReader(site, nodes)

    def statuses(self, asked: Sequence[Node]) -> tuple[EtcdStatus, ...] | Silence:
        """What each member of etcd says of itself."""
        return self._etcd.statuses(asked)

    def prove(self, node: Node, reason: str, keep: Sequence[str] = ()) -> SnapshotProof:
        """Save a snapshot of etcd on a node, and restore it once; ``keep`` names older ones."""
        return self._etcd.prove(node, reason, keep)

    def keeps(self, node: Node, path: str) -> bool | Silence:
        """Whether a snapshot of etcd is on a node still."""
        return self._etcd.keeps(node, path)

    def began(self, node: Node, upgrade: str) -> bool | Silence:
        """Whether an upgrade began to change a control-plane node."""
        return began_on(self._nodes, node, upgrade)

    def documents(self, members: Iterable[Node]) -> Documents:
        """What people change by hand."""
        found = self._reader.documents(members)
        self._seen(found)
        return found

    def carry(self, found: Documents, kubelet: Document | None, cluster: Document | None) -> None:
        """Write what is carried into kubeadm's ConfigMaps."""
        self._reader.carry(found, kubelet, cluster)

    def deprecated_uses(self) -> tuple[DeprecatedUse, ...] | Silence:
        """The deprecated APIs that somebody asked for."""
        return self._reader.deprecated_uses()

    def runai_runtime(self) -> str | Silence | None:
        """The container runtime in the values of Run:ai's cluster release."""
        return self._reader.runai_runtime()

    def deserved_gpus(self) -> Mapping[str, float | None] | Silence:
        """Run:ai's project -> GPUs that it has a claim to."""
        return self._projects.deserved_gpus()
