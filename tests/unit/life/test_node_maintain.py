"""Maintenance and return against fakes: order, refusals, restoring, kills in every phase."""

from __future__ import annotations

from dataclasses import replace

import pytest

from appliance.errors import (
    ApplianceError,
    ClusterError,
    Interrupted,
    LeaseLost,
    NodeUnreachable,
    PreflightFailed,
    Refused,
    StepNotVerified,
)
from appliance.model.node.answering import AnsweringMachine
from appliance.model.node.drain import DrainView
from appliance.model.state.cluster.cluster import ClusterNode
from appliance.model.state.cluster.pods import Budget, PodOnNode
from appliance.model.state.nodes.maintenance import TAINT
from appliance.model.state.nodes.roles import SYSTEM_LABEL
from appliance.model.state.observed import Fault
from tests.fakes import RUN_A
from tests.unit.life.rack import IN_SERVICE, OUT, Bench, web

NEVER = Budget("team", "web", frozenset({"team/web-1"}), 0, "minAvailable 1")


class Killed(BaseException):
    """SIGKILL: nothing of ours runs any more."""


def test_pods_go_before_the_taint_comes() -> None:
    bench = Bench()
    bench.drain.pods = [web(), web("d", owner=("DaemonSet", "d"))]
    done = bench.maintain(window_seconds=3600)
    assert bench.drain.log == [
        "mark cordon", "mark evict", "evict team/web-1", "mark taint", "taint on",
        "mark out of service",
    ]  # fmt: skip
    assert bench.state == OUT
    assert done.maintenance is not None
    assert done.evict_seconds is not None
    assert 10 <= done.evict_seconds <= 12
    assert [r.step for r in bench.journal.records] == [
        *("maintain: cordon", "maintain: evict", "maintain: taint")
    ]
    assert bench.archive.documents.keys() == {f"maintenance/w1/{RUN_A}.json"}


def test_a_second_maintain_has_nothing_to_do() -> None:
    bench = Bench()
    bench.maintain()
    log = list(bench.drain.log)
    assert bench.maintain().already
    assert bench.drain.log == log


def test_cordon_mode_leaves_the_taint_out() -> None:
    bench = Bench()
    bench.maintain(mode="cordon")
    assert bench.state == (True, (), True)
    bench.bring_back()
    assert bench.state == IN_SERVICE


def test_it_is_shut_down_at_the_end_and_waited_for() -> None:
    bench = Bench()
    bench.maintain(shutdown=True)
    assert bench.power.off_at is not None
    assert bench.clock.now() >= bench.power.off_at
    bench = Bench()
    bench.power.stays_on = True
    with pytest.raises(StepNotVerified, match="still answers 300 s after") as failed:
        bench.maintain(shutdown=True)
    assert "BMC" in (failed.value.hint or "")
    assert bench.state == OUT, "an empty node stays out of service"


def test_a_budget_that_never_allows_restores_the_node_and_is_named() -> None:
    bench = Bench()
    bench.drain.pods, bench.drain.budgets = [web()], [NEVER]
    with pytest.raises(StepNotVerified) as failed:
        bench.maintain()
    assert failed.value.exit_code == 1
    assert "pod team/web-1 of ReplicaSet web-5d cannot be evicted: team/web" in str(failed.value)
    assert "restored: w1 takes pods again; evicted pods do not move back" in failed.value.details
    assert bench.state == IN_SERVICE
    assert "taint on" not in bench.drain.log


def test_a_budget_that_allows_later_only_takes_longer() -> None:
    bench = Bench()
    bench.drain.pods, bench.drain.budgets = [web()], [NEVER]
    allow, began = bench.drain.evict, bench.clock.now()

    def evict(pod: PodOnNode) -> str:
        if bench.clock.now() > began + 20:
            bench.drain.budgets = []
        return allow(pod)

    bench.drain.evict = evict  # type: ignore[method-assign]
    bench.maintain()
    assert bench.state == OUT


def test_a_pod_that_does_not_end_restores_the_node() -> None:
    bench = Bench()
    bench.drain.pods, bench.drain.immortal = [web()], {"team/web-1"}
    with pytest.raises(
        StepNotVerified, match=r"web-1 .* 70 s after its eviction \(its grace period is 10 s\)"
    ):
        bench.maintain()
    assert bench.state == IN_SERVICE


def test_a_cordon_and_a_taint_of_another_person_stay() -> None:
    bench = Bench()
    bench.drain.unschedulable, bench.drain.taints = True, ("a=b:NoSchedule", TAINT)
    bench.maintain()
    bench.bring_back()
    assert bench.state == (True, ("a=b:NoSchedule", TAINT), False)


