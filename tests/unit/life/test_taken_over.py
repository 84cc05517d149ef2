"""A laptop that lost the site within a step leaves the other one's maintenance as it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from appliance.errors import ApplianceError, ClusterError, Interrupted, LeaseLost, StepNotVerified
from appliance.model.node.drain import DrainView
from appliance.model.state.cluster.pods import PodOnNode
from appliance.model.state.nodes.maintenance import TAINT, maintenance_of
from appliance.workflows.node.maintenance.eviction import Eviction
from tests.fakes import FakeClock, FakeObserver, run
from tests.unit.life.rack import OUT, Bench, FakeDrain, web

LEFT = "w1 was left unchanged: another command has the site's lock now: appliance status"


def lost() -> LeaseLost:
    return LeaseLost("the site is no longer this command's", hint="see what is at work")


def takes_over(drain: FakeDrain, *, same_run: bool) -> list[str]:
    """What the other laptop does; it goes on with our annotation, or comes with its own."""
    mark = maintenance_of(drain.annotations)
    assert mark is not None
    if not same_run:
        mark = replace(mark, run="run-b", by="bob", host="laptop-b", reason="a DIMM")
    drain.pods, drain.budgets, drain.ready = [], [], False
    drain.mark("w1", replace(mark.at("out of service"), mode="taint", tainted=True), cordon=True)
    drain.taint("w1", on=True)
    return list(drain.log)


def asleep(drain: FakeDrain, wakes: Callable[[], None]) -> None:
    """The fourth look at the node is the first after a long sleep."""
    view, looks = drain.view, iter(range(1, 999))

    def late(node: str) -> DrainView:
        seen = view(node)
        if next(looks) == 4:
            wakes()
        return seen

    drain.view = late  # type: ignore[method-assign]


@pytest.mark.parametrize("same_run", [True, False])
@pytest.mark.parametrize(
    ("ends", "knows"),
    [("Ctrl-C", True), ("Ctrl-C", False), ("API", True), ("API", False), ("nothing", True)],
)
def test_a_maintain_that_wakes_undoes_and_evicts_nothing(
    ends: str, knows: bool, same_run: bool
) -> None:
    """The lease tells, or where it cannot, the annotation does."""
    bench = Bench()
    bench.drain.pods = [web(grace_seconds=600)]
    after: list[str] = []

    def wakes() -> None:
        after.extend(takes_over(bench.drain, same_run=same_run))
        bench.journal.refuse = lost() if knows else None
        if ends == "Ctrl-C":
            raise KeyboardInterrupt
        if ends == "API":
            raise ClusterError("the API refused")

    asleep(bench.drain, wakes)
    stopped = {"Ctrl-C": Interrupted, "API": ClusterError, "nothing": LeaseLost}[ends]
    with pytest.raises(stopped) as failed:
        bench.maintain()
    assert failed.value.details[-1] == LEFT
    assert not any("restored" in line for line in failed.value.details)
    assert bench.state == OUT
    mark = maintenance_of(bench.drain.annotations)
    assert mark is not None
    assert mark.phase == "out of service"
    assert (mark.by == "bob") is not same_run
    assert set(bench.drain.log[len(after) :]) <= {"taint off", "clear"}, "asked for, and refused"
    if knows:
        assert bench.drain.log == after


@pytest.mark.parametrize(
    ("ends", "knows"),
    [
        *((KeyboardInterrupt(), knows) for knows in (True, False)),
        *(
            (StepNotVerified("w1: pod team/web-1 cannot be evicted"), knows)
            for knows in (True, False)
        ),
        (None, True),
    ],
)
def test_a_removal_that_wakes_uncordons_nothing(ends: BaseException | None, knows: bool) -> None:
    clock, said = FakeClock(), FakeObserver()
    drain = FakeDrain(clock, [web(grace_seconds=600)])
    held: list[bool] = []

    def guard() -> None:
        if held:
            raise lost()

    after: list[str] = []

    def wakes() -> None:
        after.extend(takes_over(drain, same_run=False))
        if knows:
            held.append(False)
        if ends:
            raise ends

    asleep(drain, wakes)
    eviction = Eviction(drain, clock, said, "drain", run("node remove"), guard)
    with pytest.raises((ApplianceError, KeyboardInterrupt)) as stopped:
        eviction.empty("w1")
    notes = [words[1] for words in said.said if words[0] == "note"]
    assert [*getattr(stopped.value, "details", ()), *notes] == [LEFT]
    assert drain.unschedulable
    assert drain.taints == (TAINT,)
    mark = maintenance_of(drain.annotations)
    assert mark is not None
    assert mark.by == "bob"
    if knows:
        assert drain.log == after


def test_no_pod_is_asked_to_go_after_the_site_was_lost() -> None:
    bench = Bench()
    bench.drain.pods = [web(f"web-{n}") for n in range(3)]
    evict = bench.drain.evict

    def and_lose_it(pod: PodOnNode) -> str:
        bench.journal.refuse = lost()
        return evict(pod)

    bench.drain.evict = and_lose_it  # type: ignore[method-assign]
    with pytest.raises(LeaseLost):
        bench.maintain()
    assert bench.drain.log[-1] == "evict team/web-0"
    assert bench.journal.records[-1].outcome == "failed"


def test_a_node_is_not_shut_down_after_the_site_was_lost() -> None:
    """The looks before the order take some seconds."""
    bench = Bench()
    answers = bench.power.answers

    def and_lose_it(node: Any) -> bool:
        bench.journal.refuse = lost()
        return answers(node)

    bench.power.answers = and_lose_it  # type: ignore[method-assign]
    with pytest.raises(LeaseLost) as failed:
        bench.maintain(shutdown=True)
    assert failed.value.details == (LEFT,)
    assert bench.power.orders == 0


@pytest.mark.parametrize("error", [None, KeyboardInterrupt()])
def test_a_node_that_another_returned_meanwhile_is_not_marked_again(
    error: KeyboardInterrupt | None,
) -> None:
    """It slept while it waited for the node to power off."""
    bench = Bench()
    order = bench.power.shut_down

    def and_sleep(node: Any) -> None:
        order(node)
        bench.journal.refuse = lost()
        bench.drain.annotations.clear()
        bench.drain.unschedulable, bench.drain.taints = False, ()
        if error:
            raise error

    bench.power.shut_down = and_sleep  # type: ignore[method-assign]
    with pytest.raises(ApplianceError):
        bench.maintain(shutdown=True)
    assert bench.state == (False, (), False)


def test_a_return_that_wakes_in_its_proof_does_not_uncordon() -> None:
    bench = Bench()
    bench.maintain()
    run_network_test = bench.rack.run_network_test

    def and_sleep(nodes: Any, image: str, *, dns: bool = True) -> tuple[str, ...]:
        takes_over(bench.drain, same_run=True)
        bench.journal.refuse = lost()
        return run_network_test(nodes, image, dns=dns)

    bench.rack.run_network_test = and_sleep  # type: ignore[method-assign]
    with pytest.raises(LeaseLost):
        bench.bring_back()
    assert bench.state == OUT


@pytest.mark.parametrize("at", ["taint off", "clear"])
def test_a_return_takes_nothing_away_under_the_mark_of_another(at: str) -> None:
    bench = Bench()
    bench.maintain()
    did = bench.drain._did

    def just_before(what: str) -> None:
        if what == at:
            bench.drain._did = did  # type: ignore[method-assign]
            takes_over(bench.drain, same_run=False)
        did(what)

    bench.drain._did = just_before  # type: ignore[method-assign]
    with pytest.raises(LeaseLost, match="w1: another command has changed its maintenance"):
        bench.bring_back()
    assert bench.state == OUT


def test_a_mark_whose_answer_was_lost_is_undone_all_the_same() -> None:
    """The API wrote it, and this laptop was told of an error."""
    bench = Bench()
    mark = bench.drain.mark

    def written(*words: Any, **more: Any) -> None:
        mark(*words, **more)
        raise ClusterError("the answer was lost")

    bench.drain.mark = written  # type: ignore[method-assign]
    with pytest.raises(ClusterError) as failed:
        bench.maintain()
    assert (
        failed.value.details[-1] == "restored: w1 takes pods again; evicted pods do not move back"
    )
    assert bench.state == (False, (), False)


def test_a_cordon_that_another_set_after_our_mark_failed_stays() -> None:
    bench = Bench()
    bench.drain.fail_at["mark cordon"] = ClusterError("the API refused")
    did = bench.drain._did

    def and_cordon(what: str) -> None:
        bench.drain.unschedulable = True
        did(what)

    bench.drain._did = and_cordon  # type: ignore[method-assign]
    with pytest.raises(ClusterError):
        bench.maintain()
    assert bench.state == (True, (), False)
