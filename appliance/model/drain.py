"""What an eviction of a node's pods will do, and what stands in its way, before anything is done.

Shapes of pods, budgets and nodes as the Kubernetes API tells them; kubectl's own rules of ``drain``
(mirror pods and DaemonSets stay, pods that ended do not count) are kept. Run:ai's labels: facts of
the vendor's documentation (``priorityClassName: build`` is an interactive workload, the namespace
``runai-PROJECT`` or the label ``project`` names its project).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from appliance.model.maintenance import TAINT

Severity = Literal["refuses", "blocks", "loses", "interrupts"]
ENDED: Final = ("Succeeded", "Failed")
NETWORK_APPS: Final = ("flannel", "kube-flannel", "kube-proxy")
GPU_NAMESPACE: Final = "gpu-operator"
INTERACTIVE: Final = ("build", "interactive-preemptible")
SYSTEM_LABEL: Final = "node-role.kubernetes.io/runai-system"


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
class PodOnNode:
    """One pod, as far as moving it is concerned.

    Attributes:
        owner: (kind, name) of its controller, None for a bare pod.
        siblings: Ready pods of the same controller elsewhere.
        pinned: why it can run nowhere else, or an empty string.
        empty_dir: it keeps data in an emptyDir.
        gpus: whole GPUs that it holds.
        grace_seconds: what it is given to end.
    """

    namespace: str
    name: str
    node: str
    owner: tuple[str, str] | None = None
    phase: str = "Running"
    mirror: bool = False
    app: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()
    siblings: int = 0
    pinned: str = ""
    empty_dir: bool = False
    gpus: int = 0
    user: str = ""
    grace_seconds: int = 30
    ending: bool = False

    @property
    def where(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def is_daemon(self) -> bool:
        """Whether a DaemonSet keeps it on every node."""
        return self.owner is not None and self.owner[0] == "DaemonSet"

    @property
    def stays(self) -> bool:
        """Whether an eviction leaves it alone."""
        return self.mirror or self.is_daemon or self.phase in ENDED

    @property
    def project(self) -> str:
        """Run:ai's project, or an empty string."""
        return self.labels.get("project", "") or self.namespace.removeprefix("runai-") * (
            self.namespace.startswith("runai-") and self.namespace != "runai-backend"
        )

    @property
    def is_interactive(self) -> bool:
        """Whether a person works in it: Run:ai does not start it again by itself."""
        return self.labels.get("priorityClassName", "") in INTERACTIVE

    def tolerates(self, taint: str) -> bool:
        """Whether a taint leaves it alone."""
        return any(toleration.covers(taint) for toleration in self.tolerations)


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


@dataclass(frozen=True)
class NodeView:
    """One node, as far as it can take what another gives up.

    Attributes:
        away: in maintenance, or a control-plane node whose etcd does not run: it may be off
            although the API calls it Ready.
    """

    name: str
    ready: bool = True
    schedulable: bool = True
    control_plane: bool = False
    system: bool = False
    gpus: int = 0
    away: bool = False


@dataclass(frozen=True)
class Concern:
    """One thing to know before: what it is about, what will happen, how grave it is.

    Attributes:
        severity: ``refuses`` needs ``--allow-outage``; ``blocks`` will hold the eviction up until
            it changes; ``loses`` data or a person's work; ``interrupts`` a service.
    """

    severity: Severity
    about: str
    text: str

    def sentence(self) -> str:
        """The concern in one line."""
        return f"{self.about}: {self.text}"


@dataclass(frozen=True)
class Forecast:
    """What maintenance of a node will do.

    Attributes:
        evicted: pods that are moved, in order.
        ended_by_taint: DaemonSet pods that do not tolerate the taint, and end with it.
        unfit: pods of the pod network or the GPU stack that do not tolerate it: no taint then.
        gpus_left: whole GPUs that other nodes offer meanwhile.
        gpus_now: with this node.
    """

    node: str
    evicted: tuple[PodOnNode, ...]
    ended_by_taint: tuple[PodOnNode, ...]
    unfit: tuple[PodOnNode, ...]
    concerns: tuple[Concern, ...]
    gpus_left: int
    gpus_now: int

    @property
    def grace_seconds(self) -> int:
        """The longest that a pod may take to end by its own wish."""
        return max((pod.grace_seconds for pod in self.evicted), default=0)

    def by(self, severity: Severity) -> tuple[Concern, ...]:
        """The concerns of one severity."""
        return tuple(concern for concern in self.concerns if concern.severity == severity)


