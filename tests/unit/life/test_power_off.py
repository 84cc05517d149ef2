"""A shutdown that ends well has been seen: people open chassis on its exit code."""

from __future__ import annotations

from typing import Any

import pytest

from appliance.errors import ClusterError, Interrupted, PreflightFailed, StepNotVerified
from appliance.model.node.bmc.report import BmcReport
from appliance.model.state.cluster.pods import PodOnNode
from appliance.model.state.nodes.maintenance import Maintenance, maintenance_of
from tests.unit.life.rack import IN_SERVICE, OUT, Bench, web

OFF = BmcReport(serial="SN-w1", powered_off=True)
ON = BmcReport(serial="SN-w1", powered_off=False)


def mark_of(bench: Bench) -> Maintenance:
    mark = maintenance_of(bench.drain.annotations)
    assert mark is not None
    return mark


def out(**more: object) -> Bench:
    """A node that an earlier run took out of service."""
    bench = Bench()
    bench.maintain(**more)
    return bench


def test_a_machine_that_runs_with_a_dead_kubelet_gets_the_order() -> None:
    bench = out()
    bench.drain.ready = False
    done = bench.maintain(shutdown=True)
    assert not done.already
    assert bench.power.orders == 1
    assert not bench.power.answers(bench.node)
    assert "accepted the shutdown" in done.off
    assert (bench.state, mark_of(bench).phase) == (OUT, "out of service")


def test_a_node_that_was_lost_and_is_ready_is_emptied_and_shut_down() -> None:
    bench = Bench()
    bench.drain.ready, bench.drain.pods = False, [web()]
    bench.maintain(lost=True)
    bench.drain.ready = True
    bench.drain.log.clear()
    done = bench.maintain(shutdown=True)
    assert bench.drain.pods == []
    log = bench.drain.log
    assert log.index("evict team/web-1") < log.index("taint on")
    assert bench.power.orders == 1
    assert done.off
    mark = mark_of(bench)
    assert not mark.lost
    assert mark.photograph in bench.archive.documents, "from now on it can be compared"


def test_a_lost_node_that_is_still_not_ready_is_refused_while_it_has_pods() -> None:
    bench = Bench()
    bench.drain.ready, bench.drain.pods = False, [web()]
    bench.maintain(lost=True)
    log = list(bench.drain.log)
    assert bench.maintain().already
    assert bench.maintain(lost=True).already
    with pytest.raises(
        PreflightFailed, match="expected a node that can terminate its pods"
    ) as refused:
        bench.maintain(shutdown=True)
    assert "BMC or power button" in (refused.value.hint or "")
    assert (bench.drain.log, bench.power.orders) == (log, 0)


def test_a_second_shutdown_of_a_node_that_is_off_has_nothing_to_do() -> None:
    bench = out(shutdown=True)
    log, ready = list(bench.drain.log), (True, False)
    for bench.drain.ready in ready:
        done = bench.maintain(shutdown=True)
        assert done.already
        assert "accepted the shutdown at 2023-11-14T" in done.off
    assert (bench.drain.log, bench.power.orders) == (log, 1)


def test_a_machine_that_was_switched_on_again_gets_the_order_again() -> None:
    bench = out(shutdown=True)
    bench.power.off_at = None
    assert not bench.maintain(shutdown=True).already
    assert bench.power.orders == 2


def test_silence_without_an_order_is_no_machine_that_is_off() -> None:
    bench = out()
    bench.drain.ready, bench.power.off_at = False, 0.0
    for _ in range(2):
        with pytest.raises(ClusterError, match="w1: the shutdown failed") as seen:
            bench.maintain(shutdown=True)
        assert seen.value.exit_code == 1
    bench.bmcs.reports["w1"] = OFF
    done = bench.maintain(shutdown=True)
    assert "its BMC reports power off" in done.off
    assert (done.already, bench.power.orders) == (False, 0)
    assert mark_of(bench).phase == "out of service"
    assert bench.maintain(shutdown=True).already


def test_a_switch_port_that_flaps_after_the_order_is_no_machine_that_is_off() -> None:
    bench = Bench()
    bench.power.stays_on = True
    bench.power.blinks = range(4)
    with pytest.raises(StepNotVerified, match="still answers 300 s after"):
        bench.maintain(shutdown=True)
    assert bench.power.orders == 1


