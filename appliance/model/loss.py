"""A node that is lost: since when, what is stuck on it, and which services have no copy left.

Pure: what the API lists goes in as plain values. What must not be here: deciding what to do with a
lost node (that is a person, with ``node maintain --lost`` or ``node remove``).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

# A kubelet renews its lease every 10 s (its default); two that are missed mean silence.
SILENT_SECONDS: Final = 25.0
ENDED: Final = ("Succeeded", "Failed")


@dataclass(frozen=True)
class Sign:
    """What a Node object and its lease say of one node.

    Attributes:
        ready: the Ready condition is True.
        renewed: when the kubelet last renewed its lease, or None without one.
        changed: when the Ready condition last changed, or None.
    """

    ready: bool
    renewed: datetime | None = None
    changed: datetime | None = None


@dataclass(frozen=True)
class Tenant:
    """One pod, as far as the loss of its node is concerned.

    Attributes:
        owner: (kind, name) of its controller, None for a bare pod.
        ready: the Ready condition is True, and nobody asked it to end.
        ending: somebody asked it to end.
        claims: names of its PersistentVolumeClaims.
    """

    namespace: str
    name: str
    node: str
    owner: tuple[str, str] | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    phase: str = "Running"
    ready: bool = True
    ending: bool = False
    claims: tuple[str, ...] = ()

    @property
    def where(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def is_daemon(self) -> bool:
        """Whether it belongs to the node: nobody starts or misses it elsewhere."""
        return self.owner is not None and self.owner[0] in ("DaemonSet", "Node")


@dataclass(frozen=True)
class Service:
    """A Service; one without a selector has its addresses from elsewhere."""

    namespace: str
    name: str
    selector: Mapping[str, str] = field(default_factory=dict)

    def takes(self, pod: Tenant) -> bool:
        """Whether a pod is behind it."""
        chosen = self.selector.items()
        return bool(chosen) and pod.namespace == self.namespace and chosen <= pod.labels.items()


@dataclass(frozen=True)
class Tenancy:
    """What lives in a cluster, at one moment.

    Attributes:
        signs: node name -> what its Node object and its lease say.
        volumes: (namespace, claim) -> name of its PersistentVolume.
        attached: (node name, name of a PersistentVolume) that the API says is attached there.
    """

    signs: Mapping[str, Sign]
    pods: Sequence[Tenant] = ()
    services: Sequence[Service] = ()
    volumes: Mapping[tuple[str, str], str] = field(default_factory=dict)
    attached: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True)
class Loss:
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
        """The loss for people: the node first, then one line for each kind of thing."""
        kubelet = ", though it answers by SSH: its kubelet is silent" if self.answers_ssh else ""
        parts = (
            ("pods Terminating on it", self.terminating),
            ("pods on it that are not asked to end yet", self.waiting),
            ("volumes in use on it", self.volumes),
            ("services that lost their only copy", self.services),
            ("StatefulSets that wait for it, or for its Node object to go", self.frozen),
        )
        said = [f"{what}: {', '.join(names)}" for what, names in parts if names]
        return (
            f"lost since {self.since or 'an unknown time'}{kubelet}",
            *(said or ["nothing is stuck on it"]),
        )


def losses(
    tenancy: Tenancy, unreachable: Collection[str] = (), expected: Collection[str] = ()
) -> tuple[Loss, ...]:
    """Every lost node, by name.

    A node is lost when it is not Ready, or as soon as both SSH and its kubelet are silent: the API
    itself calls it Ready for another 40 s. Silence is judged against the newest lease, so that no
    clock but the cluster's counts.

    Args:
        tenancy: what the API says.
        unreachable: nodes that do not answer by SSH.
        expected: nodes that are away because somebody wants it so.
    """
    gone = frozenset(
        name
        for name, sign in tenancy.signs.items()
        if name not in expected
        and (not sign.ready or (name in unreachable and _is_silent(sign, tenancy)))
    )
    away = gone | (frozenset(expected) & frozenset(unreachable))
    return tuple(_loss(name, tenancy, away, unreachable) for name in sorted(gone))


def _is_silent(sign: Sign, tenancy: Tenancy) -> bool:
    heard = [other.renewed for other in tenancy.signs.values() if other.renewed is not None]
    if sign.renewed is None or not heard:
        return False
    return (max(heard) - sign.renewed).total_seconds() > SILENT_SECONDS


def _loss(node: str, tenancy: Tenancy, away: frozenset[str], unreachable: Collection[str]) -> Loss:
    sign = tenancy.signs[node]
    since = sign.renewed or sign.changed
    here = [
        pod
        for pod in tenancy.pods
        if pod.node == node and pod.phase not in ENDED and not pod.is_daemon
    ]
    used = {tenancy.volumes.get((pod.namespace, claim)) for pod in here for claim in pod.claims}
    used |= {volume for name, volume in tenancy.attached if name == node}
    sets = (pod.owner[1] for pod in here if pod.owner and pod.owner[0] == "StatefulSet")
    return Loss(
        node=node,
        since=since.isoformat(timespec="seconds") if since else None,
        answers_ssh=node not in unreachable,
        terminating=tuple(sorted(pod.where for pod in here if pod.ending)),
        waiting=tuple(sorted(pod.where for pod in here if not pod.ending)),
        volumes=tuple(sorted(volume for volume in used if volume)),
        services=tuple(
            sorted(
                f"{service.namespace}/{service.name}"
                for service in tenancy.services
                if _has_no_copy_left(service, here, tenancy, away)
            )
        ),
        frozen=tuple(sorted(set(sets))),
    )


def _has_no_copy_left(
    service: Service, here: Sequence[Tenant], tenancy: Tenancy, away: frozenset[str]
) -> bool:
    return any(service.takes(pod) for pod in here) and not any(
        service.takes(pod) and pod.ready and pod.node not in away for pod in tenancy.pods
    )
