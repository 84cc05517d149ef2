"""Maintenance that goes on from where another run stopped, and patience that is each pod's own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from appliance.errors import ClusterError, Interrupted, NodeUnreachable, StepNotVerified
from appliance.model.state.cluster.pods import Budget, PodOnNode
from appliance.model.state.nodes.maintenance import maintenance_of
from tests.unit.life.rack import OUT, Bench, web

HOLDS = Budget("team", "web", frozenset({"team/web-1"}), 0, "minAvailable 1")


class Killed(BaseException):
    """SIGKILL: nothing of ours runs any more."""


def phase(bench: Bench) -> str:
    mark = maintenance_of(bench.drain.annotations)
    assert mark is not None
    return mark.phase


def killed_at(where: str, *, shutdown: bool = False) -> Bench:
    bench = Bench()
    bench.drain.fail_at[where] = Killed()
    with pytest.raises(Killed):
        bench.maintain(shutdown=shutdown)
    return bench


def test_a_pod_that_a_budget_held_up_has_its_whole_grace_afterwards() -> None:
    """Its patience counts from when it was asked, not from when the first pod was."""
    bench = Bench()
    bench.drain.pods = [web(grace_seconds=30)]
    bench.drain.budgets = [HOLDS]
    allow, began = bench.drain.evict, bench.clock.now()

    def evict(pod: PodOnNode) -> str:
        if bench.clock.now() > began + 300:
            bench.drain.budgets = []
        return allow(pod)

    bench.drain.evict = evict  # type: ignore[method-assign]
    bench.maintain(budget_seconds=600)
    assert bench.state == OUT


def test_a_held_pod_that_vanished_does_not_make_another_be_waited_for_for_ever() -> None:
    bench = Bench()
    bench.drain.pods = [web(grace_seconds=0), web("stuck")]
    bench.drain.budgets = [HOLDS]
    bench.drain.immortal = {"team/stuck"}
    allow, began, view = bench.drain.evict, bench.clock.now(), bench.drain.view

    def evict(pod: PodOnNode) -> str:
        if bench.clock.now() > began + 5:
            bench.drain.budgets = []
        assert bench.clock.now() < began + 900, "it waits for ever"
        return allow(pod)

    def guarded(node: str) -> object:
        assert bench.clock.now() < began + 900, "it waits for ever"
        return view(node)

    bench.drain.evict, bench.drain.view = evict, guarded  # type: ignore[method-assign,assignment]
    with pytest.raises(StepNotVerified, match="pod team/stuck has not terminated"):
        bench.maintain()


def test_a_budget_that_lets_pods_go_one_by_one_is_no_budget_that_never_allows() -> None:
    bench = Bench()
    names = [f"web-{n}" for n in range(5)]
    bench.drain.pods = [web(name, grace_seconds=0) for name in names]
    allow, freed = bench.drain.evict, bench.clock.now()

    def evict(pod: PodOnNode) -> str:
        nonlocal freed
        if bench.clock.now() < freed:
            return "a PodDisruptionBudget does not allow it"
        freed = bench.clock.now() + 30
        return allow(pod)

    bench.drain.evict = evict  # type: ignore[method-assign]
    bench.maintain(budget_seconds=60)
    assert bench.state == OUT


def test_killed_while_it_powered_off_the_same_command_finishes() -> None:
    bench = killed_at("mark out of service", shutdown=True)
    assert phase(bench) == "shutdown"
    bench.drain.ready = False
    done = bench.maintain(shutdown=True)
    assert done.maintenance is not None
    assert not done.maintenance.lost
    assert (phase(bench), bench.state) == ("out of service", OUT)


def test_a_node_that_is_off_gets_no_second_order() -> None:
    """The API calls it Ready for most of a minute after it went."""
    bench = killed_at("mark out of service", shutdown=True)
    bench.power.shut_down = None  # type: ignore[assignment,method-assign]
    bench.maintain(shutdown=True)
    assert phase(bench) == "out of service"


def test_an_sshd_without_an_answer_does_not_mean_that_the_node_is_off() -> None:
    bench = Bench()
    bench.power.off_at = 0.0

    def refuse(_node: object) -> None:
        raise NodeUnreachable("w1: no answer on port 22")

    bench.power.shut_down = refuse  # type: ignore[method-assign,assignment]
    with pytest.raises(ClusterError) as failed:
        bench.maintain(shutdown=True)
    assert failed.value.exit_code == 1
    assert failed.value.details[-1] == (
        "w1 is empty and stays out of service: appliance node return w1"
    )
    assert phase(bench) == "shutdown"


@pytest.mark.parametrize("begun", ["out of service", "return"])
def test_a_run_that_fails_leaves_a_node_out_that_was_out_before_it(begun: str) -> None:
    """It has not been proved fit for pods since, and its hardware may be another."""
    bench = Bench()
    bench.maintain()
    if begun == "return":
        bench.rack.proof_faults = ("w1: no answer",)
        with pytest.raises(StepNotVerified):
            bench.bring_back()
    assert phase(bench) == begun
    bench.drain.fail_at["taint on"] = ClusterError("the API refused")
    with pytest.raises(ClusterError) as failed:
        bench.maintain(shutdown=True)
    assert bench.drain.unschedulable
    assert phase(bench) == begun
    assert failed.value.details[-1] == "w1 stays in maintenance, as it was before this run"


def test_a_node_lost_in_the_middle_of_its_eviction_is_marked_lost() -> None:
    bench = killed_at("mark taint")
    bench.drain.ready, bench.drain.pods = False, [web()]
    done = bench.maintain(lost=True)
    assert done.maintenance is not None
    assert done.maintenance.lost
    assert done.maintenance.photograph is not None, "it is compared when the node comes back"
    assert "evict team/web-1" not in bench.drain.log
    assert bench.state == OUT


def test_ctrl_c_between_two_steps_restores_as_well() -> None:
    bench = Bench()
    ended = bench.observer.step_ended

    def interrupt(*words: object) -> None:
        ended(*words)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    bench.observer.step_ended = interrupt  # type: ignore[method-assign,assignment]
    with pytest.raises(Interrupted) as stopped:
        bench.maintain()
    assert "restored: w1 takes pods again; evicted pods do not move back" in stopped.value.details
    assert bench.state == (False, (), False)


def test_a_mark_of_another_is_kept_as_it_was() -> None:
    bench = killed_at("mark taint")
    before = maintenance_of(bench.drain.annotations)
    assert before is not None
    done = bench.maintain()
    assert done.maintenance == replace(before, phase="out of service")
