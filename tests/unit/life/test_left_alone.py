"""A node in maintenance is nobody's business: in no plan, no reason to refuse one, no fault."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from appliance.cli.commands.status.view import faults_of
from appliance.errors import NodeUnreachable
from appliance.model.checks.preflight import Finding
from appliance.model.plan.planner import EVERYTHING, Scope, plan
from appliance.model.state.cluster.cluster import Cluster
from appliance.model.state.nodes.maintenance import ANNOTATION, Maintenance, Phase, away
from appliance.model.state.observed import Fault, Look, Observed
from appliance.workflows.session.survey import survey
from tests import samples
from tests.fakes import FakeRack

FAULT = Fault("w1", "w1: no SSH on port 22", "is it powered on?")


def rack(*, phase: Phase = "out of service") -> FakeRack:
    desired = samples.desired()
    found = FakeRack(desired)
    found.documents = {n.name: samples.converged(n, desired) for n in desired.site.nodes}
    mark = Maintenance(
        *("run", "ada", "laptop", "2026-01-01T00:00:00+00:00", "taint", phase),
        cordoned=True,
        tainted=True,
    )
    cluster = samples.cluster(desired)
    node = replace(
        cluster.nodes["w1"],
        annotations={ANNOTATION: mark.as_text()},
        ready=False,
        unschedulable=True,
    )
    found.cluster = replace(cluster, nodes={**cluster.nodes, "w1": node})
    return found


def surveyed(found: FakeRack, scope: Scope = EVERYTHING) -> Any:
    return survey(found.desired, found, found, lambda *_: (), scope).plan


@pytest.mark.parametrize("phase", ["cordon", "evict", "return", "out of service"])
def test_a_node_in_maintenance_is_in_no_plan_and_the_plan_says_so(phase: Phase) -> None:
    planned = surveyed(rack(phase=phase))
    assert planned.steps == ()
    assert [(n.node, "skipped" in n.text) for n in planned.warnings] == [("w1", True)]


def test_named_it_is_converged_like_any_other() -> None:
    planned = surveyed(rack(), Scope(nodes=frozenset({"w1"})))
    assert [(step.name, step.nodes) for step in planned.steps if step.name != "preflight"] == [
        ("workers", ("w1",))
    ]


def test_one_that_is_off_stops_no_install_but_any_other_does() -> None:
    found = rack()
    found.faults = {"w1": FAULT}
    assert surveyed(found).steps == ()
    found.faults = {"w1": FAULT, "w2": Fault("w2", "w2: no SSH on port 22", "")}
    with pytest.raises(NodeUnreachable, match="w2") as failed:
        surveyed(found)
    assert "w1" not in " ".join((failed.value.message, *failed.value.details))
    found.faults = {"w1": FAULT}
    with pytest.raises(NodeUnreachable, match="w1"):
        surveyed(found, Scope(nodes=frozenset({"w1"})))


def test_its_findings_forbid_nothing_and_those_of_others_do() -> None:
    found = rack()
    found.documents["w2"]["sysctl"] = {}
    observed = Observed(found.look(found.desired.site.nodes).node_facts, found.cluster)
    bad = Finding("w1", "memory", "error", "1 DIMM", "2", "put it back")
    assert plan(found.desired, observed, [bad]).refusals == ()
    assert plan(found.desired, observed, [replace(bad, node="w2")]).refusals != ()


def test_a_step_for_all_nodes_together_leaves_it_out() -> None:
    found = rack()
    assert isinstance(found.cluster, Cluster)
    masters = [n.name for n in found.desired.site.control_plane]
    found.cluster = replace(found.cluster, pod_network="10.0.0.0/8")
    assert found.desired.site.node("w1").name in away(found.cluster)
    (step,) = (s for s in surveyed(found).steps if s.name == "network")
    assert step.nodes == tuple(masters)


def test_it_is_no_fault_that_it_does_not_answer() -> None:
    found = rack()
    observed = Observed({}, found.cluster)
    look = Look({}, (FAULT, Fault("w2", "w2: no SSH", "")))
    assert (
        faults_of(found.desired.site, look, plan(found.desired, observed), observed)[0]
        == "w2: no SSH"
    )
