"""A node that is emptied for good: the same eviction, with a cordon of its own."""

from __future__ import annotations

import pytest

from appliance.errors import StepNotProven
from appliance.model.drain import Budget
from appliance.workflows.eviction import Eviction
from tests.fakes import FakeClock, FakeObserver
from tests.unit.life.rack import FakeDrain, web


def _bench() -> tuple[FakeDrain, Eviction]:
    clock = FakeClock()
    drain = FakeDrain(clock, [web(), web("bare", owner=None)])
    return drain, Eviction(drain, clock, FakeObserver(), "drain", 30)


def test_it_is_cordoned_and_emptied() -> None:
    drain, eviction = _bench()
    eviction.empty("w1")
    assert drain.log == ["cordon on", "evict team/bare", "evict team/web-1"]
    assert (drain.pods, drain.unschedulable) == ([], True)


def test_a_budget_that_never_allows_takes_our_cordon_back_but_no_other() -> None:
    drain, eviction = _bench()
    drain.budgets = [Budget("team", "web", frozenset({"team/web-1"}), 0, "minAvailable 1")]
    for others in (False, True):
        drain.unschedulable = others
        with pytest.raises(StepNotProven, match=r"team/web \(minAvailable 1\) allows no disrupt"):
            eviction.empty("w1")
        assert drain.unschedulable is others


def test_the_forecast_names_what_moves_and_what_is_lost() -> None:
    _, eviction = _bench()
    assert eviction.forecast("w1") == (
        "pod team/web-1 moves",
        "team/bare: has no controller: nothing starts it again",
    )
