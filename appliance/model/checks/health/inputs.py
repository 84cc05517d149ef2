"""The inputs of health checks, and the types of their results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from appliance.model.bundle.release.runai_versions import Version, minor_of, version_of_bundle
from appliance.model.checks.engine import Check, Need, Skipped
from appliance.model.components.runai.unmet import vendor_bundle
from appliance.model.site.runai_settings import Runai
from appliance.model.site.settings import Node, Site
from appliance.model.site.ssh import ssh_command
from appliance.model.state.cluster.cluster import Cluster
from appliance.model.state.cluster.prerequisites import Prerequisites
from appliance.model.state.desired import Desired
from appliance.model.state.facts.facts import NodeFacts
from appliance.model.state.findings import Finding
from appliance.model.state.nodes.node_state import NodeState, node_states

if TYPE_CHECKING:
    from appliance.model.backup.freshness import Newest
    from appliance.model.components.runai.backend_certificate import BackendCertificate
    from appliance.model.state.facts.disk_history import DiskHistory
    from appliance.model.state.observed import Observed, PodView


@dataclass(frozen=True)
class HealthInputs:
    """Everything that was seen; what nobody looked at is None.

    Attributes:
        control_host: name -> its addresses, as the control host resolves it.
        pods: what pods on every node saw.
        certificate: the backend's, when the site names one.
        clock: the control host's clock, UTC epoch seconds.
        recorded: the nodes of whose maintenance the control-plane nodes keep something.
        login_known: whether the vault holds the password of the backend's first user; None where
            the vault is closed.
        disks: node -> how full its disks were at earlier looks.
        backup: what is known of the newest backup; None: nobody asked.
    """

    desired: Desired
    observed: Observed
    control_host: Mapping[str, tuple[str, ...]] | None = None
    pods: PodView | None = None
    certificate: BackendCertificate | None = None
    clock: float | None = None
    login_known: bool | None = None
    recorded: frozenset[str] | None = None
    disks: Mapping[str, DiskHistory] = field(default_factory=dict)
    backup: Newest | None = None

    @property
    def site(self) -> Site:
        """The site asked for."""
        return self.desired.site

    @property
    def runai(self) -> Runai:
        """What the site says of Run:ai."""
        return self.site.settings.runai or Runai()

    @property
    def cluster(self) -> Cluster | None:
        """The cluster, when its API answered."""
        found = self.observed.cluster
        return found if isinstance(found, Cluster) else None

    @property
    def states(self) -> Mapping[str, NodeState]:
        """What each node of the inventory and of the cluster is."""
        return node_states(self.site, self.observed)

    @property
    def prerequisites(self) -> Prerequisites | None:
        """What Run:ai meets there."""
        return self.cluster.prerequisites if self.cluster else None

    @property
    def has_backend(self) -> bool:
        """Whether the backend is installed already."""
        return self.prerequisites is not None and self.prerequisites.has_backend

    @property
    def bundle_name(self) -> str | None:
        """File name of the vendor bundle that the site names."""
        given = self.runai.vendor_bundle
        return PurePath(given).name if given else None

    @property
    def vendor_version(self) -> Version | None:
        """The version of what is inside the vendor bundle; while nobody read it, its name's."""
        if self.bundle_name is None:
            return None
        found = vendor_bundle(self.desired, self.observed)
        inside = minor_of(found.version) if found else None
        return inside or version_of_bundle(self.bundle_name)

    @property
    def backend_addresses(self) -> tuple[str, ...]:
        """Where the backend answers: as the site says, else on its system nodes."""
        known = self.runai.address is not None or self.system_nodes
        return self.site.runai_addresses if known else ()

    @property
    def system_nodes(self) -> tuple[Node, ...]:
        """The nodes for Run:ai's own software, by the inventory."""
        return self.site.system_nodes

    @property
    def seen_members(self) -> str:
        """Of how many members this speaks; empty when none was seen."""
        seen, all_of = sum(1 for _ in self.members()), len(self.site.cluster_members)
        if not seen:
            return ""
        return f"{seen} nodes" if seen == all_of else f"{seen} of {all_of} nodes"

    def members(self) -> Iterator[tuple[Node, NodeFacts]]:
        """The nodes of the cluster that could be read."""
        for node in self.site.cluster_members:
            facts = self.observed.node_facts.get(node.name)
            if facts is not None:
                yield node, facts

    def ssh(self, node: Node, command: str) -> str:
        """A command to run on a node."""
        return ssh_command(self.site, node, command)


HealthCheck = Check[HealthInputs, Finding]
Answers = Iterator[Finding | Skipped | str]
# What has to be seen of the cluster before a check can be judged.
CLUSTER: Final = Need[HealthInputs](lambda inputs: inputs.cluster is not None, "no cluster answers")
MEMBERS: Final = Need[HealthInputs](lambda inputs: bool(inputs.seen_members), "no node answers")
PODS: Final = Need[HealthInputs](
    lambda inputs: inputs.pods is not None, "no test pods were started"
)
PREREQUISITES: Final = Need[HealthInputs](
    lambda inputs: inputs.prerequisites is not None, "no cluster answers"
)
