"""An API server that is away for a moment, and an operator that has not started yet."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from appliance.errors import StepNotVerified
from appliance.model.state.cluster.cluster import Unreachable
from appliance.model.state.cluster.pods import Pod
from tests.unit.gpu.upgrade_rack import Bench

DRIVER = "515.65.01"


def away(bench: Bench, seconds: float, old: str = "") -> None:
    """No API answers for that time once w2 is back; that node then has an old operand."""
    cleared, read, since = bench.drain.clear, bench.rack.read, list[float]()

    def clear(node: str, **more: Any) -> None:
        cleared(node, **more)
        if node == "w2":
            since.append(bench.clock.monotonic())
            if old:
                bench.rack._pods("sha256:" + "0" * 64, "0ld", old)

    def answer(facts: Any) -> Any:
        is_away = since and bench.clock.monotonic() < since[0] + seconds
        return Unreachable("cp1: the API refuses the connection") if is_away else read(facts)

    bench.drain.clear = clear  # type: ignore[method-assign]
    bench.rack.read = answer  # type: ignore[method-assign,assignment]


@pytest.mark.parametrize("old", ["", "w1"])
def test_operands_restart_only_once_the_api_says_that_every_node_is_renewed(old: str) -> None:
    bench = Bench(loaded=DRIVER, driver="container")
    away(bench, 20, old)
    if old:
        with pytest.raises(StepNotVerified, match="w1: driver: its pod is not the bundle's"):
            bench.upgrade()
    else:
        bench.upgrade()
    settled = bench.rack.done[3:]
    assert settled == ([] if old else ["operator"])
    assert bench.cordoned == []


def test_an_api_that_stays_away_lets_no_operand_restart() -> None:
    bench = Bench(loaded=DRIVER, driver="container")
    away(bench, 1e9)
    with pytest.raises(StepNotVerified, match="no API server answers"):
        bench.upgrade()
    assert bench.rack.done == ["operator", "operands w1", "operands w2"]


def test_the_end_waits_for_the_api() -> None:
    bench = Bench()
    away(bench, 20)
    began = bench.clock.monotonic()
    assert bench.upgrade().done
    assert bench.clock.monotonic() - began >= 20


def away_at_the_install(bench: Any) -> list[float]:
    """The API is away for 60 s from its third read on; when it was read, by the bench's clock."""
    read, reads = bench.rack.read, list[float]()

    def answer(facts: Any) -> Any:
        reads.append(bench.clock.monotonic())
        # The plan, and the plan under the lock; then the install.
        away = len(reads) > 2 and reads[-1] < reads[2] + 60
        return Unreachable("cp1: the API refuses the connection") if away else read(facts)

    bench.rack.read = answer
    return reads


def test_an_api_that_is_away_when_the_bundle_is_copied_is_waited_for() -> None:
    bench = Bench()
    bench.rack.documents["cp1"]["artifacts"]["bundle_digest"] = "00" * 32
    reads = away_at_the_install(bench)
    assert bench.upgrade().done
    assert bench.rack.done[0] == "artifacts"
    assert reads[-1] >= reads[2] + 60


def test_an_operator_that_has_not_started_yet_is_not_believed() -> None:
    """Helm has ended; the ClusterPolicy is ready still, as the operator of before left it."""
    bench = Bench()
    operated, slept = bench.rack._operate, bench.clock.sleep
    began: list[float] = []

    def operate(version: str, chart: str, values: str) -> None:
        operated(version, chart, values)
        began.append(bench.clock.monotonic())
        old = Pod(
            "gpu-operator",
            "gpu-operator-5d",
            "cp1",
            owner=("ReplicaSet", "gpu-operator-5d"),
            app="gpu-operator",
            images=("registry.rack.test:5000/gpu-operator@sha256:" + "0" * 64,),
        )
        _add(bench, old)

    def sleep(seconds: float) -> None:
        slept(seconds)
        if began and bench.clock.monotonic() >= began[0] + 20:
            _add(bench, None)

    bench.rack._operate = operate  # type: ignore[method-assign]
    bench.clock.sleep = sleep  # type: ignore[method-assign]
    found = bench.upgrade()
    assert [step.kind for step in found.plan.steps] == ["operator", "node", "node"]
    assert bench.rack.done[0] == "operator"
    took = {one.step: one.took_seconds for one in bench.journal.records}
    assert took["gpu upgrade: operator"] >= 20


def _add(bench: Bench, pod: Pod | None) -> None:
    stack = bench.rack.api.gpu_stack
    assert stack is not None
    pods = tuple(one for one in stack.pods if one.name != "gpu-operator-5d")
    stack = replace(stack, pods=(*pods, *([pod] if pod else [])))
    bench.rack.cluster = replace(bench.rack.api, gpu_stack=stack)
