"""An API server that is away for a moment, before operands may restart and at the end."""

from __future__ import annotations

from typing import Any

import pytest

from appliance.errors import StepNotVerified
from appliance.model.state.cluster.cluster import Unreachable
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
