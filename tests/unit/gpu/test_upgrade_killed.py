"""Killed at any moment, the same command ends the upgrade: nothing is done twice or left behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.gpu.upgrade_rack import Bench
from tests.unit.upgrade.rack import web

LOADED = {"host": "525.60.13", "container": "515.65.01", "preinstalled": "535.54.03"}


class Killed(BaseException):
    """No handler of the workflow catches it, as none runs after SIGKILL."""


def watched(bench: Bench, before: Callable[[str], None]) -> None:
    """Have a call before and after everything that changes or looks at the rack."""
    for owner, names in (
        (bench.rack, ("play", "read", "look", "run_network_test", "run_gpu_test")),
        (bench.drain, ("mark", "clear", "evict")),
    ):
        for name in names:
            setattr(owner, name, _around(getattr(owner, name), name, before))


def _around(act: Callable[..., Any], name: str, before: Callable[[str], None]) -> Any:
    def call(*words: Any, **more: Any) -> Any:
        before(f"before {name}")
        found = act(*words, **more)
        before(f"after {name}")
        return found

    return call


def moments(mode: str) -> int:
    """How many moments a whole run has."""
    seen: list[str] = []
    bench = made(mode)
    watched(bench, seen.append)
    assert bench.upgrade().done
    return len(seen)


def made(mode: str) -> Bench:
    bench = Bench(loaded=LOADED[mode], driver=mode)
    bench.rack.documents["cp1"]["artifacts"]["bundle_digest"] = "00" * 32
    bench.drain.pods["w1"] = [web("w1")]
    return bench


@pytest.mark.parametrize(("first", "mode"), [(0, "host"), (1, "container"), (2, "preinstalled")])
def test_the_same_command_ends_a_run_that_was_killed_at_any_moment(first: int, mode: str) -> None:
    # The modes share most moments: together they have every one.
    for number in range(first, moments(mode), len(LOADED)):
        bench, left = made(mode), [number]

        def kill(_where: str, left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] < 0:
                left[0] = 1 << 30
                raise Killed

        watched(bench, kill)
        with pytest.raises(Killed):
            bench.upgrade()
        out = [name for name, node in bench.rack.api.nodes.items() if node.unschedulable]
        assert len(out) <= 1, number
        bench.upgrade()
        assert bench.cordoned == [], number
        assert bench.upgrade(dry_run=True).plan.steps == (), number
        renewed = [what for what in bench.rack.done if what.startswith(("driver", "operands"))]
        assert {name.split()[1] for name in renewed} == {"w1", "w2"}, number
        if mode == "host":
            assert sorted(renewed) == ["driver w1", "driver w2"], number
