"""A node that is emptied for good: the same eviction, with a cordon of its own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from appliance.errors import ClusterError, StepNotVerified
from appliance.model.state.cluster.pods import Budget, PodOnNode
from appliance.model.state.nodes.maintenance import removal_of
from appliance.workflows.node.maintenance.eviction import Eviction
from tests.fakes import FakeClock, FakeObserver, run
from tests.unit.life.rack import FakeDrain, web


def _bench() -> tuple[FakeDrain, Eviction]:
    clock = FakeClock()
    drain = FakeDrain(clock, [web(), web("bare", owner=None)])
    return drain, Eviction(
        drain, clock, FakeObserver(), "drain", run("node remove"), lambda: None, 30
    )


def test_it_is_cordoned_and_emptied() -> None:
    drain, eviction = _bench()
    eviction.empty("w1")
    assert drain.log == ["mark evict", "evict team/bare", "evict team/web-1"]
    assert (drain.pods, drain.unschedulable) == ([], True)


def test_a_budget_that_never_allows_takes_our_cordon_back_but_no_other() -> None:
    drain, eviction = _bench()
    drain.budgets = [Budget("team", "web", frozenset({"team/web-1"}), 0, "minAvailable 1")]
    for others in (False, True):
        drain.unschedulable = others
        with pytest.raises(
            StepNotVerified, match=r"team/web \(minAvailable 1\) has allowed no disrupt"
        ):
            eviction.empty("w1")
        assert drain.unschedulable is others


def test_the_forecast_names_what_moves_and_what_is_lost() -> None:
    _, eviction = _bench()
    assert eviction.forecast("w1") == (
        "pod team/web-1 will be evicted",
        "team/bare: has no controller: it is not started again",
    )


def test_a_run_that_was_killed_is_taken_up_and_its_cordon_taken_back() -> None:
    """SIGKILL during the eviction: the next run knows the cordon as ours."""
    drain, eviction = _bench()
    drain.fail_at["evict team/bare"] = SystemExit()
    with pytest.raises(SystemExit):
        eviction.empty("w1")
    assert drain.unschedulable
    drain.budgets = [Budget("team", "web", frozenset({"team/web-1"}), 0, "minAvailable 1")]
    with pytest.raises(StepNotVerified) as stopped:
        eviction.empty("w1")
    assert (drain.unschedulable, drain.annotations) == (False, {})
    assert (
        stopped.value.details[-1] == "restored: w1 takes pods again; evicted pods do not move back"
    )


def test_a_cordon_that_cannot_be_taken_back_hides_nothing() -> None:
    drain, eviction = _bench()
    drain.budgets = [Budget("team", "web", frozenset({"team/web-1"}), 0, "minAvailable 1")]
    drain.fail_at["clear"] = ClusterError("the API went away")
    with pytest.raises(StepNotVerified, match="has allowed no disrupt") as stopped:
        eviction.empty("w1")
    assert stopped.value.details[-1] == (
        "w1 stays cordoned (the API went away): appliance node return w1"
    )


def test_a_maintenance_of_another_person_is_not_changed() -> None:
    drain, eviction = _bench()
    mark = replace(removal_of(run(), 0.0, cordoned=True), reason="a DIMM")
    drain.mark("w1", mark, cordon=True)
    drain.budgets = [Budget("team", "web", frozenset({"team/web-1"}), 0, "minAvailable 1")]
    with pytest.raises(StepNotVerified):
        eviction.empty("w1")
    assert drain.unschedulable
    assert drain.view("w1").maintenance == mark


def test_a_controller_that_starts_its_pods_again_and_again_is_named() -> None:
    """It sets nodeName, or tolerates a cordon: without an end to it, it is evicted for ever."""
    drain, eviction = _bench()
    drain.pods = [web("web-0")]

    def successor(pod: PodOnNode) -> str:
        drain.log.append(f"evict {pod.where}")
        drain.pods = [web(f"web-{len(drain.log)}")]
        return ""

    drain.evict = successor  # type: ignore[method-assign]
    with pytest.raises(StepNotVerified, match="keeps starting pods on this node") as stopped:
        eviction.empty("w1")
    assert "scale it down" in (stopped.value.hint or "")
    assert not drain.unschedulable


def test_pods_that_come_and_go_give_a_budget_no_more_time() -> None:
    """A CronJob whose pods tolerate the cordon: each is of another Job, so none comes twice."""
    drain, eviction = _bench()
    held = web("web-0")
    drain.pods = [held]
    asked: list[str] = []

    def evict(pod: PodOnNode) -> str:
        asked.append(pod.where)
        assert len(asked) < 1000, "it never ends"
        if pod == held:
            return "a PodDisruptionBudget does not allow it"
        drain.pods = [held, web(f"job-{len(asked)}", owner=("Job", f"job-{len(asked)}"))]
        return ""

    drain.pods = [held, web("job-0", owner=("Job", "job-0"))]
    drain.evict = evict  # type: ignore[method-assign]
    with pytest.raises(StepNotVerified, match="has allowed no disruption"):
        eviction.empty("w1")
