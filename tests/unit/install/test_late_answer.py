"""An install whose plan a person confirmed late: it is made again, and must be the same."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from appliance.errors import PreflightFailed, Refused
from appliance.model.plan.planner import Scope
from appliance.model.state.plan import Plan
from tests import samples
from tests.unit.install.test_install import ALL, Bench

LATE = 11.0


def _late(bench: Bench, meanwhile: Callable[[], object] = int, seconds: float = LATE) -> Bench:
    def confirm(_plan: Plan) -> bool:
        meanwhile()
        bench.clock.sleep(seconds)
        return True

    bench.confirm = confirm
    return bench


@pytest.mark.parametrize(("seconds", "more"), [(0.0, 0), (9.0, 0), (LATE, 1)])
def test_only_a_late_yes_costs_a_second_look(seconds: float, more: int) -> None:
    prompt, late = Bench(), Bench()
    prompt.install()
    _late(late, seconds=seconds).install()
    assert late.rack.looks - prompt.rack.looks == more
    assert [play.playbook for play in late.rack.plays] == ALL


def test_what_another_laptop_did_meanwhile_is_not_done_again() -> None:
    bench, other = Bench(), Bench()
    other.rack = bench.rack

    def meanwhile() -> None:
        other.install(scope=Scope(until="host"))
        bench.rack.plays.clear()

    with pytest.raises(Refused) as refused:
        _late(bench, meanwhile).install()
    assert refused.value.exit_code == 3
    assert bench.rack.plays == []
    assert any(
        "shown, but not in the new plan: step host: " in one for one in refused.value.details
    )
    assert refused.value.hint == "look at the new plan: appliance install --dry-run"


def test_a_node_that_lost_something_meanwhile_gets_no_step_that_nobody_saw() -> None:
    bench = Bench()
    bench.install()
    bench.rack.plays.clear()
    bench.rack.documents["w1"] = samples.bare(bench.rack.desired.site.node("w1"))

    def meanwhile() -> None:
        bench.rack.documents["w2"] = samples.bare(bench.rack.desired.site.node("w2"))

    with pytest.raises((Refused, PreflightFailed)):
        _late(bench, meanwhile).install()
    assert bench.rack.plays == []
