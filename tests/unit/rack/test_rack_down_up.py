"""``rack down`` and ``rack up``: the order, what is verified, what others keep, and kills."""

from __future__ import annotations

from dataclasses import replace

import pytest

from appliance.errors import NodeUnreachable, PreflightFailed, Refused, StepNotVerified
from appliance.model.state.cluster.pods import Budget
from tests.unit.rack.bench import Bench, Killed
from tests.unit.upgrade.rack import web


def test_down_and_up_are_a_circle() -> None:
    bench = Bench()
    bench.world.pods["w1"] = [web("w1", "web-1")]
    done = bench.down()
    assert bench.offs == ["w1", "w2", "cp3", "cp2", "cp1"]
    assert bench.world.on == set()
    assert all("its BMC reports power off" in one.words for one in done.nodes)
    assert bench.record.read() is not None
    assert len(bench.asked) == 1
    bench.up()
    assert bench.powered_on == ["cp1", "cp2", "cp3", "w2", "w1"]
    assert (bench.cordoned, bench.marks, bench.announced) == ([], {}, [])
    assert bench.record.text is None


def test_workloads_end_before_any_power_and_after_every_cordon() -> None:
    bench = Bench(masters=1)
    bench.world.pods["w1"] = [web("w1", "web-1"), web("w1", "job-1", owner=None)]
    bench.down()
    effects = bench.world.effects
    marks = [effects.index(f"mark {name} cordon") for name in ("w1", "w2", "cp1")]
    evicted = effects.index("evict web-1")
    assert max(marks) < evicted < effects.index("mark w1 out of service") < effects.index("off w1")
    assert effects.index("off w2") < effects.index("snapshot cp1") < effects.index("off cp1")
    (lines,) = bench.asked
    assert "w1: pods that end: 2" in lines
    assert "team/job-1: has no controller: it is not started again" in lines


def test_a_budget_holds_a_pod_a_minute_then_it_ends_with_its_node() -> None:
    bench = Bench()
    bench.world.pods["w1"] = [web("w1", "web-1")]
    bench.world.budgets = [Budget("team", "web", frozenset({"team/web-1"}), 0)]
    began = bench.clock.now()
    done = bench.down()
    assert done.ended_with_node == (
        "pod team/web-1 ends with w1: a PodDisruptionBudget does not allow it",
    )
    assert bench.clock.now() - began >= 60
    assert bench.world.on == set()
    assert any("for 60 s at most, then the pod ends with w1" in line for line in bench.asked[0])


def test_what_others_took_out_stays_theirs() -> None:
    bench = Bench()
    bench.world.change("w1", unschedulable=True)
    bench.down()
    assert "w1 is cordoned by others, and stays so after rack up" in bench.asked[0]
    assert not bench.marks["w1"].cordoned
    bench.up()
    assert bench.cordoned == ["w1"]
    assert bench.marks == {}


def test_a_node_in_maintenance_goes_off_and_on_and_stays_in_maintenance() -> None:
    bench = Bench()
    bench.down()
    mark = replace(bench.marks["w1"], reason="new riser", by="bob")
    bench.up()
    bench.world.change(
        "w1", unschedulable=True, annotations={"appliance.dev/maintenance": mark.as_text()}
    )
    bench.down()
    assert bench.marks["w1"] == mark
    assert bench.world.on == set()
    done = bench.up()
    assert bench.marks == {"w1": mark}
    assert bench.cordoned == ["w1"]
    assert any("w1 stays in maintenance by bob" in line for line in done.left)
    assert "w1" not in done.returned


def test_a_cold_start_without_any_mark_uncordons_nothing() -> None:
    bench = Bench()
    bench.world.change("w2", unschedulable=True)
    bench.world.cut()
    done = bench.up()
    assert bench.powered_on == ["cp1", "cp2", "cp3", "w2", "w1"]
    assert done.returned == ()
    assert bench.cordoned == ["w2"]
    assert done.left == ("w2 stays cordoned by others: kubectl uncordon w2",)


def test_a_no_and_a_dry_run_change_nothing() -> None:
    bench = Bench()
    bench.answer = False
    with pytest.raises(Refused):
        bench.down()
    bench.down(dry_run=True)
    assert bench.world.effects == []
    bench.world.cut()
    with pytest.raises(Refused):
        bench.up()
    assert bench.up(dry_run=True).planned[0].startswith("switch cp1 on: its BMC (serial SN-cp1)")
    assert bench.world.effects == []


