"""How many workers may be out together: what their pods ask for, against what other nodes have.

An estimate, as things are now: earlier batches move pods, and jobs end. It takes nodes by their
taints and labels, and knows no affinity (decision 280). What must not be here: whether a node
alone may be emptied (:mod:`appliance.model.node.drain`), or reading any of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from appliance.model.node.drain import DrainView, moving
from appliance.model.state.cluster.cluster import ClusterNode
from appliance.model.state.cluster.gpu_labels import WHOLE
from appliance.model.state.cluster.pods import PodOnNode, Toleration
from appliance.model.state.cluster.resources import Resources
from appliance.model.upgrade.evidence import Silence

# GPUs, thousandths of a CPU, bytes of memory, pods.
Amounts = tuple[int, int, int, int]
Kind = tuple[tuple[tuple[str, str], ...], tuple[Toleration, ...]]

_NOTHING: Final[Amounts] = (0, 0, 0, 0)
_HARD: Final = ("NoSchedule", "NoExecute")
_NAMED: Final = 3


@dataclass(frozen=True)
class Room:
    """The cluster by which a batch is bounded.

    Attributes:
        nodes: every one of the cluster, as it is when the batches begin.
        views: node -> its pods, of every node.
        deserved: Run:ai's project -> GPUs that it has a claim to; None: not readable.
    """

    nodes: Sequence[ClusterNode]
    views: Mapping[str, DrainView]
    deserved: Mapping[str, float | None] | Silence

    def bounded(self, batch: Sequence[str]) -> tuple[int, str]:
        """How many of a batch may be out together, and why no more; empty where all may.

        The first always may: what one node costs is judged elsewhere.
        """
        asked = tuple(batch)
        if asked not in self._answers:
            self._answers[asked] = self._bounded(asked)
        return self._answers[asked]

    def _bounded(self, batch: Sequence[str]) -> tuple[int, str]:
        against = self.against(batch)
        if not against:
            return len(batch), ""
        fit, unfit = 1, len(batch)
        while not self._unknown and unfit - fit > 1:
            # Most often few fit: twice as many each time, until they are too many.
            tried = fit * 2 if fit * 2 < unfit == len(batch) else (fit + unfit) // 2
            found = self.against(batch[:tried])
            fit, unfit, against = (fit, tried, found) if found else (tried, unfit, against)
        return fit, f"batch of {fit} instead of {len(batch)}: {against}"

    def against(self, batch: Sequence[str]) -> str:
        """Why these nodes may not be out together; empty: they may, or it is one node."""
        if len(batch) < 2:
            return ""
        return self._unknown or next(self._reasons(batch), "")

    def _reasons(self, batch: Sequence[str]) -> Iterator[str]:
        takers = [node for node in self._takers if node.name not in batch]
        yield from self._of_projects(len(batch), takers)
        kinds: dict[Kind, list[tuple[Amounts, PodOnNode]]] = {}
        for name in batch:
            for kind, amounts, pod in self._moving.get(name, ()):
                kinds.setdefault(kind, []).append((amounts, pod))
        names = {node.name for node in takers}
        allowed = {kind: [one for one in self._admitting(kind) if one in names] for kind in kinds}
        for kind, pods in kinds.items():
            text = self._of_sums([amounts for amounts, _ in pods], allowed[kind])
            if text:
                yield f"with {len(batch)} out, {text}"
        stuck = self._without_place(kinds, allowed)
        if stuck is not None:
            asks = f"{stuck.where} ({_asks(stuck)})"
            yield f"with {len(batch)} out, no other node has room for {asks}"

    def _of_projects(self, out: int, takers: Sequence[ClusterNode]) -> Iterator[str]:
        if isinstance(self.deserved, Silence):
            return
        claims = {name: self.deserved.get(name) or 0 for name in self._busy}
        offered = [gpus for one in takers if (gpus := one.devices.get(WHOLE, 0))]
        claimed, left = sum(claims.values()), sum(offered)
        if claimed > left:
            names = _listed([name for name, gpus in claims.items() if gpus])
            yield (
                f"with {out} out, {left} GPUs are left on {_nodes(len(offered))}, and projects "
                f"with running jobs ({names}) deserve {claimed:g}"
            )

    def _of_sums(self, asked: Sequence[Amounts], names: Sequence[str]) -> str:
        wanted = _sum(asked)
        free = _sum(_positive(self._free[name]) for name in names)
        for number, (needed, left) in enumerate(zip(wanted, free, strict=True)):
            if needed > left:
                return (
                    f"their pods ask for {_words(number, needed)}, but only {_words(number, left)} "
                    f"are free on {_nodes(len(names))} open to them"
                )
        return ""

    def _without_place(
        self,
        kinds: Mapping[Kind, Sequence[tuple[Amounts, PodOnNode]]],
        allowed: Mapping[Kind, Sequence[str]],
    ) -> PodOnNode | None:
        """The first pod that finds no place, each placed on the first node with room.

        Those with the fewest nodes to choose from come first, and of these the largest. A scheduler
        may find a better order: then the batch is smaller than it could be.
        """
        free = dict(self._free)
        pods = [(amounts, kind, pod) for kind, some in kinds.items() for amounts, pod in some]
        pods.sort(key=lambda one: (-len(allowed[one[1]]), one[0]), reverse=True)
        # What had no room for one pod has none for another like it: only less is free by then.
        begin: dict[tuple[Amounts, Kind], int] = {}
        for amounts, kind, pod in pods:
            names, alike = allowed[kind], (amounts, kind)
            for number in range(begin.get(alike, 0), len(names)):
                left = free[names[number]]
                if all(one <= other for one, other in zip(amounts, left, strict=True)):
                    free[names[number]] = _less(left, amounts)
                    begin[alike] = number
                    break
            else:
                return pod
        return None

    @cached_property
    def _pods(self) -> Mapping[str, Sequence[PodOnNode]]:
        return {name: view.pods for name, view in self.views.items()}

    @cached_property
    def _unknown(self) -> str:
        """What cannot be read, by which nothing is known to fit; empty: nothing."""
        for name, pods in self._pods.items():
            for pod in pods:
                if pod.requests is None and not pod.has_ended:
                    return f"the requests of {pod.where} on {name} cannot be read"
        for node in self._takers:
            if node.allocatable is None:
                return f"what {node.name} offers to pods cannot be read"
            if node.name not in self._pods:
                return f"the pods of {node.name} are not known"
        if isinstance(self.deserved, Silence):
            return f"the GPUs that Run:ai's projects deserve are not known: {self.deserved.reason}"
        unread = [name for name in self._busy if self.deserved.get(name, 0) is None]
        return f"the GPUs that project {unread[0]} deserves cannot be read" if unread else ""

    @cached_property
    def _busy(self) -> tuple[str, ...]:
        """The projects with running jobs."""
        found = (
            pod.project
            for pods in self._pods.values()
            for pod in pods
            if pod.phase == "Running" and not pod.belongs_to_its_node
        )
        return tuple(dict.fromkeys(filter(None, found)))

    @cached_property
    def _takers(self) -> tuple[ClusterNode, ...]:
        return tuple(node for node in self.nodes if node.ready and not node.unschedulable)

    @cached_property
    def _free(self) -> dict[str, Amounts]:
        """Node -> what its pods have left of it."""
        found = {}
        for node in self._takers:
            left = _amounts(node.devices.get(WHOLE, 0), node.allocatable)
            used = [_of(pod) for pod in self._pods.get(node.name, ()) if not pod.has_ended]
            found[node.name] = _less(left, _sum(used))
        return found

    @cached_property
    def _moving(self) -> dict[str, list[tuple[Kind, Amounts, PodOnNode]]]:
        """Node -> the pods that start elsewhere once it is emptied."""
        return {
            name: [(_kind(pod), _of(pod), pod) for pod in moving(pods) if _starts_elsewhere(pod)]
            for name, pods in self._pods.items()
        }

    @cached_property
    def _answers(self) -> dict[tuple[str, ...], tuple[int, str]]:
        return {}

    @cached_property
    def _places(self) -> dict[Kind, tuple[str, ...]]:
        return {}

    def _admitting(self, kind: Kind) -> tuple[str, ...]:
        """The nodes that a kind of pods may go to, by their labels and taints."""
        if kind not in self._places:
            wanted, tolerations = kind
            self._places[kind] = tuple(
                node.name
                for node in self._takers
                if all(node.labels.get(key) == value for key, value in wanted)
                and all(
                    any(one.covers(taint) for one in tolerations)
                    for taint in node.taints
                    if taint.rpartition(":")[2] in _HARD
                )
            )
        return self._places[kind]


def _starts_elsewhere(pod: PodOnNode) -> bool:
    """Whether its controller makes it again on another node: not of a job that ends with it."""
    return pod.owner is not None and not pod.is_interactive and not pod.pinned


def _kind(pod: PodOnNode) -> Kind:
    return tuple(sorted(pod.node_selector.items())), pod.tolerations


def _of(pod: PodOnNode) -> Amounts:
    return _amounts(pod.gpus, pod.requests)


def _amounts(gpus: int, others: Resources | None) -> Amounts:
    return (gpus, others.cpu_milli, others.memory, others.pods) if others else _NOTHING


def _sum(several: Iterable[Amounts]) -> Amounts:
    gpus = cpus = memory = pods = 0
    for one in several:
        gpus, cpus, memory, pods = gpus + one[0], cpus + one[1], memory + one[2], pods + one[3]
    return gpus, cpus, memory, pods


def _less(one: Amounts, other: Amounts) -> Amounts:
    return one[0] - other[0], one[1] - other[1], one[2] - other[2], one[3] - other[3]


def _positive(one: Amounts) -> Amounts:
    return max(0, one[0]), max(0, one[1]), max(0, one[2]), max(0, one[3])


def _asks(pod: PodOnNode) -> str:
    several = [_words(number, one) for number, one in enumerate(_of(pod)[:3]) if one]
    return ", ".join(several) or "it asks for nothing"


def _words(number: int, amount: int) -> str:
    """An amount with its unit."""
    if number == 1:
        return f"{amount / 1000:.6g} CPUs"
    if number == 2:
        return f"{amount / 1e9:.3g} GB of memory" if amount >= 1e6 else f"{amount} bytes of memory"
    return f"{amount} {('GPUs', '', '', 'pods')[number]}"


def _nodes(count: int) -> str:
    return f"{count} node{'' if count == 1 else 's'}"


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