def test_the_same_taint_with_another_value_is_not_ours() -> None:
    bench = Bench()
    bench.drain.taints = ("runai=repair:NoExecute",)
    bench.maintain()
    assert bench.state == (True, ("runai=repair:NoExecute",), True)
    bench.bring_back()
    assert bench.state == (False, ("runai=repair:NoExecute",), False)


@pytest.mark.parametrize("where", ["mark cordon", "mark evict", "evict team/web-1", "taint on"])
@pytest.mark.parametrize("error", [ClusterError("the API refused"), KeyboardInterrupt()])
def test_a_failure_or_ctrl_c_restores_what_we_changed(where: str, error: BaseException) -> None:
    bench = Bench()
    bench.drain.pods = [web()]
    bench.drain.fail_at[where] = error
    expected = Interrupted if isinstance(error, KeyboardInterrupt) else ClusterError
    with pytest.raises(expected) as failed:
        bench.maintain()
    assert any("restored: w1" in line for line in failed.value.details)
    assert bench.state == IN_SERVICE


def test_a_fault_of_this_machine_restores_what_we_changed_too() -> None:
    """E.g. a full disk under the journal: the node must not stay cordoned for that."""
    bench = Bench()
    bench.drain.pods = [web()]
    bench.drain.fail_at["mark evict"] = OSError(28, "No space left on device")
    with pytest.raises(ApplianceError, match="No space left on device") as failed:
        bench.maintain()
    assert failed.value.exit_code == 1
    assert any("restored: w1" in line for line in failed.value.details)
    assert bench.state == IN_SERVICE


def test_an_api_that_goes_away_is_not_told_as_before_any_change() -> None:
    bench = Bench()
    bench.drain.pods = [web()]
    bench.drain.fail_at["evict team/web-1"] = NodeUnreachable("cp1: no SSH")
    with pytest.raises(ClusterError, match="cp1: no SSH") as failed:
        bench.maintain()
    assert failed.value.exit_code == 1


def test_another_node_that_is_away_keeps_no_node_out() -> None:
    bench = Bench(masters=3)
    bench.maintain()
    bench.rack.faults["cp3"] = Fault("cp3", "cp3: no SSH", "look")
    bench.bring_back()
    assert bench.state == IN_SERVICE


def test_what_cannot_be_restored_is_named() -> None:
    bench = Bench()
    bench.drain.fail_at = {"taint on": ClusterError("gone"), "clear": ClusterError("gone too")}
    with pytest.raises(ClusterError) as failed:
        bench.maintain()
    assert failed.value.details[-1] == "undo it with: appliance node return w1"


@pytest.mark.parametrize(
    "where",
    ["mark cordon", "mark evict", "evict team/web-1", "mark taint", "taint on", "mark shutdown",
     "mark out of service"],
)  # fmt: skip
@pytest.mark.parametrize("next_command", ["maintain", "return"])
def test_after_a_kill_the_next_run_finishes_or_undoes(where: str, next_command: str) -> None:
    bench = Bench()
    bench.drain.pods = [web()]
    bench.drain.fail_at[where] = Killed()
    with pytest.raises(Killed):
        bench.maintain(shutdown=True)
    bench.drain.fail_at.clear()
    if next_command == "maintain":
        bench.maintain(shutdown=True)
        assert bench.state == OUT
        bench.bring_back()
    else:
        bench.bring_back()
    assert bench.state == IN_SERVICE


@pytest.mark.parametrize("where", ["mark return", "taint off", "clear"])
def test_a_return_that_was_killed_is_finished(where: str) -> None:
    bench = Bench()
    bench.maintain()
    bench.drain.fail_at[where] = Killed()
    with pytest.raises(Killed):
        bench.bring_back()
    bench.drain.fail_at.clear()
    assert bench.drain.unschedulable, "no pod may come before the node is proved"
    bench.bring_back()
    assert bench.state == IN_SERVICE


def test_outages_are_refused_unless_allowed() -> None:
    bench = Bench()
    bench.drain.nodes = (
        ClusterNode("w1", True, labels={SYSTEM_LABEL: ""}),
        ClusterNode("w2", True),
    )
    with pytest.raises(PreflightFailed, match="only working system node") as refused:
        bench.maintain()
    assert "--allow-outage" in (refused.value.hint or "")
    assert bench.drain.log == []
    bench.maintain(allow_outage=True)
    assert bench.state == OUT


