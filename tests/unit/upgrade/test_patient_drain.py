"""A drain during an upgrade: what may pass is asked again, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from appliance.errors import ClusterError, ClusterRefused, LeaseLost, NodeUnreachable
from appliance.model.state.cluster.pods import PodOnNode
from appliance.workflows.cluster.patient_drain import SECONDS, PatientDrain
from tests.fakes import FakeClock

POD = PodOnNode("team", "web-1", "w1")


class Drain:
    """Each request ends as told, for ever."""

    def __init__(self, end: Exception) -> None:
        self.end, self.asked = end, 0

    def __getattr__(self, _name: str) -> Callable[..., Any]:
        def request(*_: Any, **__: Any) -> Any:
            self.asked += 1
            raise self.end

        return request


REQUESTS: dict[str, Callable[[PatientDrain], object]] = {
    "view": lambda drain: drain.view("w1"),
    "pods_on": lambda drain: drain.pods_on("w1"),
    "evict": lambda drain: drain.evict(POD),
    "clear": lambda drain: drain.clear("w1", uncordon=True, ours=[None]),
    "taint": lambda drain: drain.taint("w1", on=True, ours=[None]),
}


@pytest.mark.parametrize("name", REQUESTS)
@pytest.mark.parametrize("end", [ClusterRefused("403 Forbidden"), LeaseLost("another command")])
def test_what_stays_so_is_asked_once(name: str, end: Exception) -> None:
    drain, clock = Drain(end), FakeClock()
    before = clock.now()
    with pytest.raises(type(end)):
        REQUESTS[name](PatientDrain(drain, clock))
    assert (drain.asked, clock.now()) == (1, before)


@pytest.mark.parametrize("name", REQUESTS)
@pytest.mark.parametrize("end", [ClusterError("500 no leader"), NodeUnreachable("no answer")])
def test_what_may_pass_is_asked_for_a_while(name: str, end: Exception) -> None:
    drain, clock = Drain(end), FakeClock()
    before = clock.now()
    with pytest.raises(type(end)):
        REQUESTS[name](PatientDrain(drain, clock))
    assert drain.asked > 1
    assert clock.now() - before >= SECONDS