@pytest.mark.parametrize(
    ("sick", "allowed", "said"),
    [
        ({"cp2"}, False, "etcd: cp2 unhealthy"),
        ({"cp2", "cp3"}, True, "etcd has no quorum: cp2, cp3"),
    ],
)
def test_a_sick_etcd_refuses(sick: set[str], allowed: bool, said: str) -> None:
    bench = Bench()
    bench.etcd.sick = sick
    with pytest.raises(PreflightFailed, match=said):
        bench.down(allow_outage=allowed)
    assert bench.world.effects == []


def test_one_sick_member_may_be_accepted() -> None:
    bench = Bench()
    bench.etcd.sick = {"cp2"}
    bench.down(allow_outage=True)
    assert bench.world.on == set()


def test_an_api_that_is_away_for_another_reason_refuses() -> None:
    bench = Bench()
    bench.world.on -= {"cp2", "cp3"}
    with pytest.raises(NodeUnreachable, match="the Kubernetes API does not answer"):
        bench.down()
    assert bench.world.effects == []


def test_a_node_that_stays_on_keeps_the_control_planes_on() -> None:
    bench = Bench()
    bench.world.deaf = {"w1"}
    with pytest.raises(StepNotVerified, match="w1 is still on") as stopped:
        bench.down()
    assert "appliance node power off w1 --hard" in (stopped.value.hint or "")
    assert bench.world.on == {"cp1", "cp2", "cp3", "w1"}
    bench.world.deaf.clear()
    bench.down()
    assert bench.world.on == set()
    bench.up()
    assert (bench.cordoned, bench.marks, bench.announced) == ([], {}, [])


def test_a_silent_node_without_bmc_is_named_and_holds_nobody_up() -> None:
    bench = Bench(bmcs=())
    bench.world.on.discard("w1")
    with pytest.raises(StepNotVerified, match="w1 is not confirmed off") as stopped:
        bench.down()
    assert bench.world.on == set()
    assert any("it accepted the shutdown at" in line for line in stopped.value.details)


def test_down_again_with_everything_off_looks_and_says_so() -> None:
    bench = Bench()
    bench.down()
    before = len(bench.world.effects)
    done = bench.down()
    assert all(one.off for one in done.nodes)
    assert bench.world.effects[before:] == ["record down"]


def up_from_another_machine(bench: Bench) -> None:
    """The rack comes up by another admin host: the record on this one stays."""
    record = bench.record.text
    assert record is not None
    bench.up()
    assert bench.announced == []
    bench.record.text = record


def test_a_record_of_a_rack_that_another_machine_brought_up_ends_no_workload() -> None:
    bench = Bench()
    bench.down()
    up_from_another_machine(bench)
    bench.world.on -= {"cp2", "cp3"}
    before = len(bench.world.effects)
    with pytest.raises(NodeUnreachable, match="w1 and w2 are on") as stopped:
        bench.down()
    assert "appliance rack up" in (stopped.value.hint or "")
    assert len(bench.world.effects) == before


def test_a_record_of_an_earlier_time_stands_for_no_snapshot_and_no_etcd() -> None:
    bench = Bench()
    with pytest.raises(Killed):
        kill_at(bench, "record control plane").down()
    bench.revive()
    up_from_another_machine(bench)
    bench.etcd.sick = {"cp2"}
    with pytest.raises(PreflightFailed, match="etcd: cp2 unhealthy"):
        bench.down()
    bench.etcd.sick = set()
    before = len(bench.world.effects)
    bench.down()
    assert [one for one in bench.world.effects[before:] if one.startswith("snapshot")]
    assert not any("an earlier run" in line for line in bench.asked[-1])


def kill_at(bench: Bench, effect: str) -> Bench:
    """A bench that is killed right after this effect of a run that nothing stops."""
    whole = Bench()
    whole.down()
    bench.world.kill_at, bench.world.after = whole.world.effects.index(effect), True
    return bench


def test_without_bmcs_up_says_which_to_switch_on_and_waits() -> None:
    bench = Bench(bmcs=())
    bench.down()
    bench.meanwhile = lambda: bench.world.on.update(n.name for n in bench.site.nodes)
    bench.up()
    assert "switch w1 (198.18.7.21) on by hand: the inventory has no BMC for it" in bench.asked[-1]
    assert (bench.cordoned, bench.marks, bench.announced) == ([], {}, [])


