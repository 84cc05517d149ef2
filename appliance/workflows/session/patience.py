"""Waits with a time limit: by the monotonic clock, and with one last observation."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from appliance.model.state.cluster.cluster import Cluster, NoCluster

if TYPE_CHECKING:
    from appliance.model.state.observed import Observed
    from appliance.workflows.session.ports import Clock
    from appliance.workflows.session.session import Session

# What the API may be away while a control-plane node restarts.
API_SECONDS: Final = 90.0
POLL_SECONDS: Final = 5.0
# The same words again: one look in twelve.
SAY_SECONDS: Final = 60.0


class Patience:
    """Asked after each look that did not see what is waited for.

    A look that was taken before the end is no proof of what is so after it: the machine may have
    slept, or a call may have hung. So one more look follows, which begins after the end.

    Args:
        clock: whose seconds count; those in which this machine slept do not.
        seconds: how long; none at all means that the first look is the last.

    Attributes:
        is_last: the next look is the last, so it has to be a whole one.
    """

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._end = clock.monotonic() + seconds
        self.is_last = seconds <= 0

    def is_over(self) -> bool:
        """Whether the look before this question was the last one."""
        if self.is_last:
            return True
        self.is_last = self._clock.monotonic() >= self._end
        return False


def observe_until(
    look: Callable[[], Observed],
    lacks: Callable[[Observed], str],
    session: Session,
    seconds: float = API_SECONDS,
) -> Observed:
    """Look until nothing is lacking, or the time is up; return the last look, which may lack it.

    Where every control-plane node was read and none has a cluster, nothing is waited for.

    Args:
        look: looks at nodes, and at the API.
        lacks: says what a look lacks, e.g. :func:`api_silence`; empty: nothing.
        session: whose clock counts, and whose observer is told what is waited for, the same
            words once a minute.
        seconds: how long; none at all means that the first look is the last.
    """
    patience, said = Patience(session.clock, seconds), dict[str, float]()
    while True:
        observed = look()
        lacking = lacks(observed)
        if not lacking or isinstance(observed.cluster, NoCluster) or patience.is_over():
            return observed
        now = session.clock.monotonic()
        if lacking not in said or now >= said[lacking] + SAY_SECONDS:
            said[lacking] = now
            session.observer.note(f"{lacking}; waiting for it")
        session.clock.sleep(POLL_SECONDS)


def api_silence(observed: Observed) -> str:
    """Why there is no answer of the Kubernetes API, in words; empty where it answered."""
    if isinstance(observed.cluster, Cluster):
        return ""
    reason = getattr(observed.cluster, "reason", "no cluster")
    return f"the Kubernetes API does not answer: {reason}"
