"""Maintenance and return on a late yes: the plan is made again, and must be the same."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from appliance.errors import ApplianceError, Refused
from appliance.model.state.cluster.cluster import ClusterNode
from tests.unit.life.rack import IN_SERVICE, OUT, Bench, web

LATE = 11.0


@pytest.mark.parametrize(("thinks", "looks"), [(0.0, 1), (9.0, 1), (LATE, 2)])
def test_only_a_late_yes_to_a_maintenance_costs_a_second_look(thinks: float, looks: int) -> None:
    bench = Bench()
    bench.thinks = thinks
    bench.maintain()
    assert (bench.rack.looks, bench.state) == (looks, OUT)


def _new_job(bench: Bench) -> None:
    bench.drain.pods.append(web("train", owner=None))


def _no_node_left(bench: Bench) -> None:
    bench.drain.nodes = (ClusterNode("w1", True), ClusterNode("w2", False))


def _other_machine(bench: Bench) -> None:
    bench.rack.documents["w1"]["dmi"]["serial"] = "SN-other"


def _maintained_by_another(bench: Bench) -> None:
    bench.thinks, bench.meanwhile = 0.0, int
    bench.maintain(reason="disk")
    bench.drain.log.clear()


@pytest.mark.parametrize(
    "change", [_new_job, _no_node_left, _other_machine, _maintained_by_another]
)
def test_a_late_yes_maintains_nothing_that_is_not_as_it_was_shown(
    change: Callable[[Bench], None],
) -> None:
    bench = Bench()
    bench.drain.pods = [web()]
    bench.thinks, bench.meanwhile = LATE, lambda: change(bench)
    with pytest.raises(ApplianceError) as refused:
        bench.maintain()
    assert refused.value.exit_code == 3
    assert bench.drain.log == []


def test_a_pod_that_only_moves_does_not_stop_a_late_yes() -> None:
    bench = Bench()
    bench.thinks = LATE
    bench.meanwhile = lambda: bench.drain.pods.append(web("web-2"))
    bench.maintain()
    assert bench.state == OUT


def _another_pod_of_the_workload(bench: Bench) -> None:
    bench.drain.pods = [web("web-5d-z", empty_dir=True)]


def _the_only_replica_is_left_or_comes(bench: Bench) -> None:
    bench.drain.pods = [web("web-5d-x", empty_dir=True, siblings=0), web("api", siblings=0)]


@pytest.mark.parametrize(
    "change", [_another_pod_of_the_workload, _the_only_replica_is_left_or_comes]
)
def test_what_moves_to_another_node_is_no_loss_that_a_late_yes_did_not_mean(
    change: Callable[[Bench], None],
) -> None:
    bench = Bench()
    bench.drain.pods = [web("web-5d-x", empty_dir=True)]
    bench.thinks, bench.meanwhile = LATE, lambda: change(bench)
    bench.maintain()
    assert bench.state == OUT


def _data_of_another_workload(bench: Bench) -> None:
    bench.drain.pods.append(web("db-1", owner=("StatefulSet", "db"), empty_dir=True))


def _a_pod_that_can_run_nowhere_else(bench: Bench) -> None:
    bench.drain.pods.append(web("pinned", pinned="node selector"))


def _a_bare_pod_of_the_same_name(bench: Bench) -> None:
    bench.drain.pods = [web("web-5d-x", empty_dir=True, owner=None)]


@pytest.mark.parametrize(
    "change",
    [_data_of_another_workload, _a_pod_that_can_run_nowhere_else, _a_bare_pod_of_the_same_name],
)
def test_what_would_be_lost_and_was_not_shown_stops_a_late_yes(
    change: Callable[[Bench], None],
) -> None:
    bench = Bench()
    bench.drain.pods = [web("web-5d-x", empty_dir=True)]
    bench.thinks, bench.meanwhile = LATE, lambda: change(bench)
    with pytest.raises(Refused):
        bench.maintain()
    assert bench.drain.log == []


def _returned_by_another(bench: Bench) -> None:
    bench.thinks, bench.meanwhile = 0.0, int
    bench.bring_back()
    bench.drain.log.clear()


def _lost_a_dimm(bench: Bench) -> None:
    bench.rack.documents["w1"]["memory"] = {"dimms": []}


@pytest.mark.parametrize("change", [_returned_by_another, _lost_a_dimm, _other_machine])
def test_a_late_yes_returns_nothing_that_is_not_as_it_was_shown(
    change: Callable[[Bench], None],
) -> None:
    bench = Bench()
    dimm = {"locator": "A1", "size_bytes": 2**35}
    bench.rack.documents["w1"]["memory"] = {"dimms": [dimm]}
    bench.maintain()
    bench.drain.log.clear()
    bench.thinks, bench.meanwhile = LATE, lambda: change(bench)
    with pytest.raises(ApplianceError) as refused:
        bench.bring_back()
    assert refused.value.exit_code == 3
    assert bench.drain.log == []
    assert bench.state in {OUT, IN_SERVICE}


def test_the_refusal_names_the_difference() -> None:
    bench = Bench()
    bench.thinks, bench.meanwhile = LATE, lambda: _new_job(bench)
    with pytest.raises(Refused) as refused:
        bench.maintain()
    assert refused.value.details == (
        "only in the new plan: team/train: has no controller: it is not started again",
    )
    assert (refused.value.hint or "").startswith("look at the new plan: appliance node maintain")