def test_a_worker_that_does_not_come_is_named_and_the_rest_is_up() -> None:
    bench = Bench()
    bench.down()
    bench.world.broken = {"w1"}
    with pytest.raises(StepNotVerified, match="w1 does not come: w1: port 22 did not answer"):
        bench.up()
    assert list(bench.marks) == bench.cordoned == ["w1"]
    assert bench.announced == ["cp1", "cp2", "cp3"]
    bench.world.broken.clear()
    assert bench.up().returned == ("w1",)
    assert (bench.cordoned, bench.marks, bench.announced) == ([], {}, [])


def test_one_control_plane_of_three_may_be_away() -> None:
    bench = Bench()
    bench.down()
    bench.world.broken = {"cp3"}
    with pytest.raises(StepNotVerified, match="cp3 does not come"):
        bench.up()
    assert bench.cordoned == ["cp3"]


@pytest.mark.parametrize(
    ("broken", "named"),
    [({"cp1"}, "cp1 does not come"), ({"cp2", "cp3"}, "cp[23] does not come")],
)
def test_without_registry_or_quorum_nothing_further_is_tried(broken: set[str], named: str) -> None:
    bench = Bench()
    bench.down()
    bench.world.broken = broken
    with pytest.raises(StepNotVerified, match=named):
        bench.up()
    assert not {"w1", "w2"} & bench.world.on
    assert len(bench.marks) == 5


def test_the_bmc_of_another_machine_switches_nothing_on() -> None:
    bench = Bench()
    bench.down()
    bench.driver.machines["w1"] = replace(bench.driver.machines["w1"], serial="SN-w2")
    with pytest.raises(StepNotVerified, match="w1 does not come"):
        bench.up()
    assert "w1" not in bench.powered_on
    assert any("that is another machine" in line for line in bench.asked[-1])


def test_who_answers_for_a_node_that_its_bmc_reports_off_is_not_taken_for_it() -> None:
    bench = Bench()
    bench.down()
    bench.world.taken.add("w1")
    bench.up()
    assert "w1" in bench.powered_on
    assert any("although something answers at its address" in one for one in bench.asked[-1])


def test_a_node_that_answers_is_on_although_the_bmc_of_another_is_off() -> None:
    bench = Bench()
    bench.down()
    bench.world.taken.add("w1")
    bench.driver.machines["w1"] = replace(bench.driver.machines["w1"], serial="SN-w2")
    with pytest.raises(StepNotVerified, match="w1 does not come"):
        bench.up()
    assert "w1" not in bench.powered_on
    assert not any("switch w1" in line for line in bench.asked[-1])


def effects_of_a_circle() -> tuple[int, int]:
    bench = fresh()
    bench.down()
    down = len(bench.world.effects)
    bench.up()
    return down, len(bench.world.effects)


def fresh() -> Bench:
    bench = Bench(masters=3, workers=2)
    bench.world.pods["w1"] = [web("w1", "web-1")]
    bench.world.change("w2", unschedulable=True)
    return bench


def is_whole(bench: Bench) -> bool:
    return (bench.cordoned, bench.marks, bench.announced, bench.record.text) == (
        ["w2"],
        {},
        [],
        None,
    )


@pytest.mark.parametrize("after", [False, True])
def test_a_kill_at_any_effect_of_down_is_healed_by_the_same_command(after: bool) -> None:
    down, _ = effects_of_a_circle()
    for number in range(down):
        bench = fresh()
        bench.world.kill_at, bench.world.after = number, after
        with pytest.raises(Killed):
            bench.down()
        bench.revive()
        bench.clock.sleep(20)
        bench.down()
        assert bench.world.on == set(), number
        bench.up()
        assert is_whole(bench), number


@pytest.mark.parametrize("after", [False, True])
def test_a_kill_at_any_effect_of_down_is_healed_by_up(after: bool) -> None:
    down, _ = effects_of_a_circle()
    for number in range(down):
        bench = fresh()
        bench.world.kill_at, bench.world.after = number, after
        with pytest.raises(Killed):
            bench.down()
        bench.revive()
        bench.clock.sleep(20)
        bench.up()
        assert is_whole(bench), number


@pytest.mark.parametrize("after", [False, True])
def test_a_kill_at_any_effect_of_up_is_healed_by_the_same_command(after: bool) -> None:
    down, up = effects_of_a_circle()
    for number in range(down, up):
        bench = fresh()
        bench.down()
        bench.world.kill_at, bench.world.after = number, after
        with pytest.raises(Killed):
            bench.up()
        bench.revive()
        bench.up()
        assert is_whole(bench), number
        assert bench.world.on == {node.name for node in bench.site.nodes}
