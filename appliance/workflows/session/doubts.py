"""Annotations of Nodes that no record on the control-plane nodes confirms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from appliance.errors import ApplianceError
from appliance.model.node.accepted import doubts_of
from appliance.model.node.maintenance_claims import claims_of
from appliance.model.state.cluster.cluster import Cluster
from appliance.model.state.nodes.maintenance import away
from appliance.workflows.node.baselines import read_passports
from appliance.workflows.node.maintenance.records import recorded

if TYPE_CHECKING:
    from appliance.model.state.observed import Observed
    from appliance.workflows.session.ports import Archive


@dataclass(frozen=True)
class NodeDoubt:
    """One thing that a Node object says and that is not simply believed."""

    node: str
    text: str
    hint: str


def recorded_maintenance(
    archive: Archive, observed: Observed, warnings: list[str]
) -> frozenset[str] | None:
    """The nodes of whose maintenance something is kept; None where nobody could be asked."""
    marks = away(observed.cluster)
    if not marks:
        return frozenset()
    try:
        return recorded(archive, marks)
    except ApplianceError as error:
        warnings.append(f"cannot verify who started a maintenance: {error.message}")
        return None


def find_doubts(archive: Archive, observed: Observed, warnings: list[str]) -> tuple[NodeDoubt, ...]:
    """Doubtful annotations; reads the records on the control-plane nodes of a cluster."""
    cluster = observed.cluster
    if not isinstance(cluster, Cluster):
        return ()
    claims = claims_of(cluster, recorded_maintenance(archive, observed, warnings))
    found = [NodeDoubt(c.node, c.sentence(), c.hint()) for c in claims if c.is_doubtful]
    try:
        passports = read_passports(archive)
    except ApplianceError as error:
        warnings.append(f"the passports cannot be read: {error.message}")
        passports = {}
    for name, accepted in doubts_of(cluster.nodes, passports).items():
        found.append(NodeDoubt(name, accepted.doubt, accepted.hint))
    return tuple(found)
