"""A return: what refuses it, what is looked at, and what is proved before it ends."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from appliance.errors import NodeUnreachable, PreflightFailed, StepNotVerified
from appliance.model.components.gpu.driver import bundled_driver
from appliance.model.site.settings import Node
from appliance.model.state.nodes.maintenance import maintenance_of
from appliance.model.state.observed import Fault, Look
from tests.unit.life.rack import IN_SERVICE, OUT, Bench


def test_a_loss_refuses_the_return_until_it_is_acknowledged() -> None:
    bench = Bench()
    dimms = [{"locator": slot, "size_bytes": 2**35} for slot in ("A1", "B1")]
    bench.rack.documents["w1"]["memory"] = {"dimms": dimms}
    bench.maintain()
    bench.rack.documents["w1"]["memory"] = {"dimms": dimms[1:]}
    with pytest.raises(PreflightFailed) as refused:
        bench.bring_back()
    assert refused.value.exit_code == 3
    assert "w1: dimm:A1: found none, expected 32 GiB" in refused.value.message
    assert "--acknowledge dimm:A1" in (refused.value.hint or "")
    assert bench.state == OUT
    done = bench.bring_back("dimm:A1")
    assert [difference.name for difference in done.differences] == ["dimm:A1"]
    assert bench.state == IN_SERVICE


def test_a_return_proves_the_node_before_it_is_schedulable() -> None:
    bench = Bench()
    bench.maintain(window_seconds=60)
    bench.clock.sleep(600)
    bench.rack.proof_faults = ("w1: no answer from the pod on w2",)
    with pytest.raises(StepNotVerified, match="no answer from the pod on w2"):
        bench.bring_back()
    assert bench.state == (True, (), True)
    mark = maintenance_of(bench.drain.annotations)
    assert mark is not None
    assert mark.phase == "return"
    bench.rack.proof_faults = ()
    done = bench.bring_back()
    assert bench.state == IN_SERVICE
    assert done.overrun_seconds is not None
    assert done.overrun_seconds >= 540


@pytest.mark.parametrize(("thinks", "looks"), [(0.0, 1), (60.0, 2)])
def test_the_first_look_serves_after_the_untaint_unless_it_is_old(
    thinks: float, looks: int
) -> None:
    bench = Bench()
    bench.maintain()
    before, bench.thinks = bench.rack.looks, thinks
    bench.bring_back()
    assert bench.rack.looks - before == looks


def test_a_first_look_without_the_node_says_nothing_of_it_later() -> None:
    bench = Bench()
    bench.maintain()
    bench.rack.faults["w1"] = Fault("w1", "w1: no answer", "look")
    look, before = bench.rack.look, bench.rack.looks

    def comes_up(nodes: Sequence[Node]) -> Look:
        if bench.rack.looks > before:
            bench.rack.faults.clear()
        return look(nodes)

    bench.rack.look = comes_up  # type: ignore[method-assign]
    bench.bring_back()
    assert bench.state == IN_SERVICE
    # The one that failed, the one that met it, and one of all that are concerned.
    assert bench.rack.looks - before == 3


def test_a_node_in_service_has_nothing_to_return_and_a_foreign_cordon_is_refused() -> None:
    bench = Bench()
    assert bench.bring_back().maintenance is None
    bench.drain.unschedulable = True
    with pytest.raises(PreflightFailed, match="cordoned, but not by"):
        bench.bring_back()


def test_a_newer_gpu_stack_of_the_bundle_keeps_no_node_out() -> None:
    """It is what ``gpu upgrade`` brings: a node comes back with the driver that it went with."""
    bench = Bench(gpu={"driver": "host"})
    assert bench.desired.manifest is not None
    assert bundled_driver(bench.desired.manifest) is not None
    bench.rack.documents["w1"]["modules"]["nvidia_version"] = "525.60.13"
    bench.maintain()
    bench.bring_back()
    assert bench.state == IN_SERVICE


def test_a_node_that_takes_its_time_is_waited_for() -> None:
    bench = Bench()
    bench.maintain()
    bench.rack.faults["w1"] = Fault("w1", "w1: no answer", "look")
    with pytest.raises(NodeUnreachable):
        bench.bring_back(wait_seconds=30)
    assert bench.state == OUT


def test_lost_facts_must_be_acknowledged() -> None:
    bench = Bench()
    bench.maintain()
    bench.archive.documents.clear()
    with pytest.raises(PreflightFailed, match="facts saved before the maintenance"):
        bench.bring_back()
    bench.bring_back("facts")
    assert bench.state == IN_SERVICE


@pytest.mark.parametrize(
    "text",
    ["", '{"document": {"mem', "[]", "3", '{"document": {}}', '{"document": [], "received_at": 1}'],
)
def test_facts_that_are_not_whole_count_as_lost(text: str) -> None:
    bench = Bench()
    bench.maintain()
    bench.archive.documents = dict.fromkeys(bench.archive.documents, text)
    with pytest.raises(PreflightFailed, match="facts saved before the maintenance") as refused:
        bench.bring_back()
    assert "--acknowledge facts" in (refused.value.hint or "")
    assert bench.state == OUT
    bench.bring_back("photograph")
    assert bench.state == IN_SERVICE
