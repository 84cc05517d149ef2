"""The same act for many nodes at once: a BMC that hangs holds nobody up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from threading import Event
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from appliance.model.site.settings import Node

MOST_AT_ONCE: Final = 64
# For what is on its way after Ctrl-C: a poll and one answer of a BMC.
STOP_SECONDS: Final = 15.0
Result = TypeVar("Result")


def at_once(
    nodes: Sequence[Node], act: Callable[[Node, Event], Result], stop_seconds: float = 0.0
) -> tuple[Result, ...]:
    """What came of each node, in their order.

    Args:
        nodes: the nodes.
        act: the act for one; the event is set after Ctrl-C: it sends no order then, because the
            site's lock is soon another's.
        stop_seconds: how long is waited after Ctrl-C for what is on its way.
    """
    stop, pool = Event(), ThreadPoolExecutor(max_workers=MOST_AT_ONCE)
    futures = [pool.submit(act, node, stop) for node in nodes]
    try:
        return tuple(future.result() for future in futures)
    except KeyboardInterrupt:
        stop.set()
        wait(futures, stop_seconds)
        raise
    finally:
        # After Ctrl-C nobody waits for answers; connections end by their time limit.
        pool.shutdown(wait=False, cancel_futures=True)