def test_a_machine_that_reaches_no_node_at_all_learns_nothing() -> None:
    bench = Bench()
    order = bench.power.shut_down

    def and_the_network_goes(node: object) -> None:
        order(node)  # type: ignore[arg-type]
        bench.power.away = True

    bench.power.shut_down = and_the_network_goes  # type: ignore[method-assign]
    with pytest.raises(StepNotVerified, match=r"not confirmed off 300 s .* no other node"):
        bench.maintain(shutdown=True)


def test_a_bmc_that_says_on_is_waited_for_and_then_believed() -> None:
    bench = Bench()
    bench.bmcs.reports["w1"] = ON
    with pytest.raises(StepNotVerified, match=r"not confirmed off 300 s .* BMC reports power on; "):
        bench.maintain(shutdown=True)
    assert (bench.state, mark_of(bench).phase) == (OUT, "shutdown")
    bench.bmcs.reports["w1"] = OFF
    assert "its BMC reports power off" in bench.maintain(shutdown=True).off


@pytest.mark.parametrize(
    ("report", "words"),
    [
        (None, "the inventory has no BMC"),
        (BmcReport(reason="no answer"), "its BMC could not be read: no answer"),
        (BmcReport(serial="SN-w2", powered_off=False), "reports another machine"),
        (BmcReport(powered_off=True), "no serial to identify"),
    ],
)
def test_without_a_word_of_its_bmc_the_order_and_silence_count(
    report: BmcReport | None, words: str
) -> None:
    bench = Bench()
    if report:
        bench.bmcs.reports["w1"] = report
    done = bench.maintain(shutdown=True)
    assert "accepted the shutdown" in done.off
    assert words in done.off
    assert bench.clock.now() >= (bench.power.off_at or 0) + 10


def test_a_bmc_of_an_unknown_machine_that_says_on_is_doubt_enough() -> None:
    bench = Bench()
    bench.bmcs.reports["w1"] = BmcReport(powered_off=False)
    with pytest.raises(StepNotVerified, match="not confirmed off"):
        bench.maintain(shutdown=True)


def test_an_order_that_cannot_be_written_down_is_waited_for_all_the_same() -> None:
    bench = Bench()
    order = bench.power.shut_down

    def and_the_api_stutters(node: object) -> None:
        order(node)  # type: ignore[arg-type]
        bench.drain.fail_at["mark shutdown"] = ClusterError("the API went away")

    bench.power.shut_down = and_the_api_stutters  # type: ignore[method-assign]
    assert bench.maintain(shutdown=True).off
    assert (
        "note",
        "the shutdown is not recorded on the Node yet: the API went away",
    ) in bench.observer.said
    assert mark_of(bench).ordered is not None


def test_after_a_return_an_order_counts_no_more() -> None:
    bench = out(shutdown=True)
    bench.power.off_at = None
    bench.rack.proof_faults = ("w1: no answer",)
    with pytest.raises(StepNotVerified):
        bench.bring_back()
    assert mark_of(bench).ordered is None


def test_the_taint_is_added_to_a_node_that_was_only_cordoned() -> None:
    bench = out(mode="cordon")
    done = bench.maintain()
    assert not done.already
    assert bench.state == OUT
    mark = mark_of(bench)
    assert (mark.mode, mark.tainted, mark.phase) == ("taint", True, "out of service")
    bench.bring_back()
    assert bench.drain.taints == ()


def test_a_taint_that_is_there_stays_when_only_a_cordon_is_asked_for() -> None:
    bench = out()
    assert bench.maintain(mode="cordon").already
    assert bench.state == OUT


def test_without_the_taint_means_so_for_a_run_that_was_stopped_before_it() -> None:
    """Its pods of the network would be ended by it."""
    bench = Bench()
    bench.drain.fail_at["mark evict"] = SystemExit()
    with pytest.raises(SystemExit):
        bench.maintain()
    bench.drain.pods = [web("flannel-x", owner=("DaemonSet", "flannel"), app="flannel")]
    bench.maintain(mode="cordon")
    assert bench.state == (True, (), True)


@pytest.mark.parametrize("ready", [True, False])
def test_a_window_is_written_down_and_the_same_one_again_changes_nothing(ready: bool) -> None:
    bench = out()
    bench.drain.ready = ready
    bench.clock.sleep(600)
    assert not bench.maintain(window_seconds=3600).already
    until = mark_of(bench).until
    assert until == "2023-11-14T23:13:20+00:00", "an hour from when the maintenance began"
    bench.clock.sleep(600)
    assert bench.maintain(window_seconds=3600).already
    bench.clock.sleep(7200)
    assert bench.maintain(window_seconds=3600).already, "it is over, and no other was asked for"
    assert not bench.maintain(window_seconds=7200).already
    assert mark_of(bench).until == "2023-11-15T02:33:20+00:00", "from now: that one is over, too"


