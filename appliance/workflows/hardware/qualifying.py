"""Judge hardware and keep the records: one way, for every command that qualifies nodes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from appliance.workflows.hardware.qualify import AMONG_PODS, TRIALS, Beside, keep, qualify
from appliance.workflows.hardware.records import keep_with_passports

if TYPE_CHECKING:
    from appliance.model.checks.hardware.reading import Qualification
    from appliance.model.site.settings import Node
    from appliance.workflows.hardware.qualify import (
        Catalogue,
        HardwareReader,
        StreamTester,
        Way,
    )
    from appliance.workflows.session.local_ports import Documents
    from appliance.workflows.session.ports import Archive, Clock


@dataclass(frozen=True)
class Qualified:
    """What came of it.

    Attributes:
        found: one judgement for each node, in the order that was asked.
        at: when the records were made, in seconds since 1970.
        missed: one sentence for each record that is not on every control-plane node.
    """

    found: tuple[Qualification, ...]
    at: float
    missed: tuple[str, ...] = ()


@dataclass(frozen=True)
class Qualifying:
    """What judges hardware, and where the records go.

    Attributes:
        catalogue: of models.
        reader: reads a node.
        network: measures between nodes; its argument: on nodes that carry pods, too.
        documents: on this machine.
        archive: the documents on the control-plane nodes.
        clock: time.
        by: operator@host.
        tool_version: of this product.
    """

    catalogue: Catalogue
    reader: HardwareReader
    network: Callable[[bool], StreamTester]
    documents: Documents
    archive: Archive
    clock: Clock
    by: str
    tool_version: str

    def knows(self, node: Node) -> bool:
        """Whether the catalogue has the model that the node's host_vars name."""
        return node.hardware in self.catalogue.models

    def carry_out(
        self,
        nodes: Sequence[Node],
        way: Way = "both",
        trials: Collection[str] = TRIALS,
        *,
        among_pods: bool = False,
    ) -> Qualified:
        """Read and judge these nodes, and keep the record of each that was read.

        Args:
            nodes: which.
            way: by probe, BMC, or both.
            trials: what is measured on each node; without any, the network is not, either.
            among_pods: memory and network are measured on nodes that carry pods, too.

        Raises:
            ConfigError: a node names no model, or one that no file describes.
        """
        asked = (*trials, AMONG_PODS) if trials and among_pods else tuple(trials)
        network = self.network(among_pods) if trials else None
        beside = Beside(asked, network, self.documents)
        found = qualify(nodes, self.catalogue, self.reader, way, beside)
        now = self.clock.now()
        kept = keep(found, self.documents, self.by, now, self.tool_version)
        return Qualified(found, now, keep_with_passports(kept, self.archive))
