"""What one round over the nodes brings back, and what one playbook run is given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from appliance.model.photograph import Photograph


@dataclass(frozen=True)
class Fault:
    """Why a node could not be photographed: what was tried, what came back, what to do next."""

    node: str
    reason: str
    hint: str


@dataclass(frozen=True)
class Look:
    """What one round over the nodes brought.

    Attributes:
        photographs: node name -> its photograph.
        faults: the nodes that could not be photographed.
    """

    photographs: Mapping[str, Photograph]
    faults: tuple[Fault, ...] = field(default=())


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