def test_pods_that_came_to_an_uncordoned_node_are_evicted() -> None:
    bench = out()
    bench.drain.pods, bench.drain.unschedulable = [web()], False
    assert not bench.maintain().already
    assert bench.drain.pods == []
    assert bench.state == OUT
    bench.bring_back()
    assert not bench.drain.unschedulable


def test_marks_that_are_missing_on_an_empty_node_that_is_off_are_set() -> None:
    bench = out(shutdown=True)
    bench.drain.ready, bench.drain.unschedulable, bench.drain.taints = False, False, ()
    done = bench.maintain(shutdown=True)
    assert (done.already, bench.state, bench.power.orders) == (False, OUT, 1)


def test_a_taint_that_a_failed_run_has_set_goes_with_the_return() -> None:
    bench = out(mode="cordon")
    bench.drain.fail_at["mark out of service"] = ClusterError("the API refused")
    with pytest.raises(ClusterError):
        bench.maintain()
    bench = out(mode="cordon")
    set_it = bench.drain.taint

    def and_fail(node: str, *, on: bool, **more: Any) -> None:
        set_it(node, on=on, **more)
        raise ClusterError("the answer was lost")

    bench.drain.taint = and_fail  # type: ignore[method-assign]
    with pytest.raises(ClusterError, match="the answer was lost"):
        bench.maintain()
    bench.drain.taint = set_it  # type: ignore[method-assign]
    assert mark_of(bench).phase == "out of service"
    bench.bring_back()
    assert bench.drain.taints == ()


class Killed(BaseException):
    """SIGKILL: nothing of ours runs any more."""


@pytest.mark.parametrize(
    "moment", ["before the order", "after the shutdown", "after it was written"]
)
@pytest.mark.parametrize("has_bmc", [True, False])
def test_killed_around_the_order_the_same_command_never_says_off_of_a_machine_that_runs(
    moment: str, has_bmc: bool
) -> None:
    """Nothing answers the second run: the port is dead in the first case, the machine is off."""
    bench = Bench()
    is_off = moment != "before the order"
    if has_bmc:
        bench.bmcs.reports["w1"] = OFF if is_off else ON
    order = bench.power.shut_down

    def killed(node: object) -> None:
        if is_off:
            order(node)  # type: ignore[arg-type]
        if moment != "after it was written":
            raise Killed
        bench.drain.fail_at["mark out of service"] = Killed()

    bench.power.shut_down = killed  # type: ignore[method-assign]
    with pytest.raises(Killed):
        bench.maintain(shutdown=True)
    bench.power.shut_down, bench.power.off_at = order, 0.0  # type: ignore[method-assign]
    bench.drain.ready = False
    if (has_bmc and is_off) or moment == "after it was written":
        assert bench.maintain(shutdown=True).off
        assert mark_of(bench).phase == "out of service"
    else:
        with pytest.raises(ClusterError, match=r"not confirmed off|may still be on"):
            bench.maintain(shutdown=True)
    assert bench.state == OUT


def test_a_pod_on_a_node_out_of_service_that_is_not_ready_refuses_the_shutdown() -> None:
    bench = out()
    bench.drain.ready = False
    pod: PodOnNode = web()
    bench.drain.pods = [pod]
    with pytest.raises(PreflightFailed, match="found the node NotReady"):
        bench.maintain(shutdown=True)
    assert bench.power.orders == 0


@pytest.mark.parametrize("where", ["evict team/web-1", "taint on"])
def test_a_node_that_was_out_stays_out_whoever_is_killed_and_fails_after_that(where: str) -> None:
    """It may have been opened since: only a return proves it."""
    bench = out(mode="cordon")
    bench.drain.pods, bench.drain.unschedulable = [web()], False
    bench.drain.fail_at[where] = Killed()
    with pytest.raises(Killed):
        bench.maintain()
    bench.drain.fail_at["mark out of service"] = KeyboardInterrupt()
    with pytest.raises(Interrupted):
        bench.maintain()
    assert bench.drain.unschedulable
    assert mark_of(bench).phase == "out of service"
    bench.maintain()
    assert bench.state == OUT
    bench.bring_back()
    assert bench.state == IN_SERVICE
