"""The end of ``rack up``: everything that ``appliance health`` checks, and the pods of Run:ai.

Pods, the GPU stack and clocks need minutes after a cold start, so what time can cure is asked again
until it is well or the time is up. What time does not cure is told at once. What must not be here:
a check (:mod:`appliance.model.checks.health`).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from appliance.model.components.runai.pods import pods_in_the_way
from appliance.model.state.cluster.cluster import Cluster
from appliance.model.state.nodes.maintenance import away
from appliance.workflows.health import HealthRequest, HealthResult, health, stage_of
from appliance.workflows.session.patience import Patience

if TYPE_CHECKING:
    from appliance.model.state.desired import Desired
    from appliance.workflows.session.session import Session

# As the GPU stack may take after an install: a driver in a container is compiled on the node.
SOUND_SECONDS: Final = 900.0
POLL_SECONDS: Final = 10.0
# What waiting does not change.
LASTING: Final = frozenset(
    (
        *("cluster_version", "system_nodes", "kubernetes_certificates", "certificate"),
        *("vendor_secrets", "researcher_login", "pod_guard", "ca_trust", "dns_control_host"),
        "maintenance",
    )
)


@dataclass(frozen=True)
class Unsound:
    """One thing that is not well.

    Attributes:
        sentence: what, and of which node.
        hint: the next command.
        lasts: time does not cure it.
    """

    sentence: str
    hint: str
    lasts: bool = False


def unsound(desired: Desired, session: Session, step: str) -> tuple[Unsound, ...]:
    """What is not well once the time is up; nodes that others keep out of service do not count.

    Raises:
        ClusterError: the API refused what the test pods need.
    """
    patience = Patience(session.clock, SOUND_SECONDS)
    while True:
        found = _of(desired, session, with_pods=False)
        passing = [one for one in found if not one.lasts]
        if not passing or patience.is_over():
            break
        session.observer.verifying(step, passing[0].sentence)
        session.clock.sleep(POLL_SECONDS)
    # Test pods start on nodes that are well; each start of theirs takes a while.
    return found if passing else _of(desired, session, with_pods=True)


def _of(desired: Desired, session: Session, *, with_pods: bool) -> tuple[Unsound, ...]:
    stage = stage_of(desired.site, None)
    result = health(HealthRequest(desired, stage, with_pods=with_pods), session)
    cluster = session.cluster.read(result.look.node_facts)
    kept = frozenset(away(cluster))
    found = _found(result, kept)
    if not isinstance(cluster, Cluster):
        return found
    return (
        *found,
        *(
            Unsound(
                f"pod {pod.where} is not ready: {pod.why_unready}",
                f"kubectl -n {pod.namespace} describe pod {pod.name}",
            )
            for pod in pods_in_the_way(cluster.vendor_pods)
            if pod.node not in kept
        ),
    )


def _found(result: HealthResult, kept: Collection[str]) -> tuple[Unsound, ...]:
    return (
        *(Unsound(f.reason, f.hint) for f in result.look.faults if f.node not in kept),
        *(
            Unsound(finding.sentence(), finding.hint, finding.check in LASTING)
            for one in result.results
            for finding in one.findings
            if finding.severity == "error" and finding.node not in kept
        ),
    )
