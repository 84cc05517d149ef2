"""What one round over the nodes brings back, and what one playbook run is given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from appliance.model.maintenance import TAINT, Maintenance, maintenance_of

if TYPE_CHECKING:
    from appliance.model.drain import Budget, NodeView, PodOnNode
    from appliance.model.photograph import Photograph


@dataclass(frozen=True)
class Fault:
    """Why a node could not be photographed: what was tried, what came back, what to do next.

    Attributes:
        answers: something is alive at its address; False where nothing answered at all.
        deceives: what answers there said something that is no document of our probe.
        logged_in: it let us in, and gave no document of our probe.
    """

    node: str
    reason: str
    hint: str
    answers: bool = False
    deceives: bool = False
    logged_in: bool = False


@dataclass(frozen=True)
class Look:
    """What one round over the nodes brought.

    Attributes:
        photographs: node name -> its photograph.
        faults: the nodes that could not be photographed.
    """

    photographs: Mapping[str, Photograph]
    faults: tuple[Fault, ...] = field(default=())

    def alive(self, node: str) -> str:
        """Why a node that answers was not photographed; empty where nothing answers."""
        return next((f.reason for f in self.faults if f.node == node and f.answers), "")

    def deceiver(self, node: str) -> bool:
        """Whether something answers there that is not to be believed."""
        return any(fault.node == node and fault.deceives for fault in self.faults)


@dataclass(frozen=True)
class DrainView:
    """A node and what has to do with emptying it, at one moment.

    Attributes:
        taints: ``key=value:effect`` strings.
        pods: those on the node.
        budgets: of the whole cluster.
        nodes: every node of the cluster, this one included.
    """

    node: str
    annotations: Mapping[str, str] = field(default_factory=dict)
    unschedulable: bool = False
    taints: tuple[str, ...] = ()
    ready: bool = True
    pods: tuple[PodOnNode, ...] = ()
    budgets: tuple[Budget, ...] = ()
    nodes: tuple[NodeView, ...] = ()

    @property
    def tainted(self) -> bool:
        """Whether a taint of the drain taint's key and effect is there, whoever put it there."""
        key, _, rest = TAINT.partition("=")
        effect = rest.rpartition(":")[2]
        return any(
            taint.partition("=")[0] == key and taint.rpartition(":")[2] == effect
            for taint in self.taints
        )

    @property
    def maintenance(self) -> Maintenance | None:
        """What our annotation says."""
        return maintenance_of(self.annotations)


@dataclass(frozen=True)
class GpuProof:
    """What pods saw of the GPUs that they were given.

    Attributes:
        listed: node -> the lines of ``nvidia-smi -L`` in its pod; none where every GPU was at work.
        faults: (node, sentence) of each thing that was not as it should be.
    """

    listed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    faults: tuple[tuple[str, str], ...] = ()

    def faults_of(self, node: str) -> tuple[str, ...]:
        """What is wrong on one node."""
        return tuple(text for name, text in self.faults if name == node)


@dataclass(frozen=True)
class PodView:
    """What pods saw of the cluster's network and names, one on each node.

    Attributes:
        asked: the nodes that had to take part.
        faults: one sentence per fault, beginning with the node it was seen from.
        names: node -> name asked for -> its addresses, as a pod there resolves it.
    """

    asked: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    names: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)


@dataclass(frozen=True)
class Play:
    """One playbook run.

    Attributes:
        run: the run's id.
        playbook: the playbook's name without ``.yml``.
        limit: the hosts to converge.
        inventory: the run's inventory (connection, leader, role variables), as plain data.
    """

    run: str
    playbook: str
    limit: tuple[str, ...]
    inventory: Mapping[str, Any]
