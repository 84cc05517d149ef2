"""``rack up`` ends with the checks of ``health``: what comes late is waited for, the rest named."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from appliance.errors import StepNotVerified
from appliance.model.state.cluster.cluster import Cluster
from appliance.model.state.cluster.pods import Pod
from tests import samples
from tests.unit.rack.bench import Bench

BACKEND = Pod(
    *("runai-backend", "db-0"), owner=("StatefulSet", "db"), ready=False, reason="ErrImagePull"
)


def with_pod(bench: Bench, pod: Pod, until: float = float("inf")) -> None:
    """The pod is not ready for so many seconds from now."""
    world, read, began = bench.world, bench.world.read, bench.clock.now()

    def later(*facts: Any) -> Any:
        found = read(*facts)
        ready = bench.clock.now() - began > until
        if not isinstance(found, Cluster):
            return found
        return replace(found, vendor_pods=(replace(pod, ready=ready),))

    world.read = later  # type: ignore[assignment,method-assign]


def test_a_pod_of_runai_that_comes_late_is_waited_for_and_test_pods_start_last() -> None:
    bench = Bench()
    bench.down()
    with_pod(bench, BACKEND, until=500.0)
    bench.up()
    assert bench.world.looks_from_pods == 1
    assert bench.journal.records[-1].step == "rack up: health"


def test_a_pod_that_does_not_come_is_named_and_every_node_is_in_service() -> None:
    bench = Bench()
    bench.down()
    with_pod(bench, BACKEND)
    began = bench.clock.now()
    with pytest.raises(
        StepNotVerified, match="in service, but pod runai-backend/db-0 is not ready: ErrImagePull"
    ):
        bench.up()
    assert bench.clock.now() - began >= 900
    assert (bench.cordoned, bench.marks, bench.announced) == ([], {}, [])
    assert bench.world.looks_from_pods == 0


def test_what_time_does_not_cure_is_named_at_once_beside_what_pods_see() -> None:
    bench = Bench()
    bench.down()
    ended = {"path": "/etc/kubernetes/pki/apiserver.crt", "not_after": "2023-01-01T00:00:00+00:00"}
    bench.world.documents["cp1"]["kubernetes"]["pki"].append(ended)
    bench.world.faults_of_pods = ("w1: no answer from w2",)
    began = bench.clock.now()
    with pytest.raises(StepNotVerified) as failed:
        bench.up()
    assert bench.clock.now() - began < 300
    told = " ".join((failed.value.message, *failed.value.details))
    assert "w1: node_connectivity: found no answer from w2" in told
    assert "cp1: kubernetes_certificates" in told


def test_a_site_with_runai_is_judged_with_what_runai_needs() -> None:
    bench = Bench()
    bench.down()
    bench.desired = samples.desired(samples.site(3, 2, runai={}))
    with pytest.raises(StepNotVerified) as failed:
        bench.up()
    told = " ".join((failed.value.message, *failed.value.details))
    assert all(f": {check}: " in told for check in ("system_nodes", "dns_pods")), told


def test_a_node_that_others_keep_out_of_service_does_not_count() -> None:
    bench = Bench()
    bench.world.change("w1", unschedulable=True)
    done = bench.up()
    assert [one.partition(" ")[0] for one in done.left] == ["w1"]


@pytest.mark.parametrize(("where", "counts"), [("w1", False), ("w2", True)])
def test_a_pod_of_a_node_that_others_keep_out_of_service_does_not_count(
    where: str, counts: bool
) -> None:
    bench = Bench()
    bench.down()
    mark = replace(bench.marks["w1"], reason="new riser", by="bob")
    bench.up()
    annotations = {"appliance.dev/maintenance": mark.as_text()}
    bench.world.change("w1", unschedulable=True, annotations=annotations)
    exporter = Pod("runai", "exporter", node=where, owner=("DaemonSet", "exporter"), ready=False)
    with_pod(bench, exporter)
    if counts:
        with pytest.raises(StepNotVerified, match="pod runai/exporter is not ready"):
            bench.up()
    else:
        assert any("w1 stays in maintenance by bob" in line for line in bench.up().left)
