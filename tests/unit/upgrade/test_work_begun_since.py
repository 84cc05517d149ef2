"""Work that began after the plan was shown is not ended by an upgrade that runs for hours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from appliance.errors import ClusterError
from appliance.model.plan.play import Play
from appliance.model.state.cluster.pods import PodOnNode
from tests.unit.upgrade.rack import Bench, web

JOB = web("w2", "train", owner=None)
CACHE = web("w2", "cache-7f", owner=("ReplicaSet", "cache"), empty_dir=True)
ONLY = web("w2", "api-1", siblings=0)


def while_at_work(bench: Bench, change: Callable[[], None]) -> None:
    """The change comes while the first worker is renewed."""
    forward = bench.rack.play

    def play(order: Play, on_task: Callable[[str, str, bool | None], None]) -> None:
        if order.limit == ("w1",):
            change()
        forward(order, on_task)

    bench.rack.play = play  # type: ignore[method-assign, assignment]


def begins(bench: Bench, *pods: PodOnNode) -> Callable[[], None]:
    return lambda: bench.drain.pods["w2"].extend(pods)


@pytest.mark.parametrize("at_once", [1, 2])
def test_a_job_that_began_since_is_named_and_goes_on_until_it_was_shown(at_once: int) -> None:
    bench = Bench(workers=3)
    while_at_work(bench, begins(bench, JOB))
    with pytest.raises(ClusterError, match=r"w2 was not emptied: team/train: .*not in the plan"):
        bench.upgrade(max_unavailable=at_once) if at_once == 1 else _in_batches(bench)
    assert "evict train" not in bench.rack.done
    assert bench.cordoned == []
    assert bench.upgrade().ended
    assert "evict train" in bench.rack.done


def _in_batches(bench: Bench) -> Any:
    """Two at once; the job begins before the batch of w2 is emptied."""
    asked: list[object] = []

    def confirm(found: object) -> bool:
        asked.append(found)
        begins(bench, JOB)()
        return True

    return bench.upgrade(max_unavailable=2, confirm=confirm)


def test_a_job_that_was_shown_is_ended() -> None:
    bench = Bench()
    bench.drain.pods["w2"] = [JOB]
    assert bench.upgrade().ended
    assert "evict train" in bench.rack.done


@pytest.mark.parametrize("pod", [CACHE, ONLY], ids=lambda pod: pod.name)
def test_a_pod_that_only_moves_stops_nothing(pod: PodOnNode) -> None:
    bench = Bench()
    while_at_work(bench, begins(bench, pod))
    assert bench.upgrade().ended
    assert f"evict {pod.name}" in bench.rack.done
