"""Ends the workloads of all nodes of a rack: no other node takes them, so no node is first.

Each pod is asked through the eviction API and has its own grace. What a PodDisruptionBudget keeps
longer than agreed ends with its node: its system stops it in the shutdown. What must not be here:
the cordon, which comes before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from appliance.model.node.drain import moving

if TYPE_CHECKING:
    from appliance.model.state.cluster.pods import PodOnNode
    from appliance.workflows.session.session import Session

POLL_SECONDS: Final = 1.0
# Beyond a pod's own grace: what the API and the kubelet need to act.
PATIENCE_SECONDS: Final = 60.0


def end_workloads(
    names: Sequence[str],
    session: Session,
    step: str,
    guard: Callable[[], object],
    budget_seconds: float,
) -> tuple[str, ...]:
    """Ask every pod of some nodes to end, and wait; one sentence for each that stays.

    Args:
        names: of nodes whose kubelet can end pods.
        session: the session.
        step: under which name progress is shown.
        guard: makes sure that the site is ours still.
        budget_seconds: how long a PodDisruptionBudget may hold a pod.

    Raises:
        LeaseLost: another command took the site over; no further pod was asked.
        ClusterError, NodeUnreachable: the API refused, or does not answer.
    """
    clock, began = session.clock, session.clock.monotonic()
    granted: dict[str, float] = {}
    while True:
        guard()
        looked = clock.monotonic()
        views = session.drain.views(names) if names else {}
        left = [pod for view in views.values() for pod in moving(view.pods)]
        held: dict[str, str] = {}
        for pod in left:
            guard()
            why = "" if pod.ending else session.drain.evict(pod)
            if why:
                held[pod.where] = why
            else:
                granted.setdefault(pod.where, looked)
        if not left:
            return ()
        waiting = [pod for pod in left if _has_time(pod, held, granted, looked)]
        if not waiting and looked - began >= budget_seconds:
            return tuple(
                f"pod {pod.where} ends with {pod.node}: {held.get(pod.where, 'it does not end')}"
                for pod in left
            )
        first = (waiting or left)[0]
        session.observer.verifying(step, f"the end of {len(left)} pods, {first.where} is one")
        clock.sleep(POLL_SECONDS)


def _has_time(
    pod: PodOnNode, held: dict[str, str], granted: dict[str, float], looked: float
) -> bool:
    if pod.where in held:
        return False
    return looked - granted[pod.where] < pod.grace_seconds + PATIENCE_SECONDS