def forecast(
    node: str, pods: Sequence[PodOnNode], budgets: Sequence[Budget], nodes: Sequence[NodeView]
) -> Forecast:
    """Say what maintenance of ``node`` will do.

    Args:
        node: its name.
        pods: the pods on it.
        budgets: every PodDisruptionBudget of the cluster.
        nodes: every node of the cluster, this one included.
    """
    here = next(view for view in nodes if view.name == node)
    others = [view for view in nodes if view.name != node]
    takers = [view for view in others if view.ready and view.schedulable]
    evicted = tuple(pod for pod in sorted(pods, key=_order) if not pod.stays)
    daemons = [pod for pod in pods if pod.is_daemon and not pod.tolerates(TAINT)]
    unfit = tuple(pod for pod in daemons if is_vital(pod))
    concerns = [
        *_of_the_node(here, others, takers, evicted),
        *(concern for pod in evicted for concern in _of_a_pod(pod, budgets)),
    ]
    return Forecast(
        node,
        evicted,
        tuple(pod for pod in daemons if pod not in unfit),
        unfit,
        tuple(concerns),
        sum(view.gpus for view in takers),
        sum(view.gpus for view in (*takers, here)),
    )


def is_vital(pod: PodOnNode) -> bool:
    """Whether the node is no node without it: the pod network, or the GPU stack."""
    return pod.app in NETWORK_APPS or pod.namespace == GPU_NAMESPACE


def _order(pod: PodOnNode) -> tuple[bool, str, str]:
    """Workloads first, the system's own pods last."""
    return (pod.namespace.startswith(("kube-", "runai-backend")), pod.namespace, pod.name)


def _of_the_node(
    here: NodeView,
    others: Sequence[NodeView],
    takers: Sequence[NodeView],
    evicted: Sequence[PodOnNode],
) -> Iterator[Concern]:
    masters = [view for view in (here, *others) if view.control_plane]
    well = [view for view in masters if view.ready and not view.away and view != here]
    if here.control_plane and len(well) * 2 <= len(masters):
        left = f"{len(well)} of {len(masters)} control-plane nodes would be left"
        yield Concern("refuses", here.name, f"{left}: the API would be away, and etcd read-only")
    system = [view for view in takers if view.system]
    if here.system and not system:
        yield Concern(
            "refuses",
            here.name,
            "it is the only system node that works: Run:ai's own services would stop; give another "
            "one the role first: appliance node role set NODE --role system",
        )
    if evicted and not takers:
        yield Concern("refuses", here.name, "no other node can take its pods")


def _of_a_pod(pod: PodOnNode, budgets: Sequence[Budget]) -> Iterator[Concern]:
    yield from _of_budgets(pod, [budget for budget in budgets if pod.where in budget.pods])
    if pod.owner is None:
        yield Concern("loses", pod.where, "has no controller: nothing starts it again")
    elif pod.is_interactive:
        yield Concern("loses", pod.where, f"is an interactive job{_whose(pod)}: its work ends")
    if pod.empty_dir and pod.owner is not None:
        yield Concern("loses", pod.where, "loses what it keeps in an emptyDir")
    if pod.pinned:
        yield Concern("interrupts", pod.where, f"can run nowhere else: {pod.pinned}")
    elif pod.owner is not None and pod.siblings == 0 and not pod.is_interactive:
        yield Concern("interrupts", pod.where, "is the only copy: away until it runs elsewhere")


def _of_budgets(pod: PodOnNode, covering: Sequence[Budget]) -> Iterator[Concern]:
    if len(covering) > 1:
        # Kubernetes, pkg/registry/core/pod/rest/eviction.go: "does not support" more than one.
        names = ", ".join(budget.name for budget in covering)
        yield Concern(
            "blocks",
            pod.where,
            f"is covered by {len(covering)} PodDisruptionBudgets ({names}): the eviction API "
            "refuses it until one of them is gone",
        )
    for budget in covering:
        if budget.allowed == 0:
            whose = " ".join(pod.owner) if pod.owner else "nobody"
            yield Concern(
                "blocks",
                pod.where,
                f"PodDisruptionBudget {budget.name} ({budget.says or 'no disruption allowed'}) "
                f"allows no disruption now; it belongs to {whose}",
            )


def _whose(pod: PodOnNode) -> str:
    user = f" of {pod.user}" if pod.user else ""
    project = f" in project {pod.project}" if pod.project else ""
    return user + project
