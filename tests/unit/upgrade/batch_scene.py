"""Several nodes in one batch: a rack whose pods take their time to end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from appliance.model.state.cluster.pods import Budget, PodOnNode
from tests.unit.upgrade.rack import Bench, web

GRACE = 20.0
SHARED = frozenset({"team/web-1", "team/web-2"})


class Scene(Bench):
    """Pods end ``GRACE`` seconds after they were asked to; ``on`` is called at each change."""

    def __init__(self, workers: int = 2) -> None:
        super().__init__(workers=workers)
        self.drain.pods["w1"], self.drain.pods["w2"] = [web("w1")], [web("w2", "web-2")]
        self.evictions: list[tuple[str, float]] = []
        self.on: Callable[[str], None] = lambda _what: None
        self.at_rest: Callable[[], None] = lambda: None
        self._ends: dict[str, float] = {}
        self._slept = self.clock.sleep
        self.drain.evict = self._evict  # type: ignore[method-assign]
        self.clock.sleep = self._sleep  # type: ignore[method-assign]
        for name in ("mark", "clear"):
            setattr(self.drain, name, self._told(name, getattr(self.drain, name)))

    def _told(self, name: str, change: Callable[..., None]) -> Callable[..., None]:
        def told(node: str, *words: Any, **more: Any) -> None:
            phase = f" {words[0].phase}" if words else ""
            self.on(f"{name} {node}{phase}")
            change(node, *words, **more)

        return told

    def _evict(self, pod: PodOnNode) -> str:
        self.on(f"evict {pod.name}")
        if any(pod.where in budget.pods and not budget.allowed for budget in self.drain.budgets):
            return "a PodDisruptionBudget does not allow it"
        if pod.where not in self._ends:
            self.evictions.append((pod.name, self.clock.now()))
            self._ends[pod.where] = self.clock.now() + GRACE
            assert pod.node is not None
            pods = self.drain.pods[pod.node]
            pods[pods.index(pod)] = replace(pod, ending=True)
            self._allow(pod, 0)
        return ""

    def _sleep(self, seconds: float) -> None:
        self.at_rest()
        self._slept(seconds)
        for pods in self.drain.pods.values():
            for pod in [one for one in pods if self._ends.get(one.where, 1e12) <= self.clock.now()]:
                pods.remove(pod)
                self.rack.done.append(f"evict {pod.name}")
                # Its replacement is ready.
                self._allow(pod, 1)

    def _allow(self, pod: PodOnNode, allowed: int) -> None:
        self.drain.budgets = [
            replace(one, allowed=allowed) if pod.where in one.pods else one
            for one in self.drain.budgets
        ]

    def both(self) -> Any:
        return self.upgrade(max_unavailable=2)

    def close_budget_of(self, *pods: str) -> None:
        """Once the control plane is renewed; before, the plan would be refused."""

        def close(what: str) -> None:
            if what == "mark w1 cordon":
                self.drain.budgets = [Budget("team", "web", frozenset(pods), 0)]

        self.on = close

    @property
    def of_the_batch(self) -> list[tuple[str, tuple[str, ...]]]:
        found = [(one.step, one.nodes) for one in self.journal.records]
        return [one for one in found if "w1" in one[1] and one[0] != "kubernetes_images"]
