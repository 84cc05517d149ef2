"""The forecast of an eviction: what it will do to a node's pods, and what prevents it.

Shapes of pods, budgets and nodes as the Kubernetes API tells them; kubectl's own rules of ``drain``
(mirror pods and DaemonSets stay, pods that ended do not count) are kept. Run:ai's labels: facts of
the vendor's documentation (``priorityClassName: build`` is an interactive workload, the namespace
``runai-PROJECT`` or the label ``project`` names its project).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from appliance.model.state.cluster.cluster import ClusterNode
from appliance.model.state.cluster.gpu_labels import WHOLE
from appliance.model.state.cluster.pods import Budget, PodOnNode
from appliance.model.state.nodes.maintenance import ANNOTATION, TAINT, Maintenance, maintenance_of

Severity = Literal["refuses", "blocks", "loses", "interrupts"]
NETWORK_APPS: Final = ("flannel", "kube-flannel", "kube-proxy")
GPU_NAMESPACE: Final = "gpu-operator"


@dataclass(frozen=True)
class Concern:
    """One thing to know before: what it is about, what will happen, how grave it is.

    Attributes:
        severity: ``refuses`` needs ``--allow-outage``; ``blocks`` will hold the eviction up until
            it changes; ``loses`` data or a person's work; ``interrupts`` a service.
        quorum: it is about etcd's quorum, which only a node that stops can take away.
        moves: nothing is lost, it is away until it runs on another node.
        workload: whose pods may take one another's place, as ``namespace/kind name``; empty: it
            is about this very pod.
        passing: it is of this moment, and may end when pods elsewhere are ready.
    """

    severity: Severity
    about: str
    text: str
    quorum: bool = False
    moves: bool = False
    workload: str = ""
    passing: bool = False

    def sentence(self) -> str:
        """The concern in one line."""
        return f"{self.about}: {self.text}"

    def on(self, node: str) -> str:
        """The same where the line names the node already."""
        return self.text if self.about == node else self.sentence()

    @property
    def cure(self) -> str:
        """What lets a rolling command go on."""
        if self.severity == "refuses":
            return "to continue anyway: --allow-outage"
        return "ask its owner for one more replica or another budget"


@dataclass(frozen=True)
class Forecast:
    """What maintenance of a node will do.

    Attributes:
        evicted: pods that are moved, in order.
        ended_by_taint: DaemonSet pods that do not tolerate the taint, and end with it.
        unfit: pods of the pod network or the GPU stack that do not tolerate it: no taint then.
        devices_left: resource of NVIDIA -> how many other nodes offer meanwhile.
        devices_now: with this node.
        waiting: evicted pods that find no free GPUs on another node as things are, and wait.
    """

    node: str
    evicted: tuple[PodOnNode, ...]
    ended_by_taint: tuple[PodOnNode, ...]
    unfit: tuple[PodOnNode, ...]
    concerns: tuple[Concern, ...]
    devices_left: Mapping[str, int]
    devices_now: Mapping[str, int]
    waiting: tuple[PodOnNode, ...] = ()

    @property
    def gpus_left(self) -> int:
        """What other nodes offer meanwhile as ``nvidia.com/gpu``."""
        return self.devices_left.get(WHOLE, 0)

    @property
    def gpus_now(self) -> int:
        """The same with this node."""
        return self.devices_now.get(WHOLE, 0)

    @property
    def grace_seconds(self) -> int:
        """The longest that a pod may take to end by its own wish."""
        return max((pod.grace_seconds for pod in self.evicted), default=0)

    @property
    def ended(self) -> tuple[str, ...]:
        """What ends for good, one sentence each: nothing starts it again on another node."""
        return tuple(one.sentence() for one in self.by("loses") if not one.workload)

    def by(self, severity: Severity) -> tuple[Concern, ...]:
        """The concerns of one severity."""
        return tuple(concern for concern in self.concerns if concern.severity == severity)


def forecast(
    node: str, pods: Sequence[PodOnNode], budgets: Sequence[Budget], nodes: Sequence[ClusterNode]
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
    evicted = moving(pods)
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
        _offered(takers),
        _offered((*takers, here)),
    )


def stopping(
    forecasts: Mapping[str, Forecast], *, allow_outage: bool
) -> Iterator[tuple[str, Concern]]:
    """Node and concern of all that keeps a rolling command from its first change.

    A node that restarts comes back, and etcd's quorum with it: the command asks etcd itself.

    Args:
        forecasts: node -> what its eviction will do.
        allow_outage: whether a service may be away.
    """
    for name, foreseen in forecasts.items():
        for concern in foreseen.concerns:
            outage = concern.severity == "refuses" and not allow_outage
            if not concern.quorum and (outage or concern.severity == "blocks"):
                yield name, concern


def waiting_for_gpus(pods: Iterable[PodOnNode], free: Mapping[str, int]) -> tuple[PodOnNode, ...]:
    """The pods that find no place by their whole GPUs, the largest placed first.

    A scheduler may do better or worse: who has a claim to a GPU is not asked, nor are CPU and
    memory.

    Args:
        pods: that are evicted together.
        free: node that takes pods -> its free GPUs.
    """
    left, waiting = dict(free), list[PodOnNode]()
    for pod in sorted((pod for pod in pods if pod.gpus), key=lambda pod: -pod.gpus):
        # The fullest node that still has enough, so that large pods find the emptier ones.
        fits = [name for name, count in left.items() if count >= pod.gpus]
        if fits:
            left[min(fits, key=left.__getitem__)] -= pod.gpus
        else:
            waiting.append(pod)
    return tuple(waiting)


def _offered(nodes: Iterable[ClusterNode]) -> dict[str, int]:
    """Resource of NVIDIA -> how many some nodes offer, none left out that one of them offers."""
    found: Counter[str] = Counter()
    for view in nodes:
        found.update(view.devices)
    return dict(found)


def moving(pods: Sequence[PodOnNode]) -> tuple[PodOnNode, ...]:
    """The pods of a node that an eviction takes away, in the order in which it asks for them."""
    return tuple(pod for pod in sorted(pods, key=_order) if not pod.stays)


def is_vital(pod: PodOnNode) -> bool:
    """Whether the node is no node without it: the pod network, or the GPU stack."""
    return pod.app in NETWORK_APPS or pod.namespace == GPU_NAMESPACE


def _order(pod: PodOnNode) -> tuple[bool, str, str]:
    """Workloads first, the system's own pods last."""
    return (pod.namespace.startswith(("kube-", "runai-backend")), pod.namespace, pod.name)