def test_a_network_pod_that_the_taint_would_end_refuses_the_taint() -> None:
    bench = Bench()
    flannel = web("flannel-x", owner=("DaemonSet", "flannel"), app="flannel")
    bench.drain.pods = [flannel]
    with pytest.raises(PreflightFailed, match="flannel-x does not tolerate runai=drain:NoExecute"):
        bench.maintain()
    bench.maintain(mode="cordon")
    assert bench.state == (True, (), True)


def test_a_lost_node_is_tainted_without_its_help() -> None:
    bench = Bench()
    with pytest.raises(PreflightFailed, match="found the node Ready"):
        bench.maintain(lost=True)
    bench.drain.ready, bench.drain.pods = False, [web()]
    with pytest.raises(PreflightFailed, match="found the node NotReady") as refused:
        bench.maintain()
    assert "--lost" in (refused.value.hint or "")
    done = bench.maintain(lost=True)
    assert done.maintenance is not None
    assert done.maintenance.lost
    assert bench.drain.log == ["mark cordon", "mark taint", "taint on", "mark out of service"]
    assert bench.archive.documents == {}


def test_nothing_is_done_without_yes_or_for_a_dry_run() -> None:
    bench = Bench()
    bench.answer = False
    with pytest.raises(Refused):
        bench.maintain()
    assert bench.maintain(dry_run=True).maintenance is None
    assert (bench.drain.log, bench.journal.records, bench.archive.documents) == ([], [], {})


def test_a_node_that_does_not_answer_is_not_touched() -> None:
    bench = Bench()
    bench.rack.faults["w1"] = Fault("w1", "w1: no answer", "look")
    with pytest.raises(NodeUnreachable) as failed:
        bench.maintain()
    assert "--lost" in (failed.value.hint or "")
    assert bench.state == IN_SERVICE
    assert bench.asked == [], "nobody is asked about what is refused"


@pytest.mark.parametrize(("thinks", "looks"), [(0.0, 1), (60.0, 2)])
def test_the_look_before_the_question_serves_as_facts_unless_it_is_old(
    thinks: float, looks: int
) -> None:
    bench = Bench()
    bench.thinks = thinks
    bench.maintain()
    assert bench.rack.looks == looks
    assert bench.machines == [AnsweringMachine("w1", "198.18.7.21", "host name w1, serial SN-w1")]


def test_a_lost_node_is_asked_about_with_the_reason_why_nothing_is_known_of_its_machine() -> None:
    bench = Bench()
    bench.drain.ready = False
    bench.rack.faults["w1"] = Fault("w1", "w1: no route", "look")
    bench.maintain(lost=True)
    assert bench.machines == [AnsweringMachine("w1", "198.18.7.21", "no answer: no route")]


def test_pods_that_came_after_the_eviction_keep_the_taint_away() -> None:
    bench = Bench()
    view, count = bench.drain.view, iter(range(99))

    def with_a_late_pod(node: str) -> DrainView:
        seen = view(node)
        return replace(seen, pods=(web("late"),)) if next(count) >= 2 else seen

    bench.drain.view = with_a_late_pod  # type: ignore[method-assign]
    with pytest.raises(StepNotVerified, match="pod team/late started after the eviction"):
        bench.maintain()
    assert bench.state == IN_SERVICE


def test_where_another_command_is_at_work_nothing_is_written_or_restored() -> None:
    bench = Bench()
    bench.journal.refuse = Refused("another command is at work")
    with pytest.raises(Refused):
        bench.maintain()
    assert bench.drain.log == []
    assert bench.archive.documents == {}
    assert bench.journal.records == []


def test_what_was_done_before_the_site_was_taken_over_is_left_and_named() -> None:
    bench = Bench()
    bench.drain.pods = [web()]
    evict = bench.drain.evict

    def taken_over(pod: PodOnNode) -> str:
        bench.journal.refuse = LeaseLost("taken over")
        return evict(pod)

    bench.drain.evict = taken_over  # type: ignore[method-assign]
    with pytest.raises(LeaseLost) as lost:
        bench.maintain()
    assert lost.value.details == (
        "w1 was left unchanged: another command has the site's lock now: appliance status",
    )
    assert bench.drain.log == ["mark cordon", "mark evict", "evict team/web-1"]


@pytest.mark.parametrize("reason", ["x" * 1001, "r\udce9sum"])
def test_a_reason_that_cannot_be_read_back_is_refused(reason: str) -> None:
    bench = Bench()
    with pytest.raises(Refused, match="--reason"):
        bench.maintain(reason=reason)
    assert bench.drain.log == []
    bench.maintain(reason="r\u00e9sum\u00e9 \U0001f6e0\n" + "x" * 990)
    bench.bring_back()
    assert bench.state == IN_SERVICE
