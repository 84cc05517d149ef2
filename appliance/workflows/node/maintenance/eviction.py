"""Drain nodes through the eviction API: evict, wait for each grace period, never delete."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from appliance.errors import ApplianceError, LeaseLost, StepNotVerified
from appliance.model.node.drain import DrainView, forecast, moving
from appliance.model.state.cluster.pods import PodOnNode
from appliance.model.state.nodes.maintenance import REMOVED, removal_of
from appliance.workflows.node.maintenance.marks import Marks, left_to_others

if TYPE_CHECKING:
    from appliance.model.state.journal import Run
    from appliance.workflows.session.ports import Clock, Drain, Observer

POLL_SECONDS = 1.0
# Beyond a pod's own grace: what the API and the kubelet need to act.
PATIENCE_SECONDS = 60.0
BUDGET_SECONDS = 60.0
# Pods of one controller that may come although the node is cordoned: bound just before it was.
RETURNS = 3
REMOVAL_BUDGET_SECONDS = 300.0
MOVES = "will be evicted"


@dataclass(frozen=True)
class Eviction:
    """How nodes are emptied.

    Attributes:
        step: under which name progress is shown.
        run: whose it is.
        guard: makes sure that the site is ours still; costs nothing as long as it is.
        budget_seconds: how long a PodDisruptionBudget may hold it up.
    """

    drain: Drain
    clock: Clock
    observer: Observer
    step: str
    run: Run
    guard: Callable[[], object]
    budget_seconds: float = BUDGET_SECONDS

    def forecast(self, name: str) -> tuple[str, ...]:
        """One sentence for each pod that moves, then for each that is lost or may block."""
        view = self.drain.view(name)
        foreseen = forecast(name, view.pods, view.budgets, view.nodes)
        moving = (f"pod {pod.where} {MOVES}" for pod in foreseen.evicted if pod.owner)
        return (*moving, *(concern.sentence() for concern in foreseen.concerns))

    def empty(self, name: str) -> None:
        """Cordon a node for its removal and evict what runs there.

        An annotation on the Node marks the cordon as ours. On failure our cordon is undone, even
        one of an earlier run that was killed. A maintenance or cordon of others stays. Once another
        command has the site's lock, nothing is undone.

        Raises:
            LeaseLost: another command took the site over.
            StepNotVerified: a pod stays.
            ClusterError: the API refused.
        """
        view = self.drain.view(name)
        before = view.maintenance
        ours = before is None or before.reason == REMOVED
        cordoned = before.cordoned if before else not view.unschedulable
        marks = Marks(self.drain, self.guard, name, before)
        try:
            if ours:
                mark = removal_of(self.run, self.clock.now(), cordoned=cordoned)
                marks.write(mark, cordon=True)
            self.evict(name)
        except (Exception, KeyboardInterrupt) as stopped:
            if ours:
                self._take_back(name, marks, stopped, uncordon=cordoned)
            raise

    def _take_back(
        self, name: str, marks: Marks, stopped: Exception | KeyboardInterrupt, *, uncordon: bool
    ) -> None:
        """Undo the cordon; the eviction's error stays, with the node's state in its details."""
        try:
            marks.clear(uncordon=uncordon)
            left = f"restored: {name} takes pods again; evicted pods do not move back"
        except LeaseLost:
            left = left_to_others(name)
        except ApplianceError as error:
            left = f"{name} stays cordoned ({error.message}): appliance node return {name}"
        if isinstance(stopped, ApplianceError):
            stopped.details = (*stopped.details, left)
        else:
            self.observer.note(left)

    def evict(self, *names: str) -> None:
        """Ask for each pod of the nodes until it is gone; nodes are emptied at the same time.

        Each has its own grace and a minute more, from when it was granted; a budget may hold the
        eviction up for ``budget_seconds``, counted again whenever a pod has gone.

        Raises:
            LeaseLost: another command took the site over; no further pod was asked.
            StepNotVerified: a budget blocks a pod, or a pod does not terminate; names both.
            ClusterError: the API refused.
        """
        held: dict[str, float] = {}
        emptying = [_Emptying(name) for name in names]
        while emptying:
            pods: list[PodOnNode] = []
            for one in tuple(emptying):
                left = self._poll(one, held)
                pods += left
                if not left:
                    emptying.remove(one)
            if emptying:
                self.observer.verifying(self.step, _waiting_for(pods, held))
                self.clock.sleep(POLL_SECONDS)

    def _poll(self, one: _Emptying, held: dict[str, float]) -> Sequence[PodOnNode]:
        """Ask for each pod of a node once; what was left on it."""
        # What was seen in a look counts at the moment when that look began: one that hung, or
        # a machine that slept, costs no pod its time.
        self.guard()
        looked = self.clock.monotonic()
        pods = self._left(one.name, first=one.known is None)
        if not pods:
            # Its last pods may be what a budget waited for on another node.
            _start_again(held, gone=bool(one.left & (one.known or set())))
            return ()
        here = {pod.where for pod in pods}
        one.known = here if one.known is None else one.known
        self._refuse_returning(one.name, [p for p in pods if p.where not in one.known], one.back)
        # One that came since gives no more time: others like it may come for ever.
        _start_again(held, gone=bool((one.left - here) & one.known))
        one.left = here
        for pod in pods:
            self.guard()
            began = self.clock.monotonic()
            why = "" if pod.ending else self.drain.evict(pod)
            now = self.clock.monotonic()
            if not why:
                held.pop(pod.where, None)
                one.asked.setdefault(pod.where, now)
            elif began - held.setdefault(pod.where, now) >= self.budget_seconds:
                raise self._held_up(one.name, pod, why)
        self._refuse_late(
            one.name, pods, {where: looked - since for where, since in one.asked.items()}
        )
        return pods

    def _left(self, name: str, *, first: bool) -> tuple[PodOnNode, ...]:
        """What is still to be moved; that nothing is, only a look at the whole cluster says."""
        pods = () if first else moving(self.drain.pods_on(name))
        return pods or to_be_moved(self.drain.view(name))

    def _refuse_returning(
        self,
        name: str,
        new: Sequence[PodOnNode],
        back: dict[tuple[str, tuple[str, str] | None], set[str]],
    ) -> None:
        """Stop at a controller whose pods name the node, or tolerate a cordon: it never ends."""
        for pod in new:
            seen = back.setdefault((pod.namespace, pod.owner), set())
            seen.add(pod.where)
            if len(seen) > RETURNS:
                look = ["kubectl", "-n", pod.namespace, "get", "pod", pod.name, "-o", "yaml"]
                owner = " ".join(pod.owner) if pod.owner else "an unknown owner"
                raise StepNotVerified(
                    f"{name}: {owner} in {pod.namespace} keeps starting pods on this node although "
                    f"it is cordoned: {pod.where}",
                    hint="its pods set nodeName or tolerate the cordon: scale it down (see "
                    f"{shlex.join(look)}), then run the same command again",
                )

    def _refuse_late(self, name: str, pods: Sequence[PodOnNode], took: Mapping[str, float]) -> None:
        late = [
            pod for pod in pods if took.get(pod.where, 0.0) >= pod.grace_seconds + PATIENCE_SECONDS
        ]
        if late:
            first, *others = late
            raise StepNotVerified(
                f"{name}: pod {first.where} has not terminated {took[first.where]:.0f} s after its "
                f"eviction (its grace period is {first.grace_seconds} s)",
                hint=shlex.join(["kubectl", "-n", first.namespace, "describe", "pod", first.name]),
                details=[f"pod {pod.where} has not terminated either" for pod in others],
            )

    def _held_up(self, name: str, pod: PodOnNode, why: str) -> StepNotVerified:
        view = self.drain.view(name)
        budgets = [b for b in view.budgets if pod.where in b.pods and b.allowed == 0]
        named = budgets[0].where if budgets else "its PodDisruptionBudget"
        says = f" ({budgets[0].says})" if budgets and budgets[0].says else ""
        owner = " ".join(pod.owner) if pod.owner else "no controller"
        return StepNotVerified(
            f"{name}: pod {pod.where} of {owner} cannot be evicted: {named}{says} has allowed no "
            f"disruption for {self.budget_seconds:.0f} s",
            hint="ask the pod's owner for one more replica or another budget; then run the same "
            "command again",
            details=[] if budgets else [why],
        )


@dataclass
class _Emptying:
    """One node while it is emptied.

    Attributes:
        asked: pod -> when its eviction was granted.
        left: what was on it at the last look.
        known: what was on it at the first one.
        back: namespace and owner -> pods of it that came since.
    """

    name: str
    asked: dict[str, float] = field(default_factory=dict)
    left: set[str] = field(default_factory=set)
    known: set[str] | None = None
    back: dict[tuple[str, tuple[str, str] | None], set[str]] = field(default_factory=dict)


def _start_again(held: dict[str, float], *, gone: bool) -> None:
    """A pod that has gone may be what a budget waited for: its time is counted again."""
    if gone:
        held.clear()


def losses(sentences: Sequence[str]) -> tuple[str, ...]:
    """The sentences of a forecast that are about more than a pod that moves."""
    return tuple(sentence for sentence in sentences if not sentence.endswith(MOVES))


def to_be_moved(view: DrainView) -> tuple[PodOnNode, ...]:
    """The pods that an eviction takes from the node."""
    return moving(view.pods)


def _waiting_for(pods: Sequence[PodOnNode], held: dict[str, float]) -> str:
    first = next((pod.where for pod in pods if pod.where in held), pods[0].where)
    why = "PodDisruptionBudget of" if first in held else "termination of"
    more = f" and {len(pods) - 1} more" if pods[1:] else ""
    return f"{why} pod {first}{more}"
