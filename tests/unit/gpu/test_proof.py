"""The last part of step gpu: what pods saw is shown, and what they did not see is an error."""

from __future__ import annotations

import pytest

from appliance.errors import StepNotVerified
from appliance.model.state.observed import GpuTestResult
from tests import samples
from tests.fakes import FakeBundle, FakeRack
from tests.unit.install.test_install import ALL, Bench


def bench() -> Bench:
    desired = samples.desired(samples.site(gpu={}))
    assert desired.manifest is not None
    rack = FakeRack(desired)
    for name in ("w1", "w2"):
        whole = samples.converged(desired.site.node(name), desired)
        rack.documents[name]["gpus"] = whole["gpus"]
    return Bench(rack=rack, bundle=FakeBundle(desired.manifest))


def test_an_install_with_gpus_ends_with_pods_that_list_them() -> None:
    found = bench()
    assert list(found.install().steps) == [*ALL, "gpu"]
    assert found.rack.gpu_proofs == [("w1", "w2")]
    assert ("note", "w1: nvidia-smi -L: GPU 0: x") in found.observer.said
    assert found.install().steps == ()


def test_a_pod_that_does_not_see_its_gpus_fails_the_step() -> None:
    found = bench()
    found.rack.gpu_untested = GpuTestResult(
        {}, (("w2", "a pod with 2 GPUs lists 0 of them: nothing"),)
    )
    with pytest.raises(StepNotVerified, match="gpu ran, but w2: a pod with 2 GPUs lists 0"):
        found.install()
    assert found.journal.records[-1].outcome == "not verified"


def test_gpus_that_are_all_at_work_are_said_to_be() -> None:
    found = bench()
    found.rack.gpu_untested = GpuTestResult({"w1": ()})
    found.install()
    assert [item for item in found.observer.said if "all GPUs are in use" in str(item)]
