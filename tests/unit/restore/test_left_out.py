"""A control-plane node that a restore left out is told, and refused once it is back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from appliance.model.backup.restore import RestoreOptions
from appliance.model.plan.planner import plan
from appliance.model.plan.restored_without import ANNOTATION, marked
from appliance.model.state.facts.facts import NodeFacts
from appliance.model.state.observed import Observed
from tests import samples
from tests.unit.restore.test_restore_workflow import lost, restore


@pytest.mark.parametrize("survivor", [False, True])
def test_a_restore_marks_the_nodes_that_it_left_out(survivor: bool) -> None:
    rack = lost()
    left = ("cp2", "cp3") if survivor else ("cp3",)
    rack.views = {name: "off" if name in left else one for name, one in rack.views.items()}
    options = RestoreOptions(survivor="cp1") if survivor else RestoreOptions(without=("cp3",))
    restore(rack, options=options)
    assert marked(rack.desired.site, rack.cluster) == left


# What the node is when it is looked at -> whether everything is refused.
BACK = {"with its old data": True, "wiped": False, "away": False}


@pytest.mark.parametrize("how", BACK)
def test_a_node_that_comes_back_with_its_old_data_stops_an_install(how: str) -> None:
    desired = samples.desired(samples.site(3, 1))
    documents = {n.name: samples.converged(n, desired) for n in desired.site.nodes}
    # As it is with the data of a cluster that is gone: its API server does not run.
    documents["cp3"]["kubernetes"]["api_healthz"] = {"ok": False, "reason": "refused"}
    if how == "wiped":
        documents["cp3"] = samples.bare(desired.site.node("cp3"))
    facts = {
        name: NodeFacts(one) for name, one in documents.items() if how != "away" or name != "cp3"
    }
    cluster = samples.annotated(samples.cluster(desired), ["cp3"], ANNOTATION, "b.k.s")
    found = plan(desired, Observed(facts, cluster))
    told = [one for one in found.warnings if "left out by a restore" in one.text]
    assert [one.node for one in told] == ["cp3"]
    assert "appliance node rejoin cp3" in told[0].text
    refused = [one for one in found.refusals if one.check == "restore"]
    assert [one.node for one in refused] == (["cp3"] if BACK[how] else [])
    assert all("appliance node remove cp3" in one.hint for one in refused)


def test_a_node_that_rejoined_is_not_told() -> None:
    desired = samples.desired(samples.site(3, 1))
    cluster = samples.cluster(desired)
    assert marked(desired.site, cluster) == ()
    others = {name: one for name, one in cluster.nodes.items() if name != "cp3"}
    gone = samples.annotated(cluster, ["cp3"], ANNOTATION, "b.k.s")
    assert marked(desired.site, replace(gone, nodes=others)) == ()