def _of_the_node(
    here: ClusterNode,
    others: Sequence[ClusterNode],
    takers: Sequence[ClusterNode],
    evicted: Sequence[PodOnNode],
) -> Iterator[Concern]:
    control_plane = [view for view in (here, *others) if view.control_plane]
    well = [view for view in control_plane if view.ready and not _is_away(view) and view != here]
    if here.control_plane and len(well) * 2 <= len(control_plane):
        left = f"{len(well)} of {len(control_plane)} control-plane nodes would be left"
        text = f"{left}: the API would be down, without etcd's quorum"
        yield Concern("refuses", here.name, text, quorum=True)
    system = [view for view in takers if view.is_system]
    if here.is_system and not system:
        yield Concern(
            "refuses",
            here.name,
            "it is the only working system node: Run:ai's own services would stop; first give "
            "another node the role: appliance node role set NODE --role system",
        )
    if not takers and any(not _has_place(pod, others) for pod in evicted):
        yield Concern("refuses", here.name, "no other node can take its pods")


def _has_place(pod: PodOnNode, others: Sequence[ClusterNode]) -> bool:
    """Whether a pod may go to another node, by its tolerations: CoreDNS to a control plane."""
    free = [view for view in others if view.ready and not view.unschedulable]
    hard = ("NoSchedule", "NoExecute")
    return any(
        all(pod.tolerates(taint) for taint in view.taints if taint.rpartition(":")[2] in hard)
        for view in free
    )


def _is_away(node: ClusterNode) -> bool:
    """In maintenance, or without a running etcd: it may be off although its Node is Ready."""
    return ANNOTATION in node.annotations or node.etcd_ready is False


def _of_a_pod(pod: PodOnNode, budgets: Sequence[Budget]) -> Iterator[Concern]:
    yield from _of_budgets(pod, [budget for budget in budgets if pod.where in budget.pods])
    if pod.owner is None:
        yield Concern("loses", pod.where, "has no controller: it is not started again")
    elif pod.is_interactive:
        yield Concern("loses", pod.where, f"is an interactive job{_whose(pod)}: it ends")
    if pod.empty_dir and pod.owner is not None:
        workload = f"{pod.namespace}/{' '.join(pod.owner)}"
        text = "loses the data in its emptyDir"
        yield Concern("loses", pod.where, text, workload=workload)
    if pod.pinned:
        yield Concern("interrupts", pod.where, f"can run on no other node: {pod.pinned}")
    elif pod.owner is not None and pod.siblings == 0 and not pod.is_interactive:
        yield Concern(
            "interrupts",
            pod.where,
            "is the only replica: unavailable until it runs on another node",
            moves=True,
        )


def _of_budgets(pod: PodOnNode, covering: Sequence[Budget]) -> Iterator[Concern]:
    if len(covering) > 1:
        # Kubernetes, pkg/registry/core/pod/rest/eviction.go: "does not support" more than one.
        names = ", ".join(budget.name for budget in covering)
        yield Concern(
            "blocks",
            pod.where,
            f"is covered by {len(covering)} PodDisruptionBudgets ({names}): the eviction API "
            "refuses that until one of them is deleted",
        )
    for budget in covering:
        if budget.allowed == 0:
            whose = " ".join(pod.owner) if pod.owner else "no controller"
            yield Concern(
                "blocks",
                pod.where,
                f"PodDisruptionBudget {budget.name} ({budget.says or 'no disruption allowed'}) "
                f"allows no disruption now; the pod belongs to {whose}",
                passing=True,
            )


def _whose(pod: PodOnNode) -> str:
    user = f" of {pod.user}" if pod.user else ""
    project = f" in project {pod.project}" if pod.project else ""
    return user + project


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
    nodes: tuple[ClusterNode, ...] = ()

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
