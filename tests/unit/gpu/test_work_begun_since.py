"""Work that began after the plan was shown is not ended by an upgrade of the GPU stack."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from appliance.errors import ClusterError
from appliance.model.plan.play import Play
from tests.unit.gpu.upgrade_rack import Bench
from tests.unit.upgrade.rack import web

JOB = web("w2", "train", owner=None)


def test_a_job_that_began_since_is_named_and_ends_only_once_it_was_shown() -> None:
    bench = Bench()
    forward = bench.rack.play

    def play(order: Play, on_task: Callable[[str, str, bool | None], None]) -> None:
        if order.limit == ("w1",):
            bench.drain.pods["w2"].append(JOB)
        forward(order, on_task)

    bench.rack.play = play  # type: ignore[method-assign, assignment]
    with pytest.raises(ClusterError, match=r"w2 was not emptied: team/train: .*not in the plan"):
        bench.upgrade()
    assert "driver w2" not in bench.rack.done
    assert bench.cordoned == []
    bench.upgrade()
    assert "driver w2" in bench.rack.done
    assert bench.drain.pods["w2"] == []
