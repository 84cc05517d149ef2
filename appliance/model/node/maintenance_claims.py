"""Maintenance annotations, and the evidence for or against each of them.

A node's own kubelet may write the annotation, too. Whoever writes it is named by the API server
(``managedFields``), but chooses that name freely; what the control-plane nodes keep of the run is
out of a worker's reach. A claim that is in doubt still counts, as others may be at work by it: it
is told. What must not be here: reading any of that.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from appliance.model.state.cluster.cluster import ClusterNode, ClusterState
from appliance.model.state.nodes.maintenance import ANNOTATION, MANAGER, Maintenance, away

# As which this tool writes; the second is what the API server made of it in earlier versions.
OURS: Final = frozenset({MANAGER, "OpenAPI-Generator"})


@dataclass(frozen=True)
class Claim:
    """One node in maintenance.

    Attributes:
        writers: who wrote the annotation last, where that was not this tool.
        recorded: whether the control-plane nodes keep anything of its run; None where nobody asked.
    """

    node: str
    mark: Maintenance
    writers: tuple[str, ...] = ()
    recorded: bool | None = None

    @property
    def is_doubtful(self) -> bool:
        """Whether another writer may have set it; a running command may have no record yet."""
        return bool(self.writers) or (self.recorded is False and not self.mark.is_under_way)

    def sentence(self) -> str:
        """Who, since when and why; and the reasons to doubt it."""
        against = (
            [f"written by {', '.join(self.writers)}, not by appliance"] if self.writers else []
        )
        if self.recorded is False:
            yet = " yet" if self.mark.is_under_way else ""
            against.append(f"the control-plane nodes have no record of its run{yet}")
        return "; ".join([self.mark.sentence(), *against])

    def hint(self) -> str:
        """What to do about it."""
        back = f"appliance node return {self.node}"
        if not self.is_doubtful:
            return f"when the work is done: {back}"
        return (
            f"ask {self.mark.by}; see the writer: kubectl get node {self.node} -o yaml "
            f"--show-managed-fields; if no work is in progress: {back}"
        )


def claims_of(cluster: ClusterState, recorded: Collection[str] | None = None) -> tuple[Claim, ...]:
    """Every node that says that it is in maintenance, by name.

    Args:
        cluster: as the API tells it.
        recorded: the nodes of whose maintenance the control-plane nodes keep something; None where
            nobody asked.
    """
    return tuple(
        Claim(name, mark, strangers(cluster.nodes[name]), _is_in(name, recorded))  # type: ignore[union-attr]
        for name, mark in sorted(away(cluster).items())
    )


def strangers(member: ClusterNode) -> tuple[str, ...]:
    """Who but this tool wrote the annotation, where the API server tells."""
    return tuple(name for name in member.writers.get(ANNOTATION, ()) if name not in OURS)


def _is_in(name: str, names: Collection[str] | None) -> bool | None:
    return None if names is None else name in names
