"""Work that began after the plan was shown is not ended by a patch that runs for hours."""

from __future__ import annotations

import pytest

from appliance.errors import ClusterError
from tests.unit.patch.bench import Bench
from tests.unit.upgrade.rack import web

JOB = web("w2", "train", owner=None)


def test_a_job_that_began_since_is_named_and_ends_only_once_it_was_shown() -> None:
    bench = Bench()
    bench.rack.after_patch["w1"] = lambda _name: bench.drain.pods["w2"].append(JOB)
    with pytest.raises(ClusterError, match=r"w2 was not emptied: team/train: .*not in the plan"):
        bench.patch()
    assert bench.patched == ["w1"]
    assert bench.cordoned == []
    assert bench.patch().done
    assert bench.patched == ["w1", "w2", "cp1"]
    assert bench.drain.pods["w2"] == []
