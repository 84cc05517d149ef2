"""Members that come and go on a late yes: the plan is made again, and must be the same."""

from __future__ import annotations

from typing import Any

import pytest

from appliance.errors import PreflightFailed, Refused
from appliance.model.node.membership import MemberRecord, Removal
from tests.unit.membership import test_joining as joining
from tests.unit.membership import test_node_remove as removing

LATE = 11.0


@pytest.mark.parametrize(("seconds", "more"), [(0.0, 0), (LATE, 1)])
def test_only_a_late_yes_to_a_removal_costs_a_second_look(seconds: float, more: int) -> None:
    prompt, late = removing.Bench(), removing.Bench()
    late.meanwhile = lambda: late.clock.sleep(seconds)
    assert prompt.remove("w2").done
    assert late.remove("w2").done
    assert late.rack.looks - prompt.rack.looks == more


def _new_job(bench: removing.Bench) -> None:
    bench.emptying.losses = ("team/train: has no controller: it is not started again",)


def _power_off(bench: removing.Bench) -> None:
    bench.die("w2")


def _other_machine(bench: removing.Bench) -> None:
    bench.rack.documents["w2"]["dmi"]["serial"] = "SN-other"


def _removed_by_another(bench: removing.Bench) -> None:
    bench.meanwhile = int
    bench.remove("w2")
    bench.rack.plays.clear()
    bench.emptying.emptied.clear()
    bench.rack.deleted.clear()


@pytest.mark.parametrize("change", [_new_job, _power_off, _other_machine, _removed_by_another])
def test_a_late_yes_removes_nothing_that_is_not_as_it_was_shown(change: Any) -> None:
    bench = removing.Bench()

    def meanwhile() -> None:
        bench.clock.sleep(LATE)
        change(bench)

    bench.meanwhile = meanwhile
    with pytest.raises((Refused, PreflightFailed)) as refused:
        bench.remove("w2")
    assert refused.value.exit_code == 3
    assert (bench.emptying.emptied, bench.rack.plays, bench.rack.deleted) == ([], [], [])


def test_the_refusal_names_the_difference_and_the_command_that_shows_it() -> None:
    bench = removing.Bench()

    def meanwhile() -> None:
        bench.clock.sleep(LATE)
        _new_job(bench)

    bench.meanwhile = meanwhile
    with pytest.raises(Refused) as refused:
        bench.remove("w2")
    assert refused.value.details == (
        "only in the new plan: team/train: has no controller: it is not started again",
    )
    assert "--dry-run" in (refused.value.hint or "")


@pytest.mark.parametrize(("seconds", "more"), [(0.0, 0), (LATE, 2)])
def test_only_a_late_yes_to_a_rejoin_judges_it_again(seconds: float, more: int) -> None:
    prompt, late = joining.Bench(), joining.Bench()
    late.meanwhile = lambda: late.clock.sleep(seconds)
    for bench in (prompt, late):
        bench.wipe("w2")
        assert bench.rejoin("w2").installed.steps
    assert late.rack.looks - prompt.rack.looks == more


def _sold(bench: joining.Bench) -> None:
    bench.write_down(MemberRecord("w1", removed=Removal("bob", "now")))


def _alive(bench: joining.Bench) -> None:
    bench.rack.documents["w2"]["dmi"]["serial"] = "SN-other"


@pytest.mark.parametrize("change", [_sold, _alive])
@pytest.mark.parametrize("workflow", ["rejoin", "add"])
def test_a_late_yes_joins_nothing_that_is_not_as_it_was_shown(change: Any, workflow: str) -> None:
    bench = joining.Bench()
    bench.wipe("w2")

    def meanwhile() -> None:
        bench.clock.sleep(LATE)
        change(bench)

    bench.meanwhile = meanwhile
    with pytest.raises((Refused, PreflightFailed)) as refused:
        getattr(bench, workflow)("w2")
    assert refused.value.exit_code == 3
    assert bench.rack.plays == []
