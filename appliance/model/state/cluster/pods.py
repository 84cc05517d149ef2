"""A cluster's pods, and the disruption budgets that protect them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from appliance.model.state.cluster.resources import JUST_A_POD, Resources

INTERACTIVE: Final = ("build", "interactive-preemptible")

ENDED: Final = ("Succeeded", "Failed")
# What a DaemonSet's controller writes on each pod, and on the revision of its template.
TEMPLATE_LABEL: Final = "controller-revision-hash"


@dataclass(frozen=True)
class Toleration:
    """One toleration; an empty key with ``Exists`` tolerates every key, no effect every effect."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def covers(self, taint: str) -> bool:
        """Whether it tolerates ``key=value:effect``."""
        pair, _, effect = taint.rpartition(":")
        key, _, value = pair.partition("=")
        if self.effect and self.effect != effect:
            return False
        if self.operator == "Exists":
            return self.key in ("", key)
        return (self.key, self.value) == (key, value)


@dataclass(frozen=True)
class PodFault:
    """One reason why a pod is not ready.

    Attributes:
        container: the container that is at fault; empty for the pod as a whole.
        reason: what Kubernetes calls it, e.g. ``ErrImagePull``.
        message: its explanation.
    """

    container: str
    reason: str
    message: str = ""

    @property
    def words(self) -> str:
        """Reason and message, without the container's name."""
        return f"{self.reason} {self.message}".strip()

    @property
    def sentence(self) -> str:
        """The fault in one line, with the container's name."""
        if self.container:
            return f"{self.container}: {self.words}"
        return ": ".join(part for part in (self.reason, self.message) if part)


@dataclass(frozen=True)
class Pod:
    """One pod.

    Attributes:
        node: where it was bound to; None while it has no node.
        owner: (kind, name) of its controller, None for a bare pod.
        ready: the Ready condition is True, and it was not asked to end.
        ending: it was asked to end.
        reason: why it is not ready, or an empty string.
        app: its label ``k8s-app``, ``app`` or ``component``.
        mirror: the kubelet made it from a file on the node.
        claims: names of its PersistentVolumeClaims.
        config_maps: names of the ConfigMaps that it mounts.
        confined: why its own spec lets it run on one node alone, or an empty string.
        empty_dir: it keeps data in an emptyDir.
        gpus: whole GPUs that it holds.
        grace_seconds: what it is given to end.
        images: those of its containers, as its spec names them.
        requests: what the scheduler reserves for it beside GPUs; None: it cannot be read.
        node_selector: labels that its node must have.
    """

    namespace: str
    name: str
    node: str | None = None
    owner: tuple[str, str] | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    phase: str = "Running"
    ready: bool = True
    ending: bool = False
    reason: str = ""
    app: str = ""
    mirror: bool = False
    tolerations: tuple[Toleration, ...] = ()
    claims: tuple[str, ...] = ()
    config_maps: tuple[str, ...] = ()
    confined: str = ""
    empty_dir: bool = False
    gpus: int = 0
    user: str = ""
    grace_seconds: int = 30
    images: tuple[str, ...] = ()
    requests: Resources | None = JUST_A_POD
    node_selector: Mapping[str, str] = field(default_factory=dict)

    @property
    def where(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def why_unready(self) -> str:
        """What keeps it from being ready, in words."""
        return self.reason or ("it is ending" if self.ending else self.phase)

    @property
    def has_ended(self) -> bool:
        """Whether all its containers ended and none starts again."""
        return self.phase in ENDED

    @property
    def is_daemon(self) -> bool:
        """Whether a DaemonSet keeps it on every node."""
        return self.owner is not None and self.owner[0] == "DaemonSet"

    @property
    def belongs_to_its_node(self) -> bool:
        """Whether a DaemonSet or the kubelet keeps it there: it never starts elsewhere instead."""
        return self.is_daemon or (self.owner is not None and self.owner[0] == "Node")

    @property
    def stays(self) -> bool:
        """Whether an eviction leaves it alone."""
        return self.mirror or self.is_daemon or self.has_ended

    @property
    def project(self) -> str:
        """Run:ai's project, or an empty string."""
        return self.labels.get("project", "") or self.namespace.removeprefix("runai-") * (
            self.namespace.startswith("runai-") and self.namespace != "runai-backend"
        )

    @property
    def is_interactive(self) -> bool:
        """Whether a person works in it: Run:ai does not start it a second time."""
        return self.labels.get("priorityClassName", "") in INTERACTIVE

    def tolerates(self, taint: str) -> bool:
        """Whether a taint leaves it alone."""
        return any(toleration.covers(taint) for toleration in self.tolerations)


@dataclass(frozen=True)
class PodOnNode(Pod):
    """A pod, and what moving it to another node depends on beside itself.

    Attributes:
        siblings: Ready pods of the same controller elsewhere.
        pinned: why it can run nowhere else, its volumes included, or an empty string.
    """

    siblings: int = 0
    pinned: str = ""


@dataclass(frozen=True)
class Budget:
    """A PodDisruptionBudget.

    Attributes:
        pods: names of the pods that it covers, ``namespace/name``.
        allowed: disruptions that it allows now.
        says: its rule, e.g. ``minAvailable 2``.
    """

    namespace: str
    name: str
    pods: frozenset[str]
    allowed: int
    says: str = ""

    @property
    def where(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"
