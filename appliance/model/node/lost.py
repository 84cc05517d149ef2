"""A lost node: since when, what is stuck on it, and which services have no replica left.

Pure: what the API lists goes in as plain values. What must not be here: deciding what to do with a
lost node (that is a person, with ``node maintain --lost`` or ``node remove``).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from appliance.model.state.cluster.cluster import ClusterNode
from appliance.model.state.cluster.pods import Pod

# A kubelet renews its lease every 10 s (its default); two that are missed mean silence.
SILENT_SECONDS: Final = 25.0


@dataclass(frozen=True)
class Service:
    """A Service; one without a selector has its addresses from elsewhere."""

    namespace: str
    name: str
    selector: Mapping[str, str] = field(default_factory=dict)

    def takes(self, pod: Pod) -> bool:
        """Whether a pod is behind it."""
        chosen = self.selector.items()
        return bool(chosen) and pod.namespace == self.namespace and chosen <= pod.labels.items()


@dataclass(frozen=True)
class Workloads:
    """What runs in a cluster, and where, at one moment.

    Attributes:
        nodes: every Node object, by name.
        heartbeats: node name -> when its kubelet last renewed its lease.
        volumes: (namespace, claim) -> name of its PersistentVolume.
        attached: (node name, name of a PersistentVolume) that the API says is attached there.
    """

    nodes: Mapping[str, ClusterNode]
    heartbeats: Mapping[str, datetime] = field(default_factory=dict)
    pods: Sequence[Pod] = ()
    services: Sequence[Service] = ()
    volumes: Mapping[tuple[str, str], str] = field(default_factory=dict)
    attached: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True)
class LostNode:
    """One lost node.

    Attributes:
        since: its last sign of life, UTC, ISO 8601; None when nobody can tell.
        terminating: pods that were asked to end there, and of which nobody knows whether they did.
        waiting: pods that nobody asked to end yet; Kubernetes does after five minutes.
        volumes: volumes that are attached there, or that its pods use.
        services: that have no ready pod left on any other node.
        frozen: StatefulSets whose pod is not started elsewhere while its fate is unknown.
    """

    node: str
    since: str | None
    answers_ssh: bool = False
    terminating: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    volumes: tuple[str, ...] = ()
    services: tuple[str, ...] = ()
    frozen: tuple[str, ...] = ()

    def sentences(self) -> tuple[str, ...]:
        """One line for the node, then one line for each kind of affected object."""
        kubelet = "; SSH answers, but its kubelet does not report" if self.answers_ssh else ""
        parts = (
            ("pods Terminating on it", self.terminating),
            (
                "pods on it that Kubernetes has not told to end yet (it does so after 5 minutes)",
                self.waiting,
            ),
            ("volumes in use on it", self.volumes),
            ("services without another ready pod", self.services),
            (
                "StatefulSets that wait for the node, or for the deletion of its Node object",
                self.frozen,
            ),
        )
        said = [f"{what}: {', '.join(names)}" for what, names in parts if names]
        return (
            f"lost since {self.since or 'an unknown time'}{kubelet}",
            *(said or ["nothing is stuck on it"]),
        )


def losses(
    workloads: Workloads, unreachable: Collection[str] = (), expected: Collection[str] = ()
) -> tuple[LostNode, ...]:
    """Every lost node, by name.

    A node is lost when it is not Ready, or as soon as both SSH and its kubelet are silent: the API
    itself calls it Ready for another 40 s. Silence is judged against the newest lease, so that no
    clock but the cluster's counts.

    Args:
        workloads: what the API says.
        unreachable: nodes that do not answer by SSH.
        expected: nodes that are out of service on purpose.
    """
    gone = frozenset(
        name
        for name, node in workloads.nodes.items()
        if name not in expected
        and (not node.ready or (name in unreachable and _is_silent(name, workloads)))
    )
    away = gone | (frozenset(expected) & frozenset(unreachable))
    return tuple(_loss(name, workloads, away, unreachable) for name in sorted(gone))


def _is_silent(node: str, workloads: Workloads) -> bool:
    heartbeats = workloads.heartbeats
    if node not in heartbeats:
        return False
    return (max(heartbeats.values()) - heartbeats[node]).total_seconds() > SILENT_SECONDS


def _loss(
    node: str, workloads: Workloads, away: frozenset[str], unreachable: Collection[str]
) -> LostNode:
    heartbeat = workloads.heartbeats.get(node)
    here = [
        pod
        for pod in workloads.pods
        if pod.node == node and not pod.has_ended and not pod.belongs_to_its_node
    ]
    used = {workloads.volumes.get((pod.namespace, claim)) for pod in here for claim in pod.claims}
    used |= {volume for name, volume in workloads.attached if name == node}
    sets = (pod.owner[1] for pod in here if pod.owner and pod.owner[0] == "StatefulSet")
    return LostNode(
        node=node,
        since=(
            heartbeat.isoformat(timespec="seconds")
            if heartbeat
            else workloads.nodes[node].ready_since
        ),
        answers_ssh=node not in unreachable,
        terminating=tuple(sorted(pod.where for pod in here if pod.ending)),
        waiting=tuple(sorted(pod.where for pod in here if not pod.ending)),
        volumes=tuple(sorted(volume for volume in used if volume)),
        services=tuple(
            sorted(
                f"{service.namespace}/{service.name}"
                for service in workloads.services
                if _has_no_copy_left(service, here, workloads, away)
            )
        ),
        frozen=tuple(sorted(set(sets))),
    )


def _has_no_copy_left(
    service: Service, here: Sequence[Pod], workloads: Workloads, away: frozenset[str]
) -> bool:
    return any(service.takes(pod) for pod in here) and not any(
        service.takes(pod) and pod.ready and pod.node not in away for pod in workloads.pods
    )
