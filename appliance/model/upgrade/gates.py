"""Go or no-go before the first change of an upgrade: every point, judged from what was asked.

Pure: what is asked comes in as :class:`appliance.model.upgrade.evidence.Evidence`. What did not
answer, came late or cannot be read is unknown, and unknown is never a go. What must not be here:
the path (:mod:`appliance.model.upgrade.path`), or asking.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from appliance.model.upgrade.points.disks import disks
from appliance.model.upgrade.points.etcd import etcd, snapshot
from appliance.model.upgrade.points.gate import Gate, Verdict, stopping
from appliance.model.upgrade.points.gpu_toolkit import gpu_toolkit
from appliance.model.upgrade.points.nodes import (
    budgets,
    certificates,
    clocks,
    foreign_containers,
    images,
    nodes,
)
from appliance.model.upgrade.points.versions import (
    bundle,
    deprecated_apis,
    dropped,
    gpu_operator,
    runai,
    runai_runtime,
)

if TYPE_CHECKING:
    from appliance.model.site.settings import Site
    from appliance.model.state.observed import Observed
    from appliance.model.upgrade.evidence import Evidence
    from appliance.model.upgrade.path import Hop

__all__ = ["Gate", "Verdict", "gates", "stopping"]


def gates(
    site: Site, observed: Observed, evidence: Evidence, path: Sequence[Hop]
) -> tuple[Gate, ...]:
    """Judge every point; several gates of one name speak of several nodes.

    Args:
        site: whose members are judged.
        observed: one look at nodes and API.
        evidence: what else was asked.
        path: the releases on the way, the one asked for last; not empty.
    """
    return (
        *bundle(evidence, path),
        *images(site, evidence),
        *runai(evidence, path),
        *runai_runtime(evidence, path),
        *gpu_operator(site, observed, path),
        *gpu_toolkit(site, observed, evidence),
        *deprecated_apis(evidence, path),
        *dropped(evidence),
        *nodes(site, observed, evidence, path),
        *foreign_containers(site, observed, evidence),
        *budgets(site, evidence),
        *certificates(site, observed, evidence),
        *disks(site, observed, evidence),
        *clocks(site, observed, evidence),
        *etcd(site, evidence),
        *snapshot(evidence),
    )
