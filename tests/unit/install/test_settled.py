"""What a plan says of steps that nothing calls for: observed, not applicable, or not seen."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from appliance.cli.commands.install.plan_view import plan_as_json, show_plan
from appliance.cli.commands.status.view import status_as_json
from appliance.model.bundle.signature import Signature
from appliance.model.checks.preflight import preflight
from appliance.model.plan.planner import EVERYTHING, Scope, plan
from appliance.model.plan.steps import INSTALL
from appliance.model.state.cluster.cluster import NoCluster
from appliance.model.state.desired import Desired
from appliance.model.state.observed import Look, Observed
from appliance.model.state.plan import Plan, Refusal
from tests import samples
from tests.fakes import FakeRack
from tests.unit.life.test_left_alone import rack as rack_with_one_in_maintenance

PARTS = {"storage_client", "storage", "gpu", "runai", "node_roles", "access", "timers"}


def installed() -> FakeRack:
    desired = samples.desired()
    found = FakeRack(desired)
    found.cluster = samples.cluster(desired)
    found.documents = {n.name: samples.converged(n, desired) for n in desired.site.nodes}
    return found


def planned(rack: FakeRack, *seen: str, scope: Scope = EVERYTHING) -> Plan:
    node_facts = dict(rack.look(rack.desired.site.nodes).node_facts)
    kept = {name: facts for name, facts in node_facts.items() if name in seen}
    return plan(rack.desired, Observed(kept, rack.cluster), (), scope)


def test_a_step_is_not_satisfied_by_unknown_facts() -> None:
    found = planned(installed())
    assert found.satisfied == ()
    assert {one.step for one in found.unseen} == {
        step.name for step in INSTALL if step.unmet
    } - PARTS
    assert set(found.not_applicable) == PARTS


def test_with_every_node_seen_all_is_satisfied_but_what_the_site_does_not_have() -> None:
    found = planned(installed(), "cp1", "w1", "w2")
    assert found.unseen == ()
    assert set(found.not_applicable) == PARTS
    assert set(found.satisfied) == {step.name for step in INSTALL if step.unmet} - PARTS


def test_a_node_that_was_not_seen_leaves_its_steps_open_and_is_named() -> None:
    found = planned(installed(), "cp1", "w1")
    assert set(found.satisfied) == {"control_plane", "network"}
    assert {one.nodes for one in found.unseen} == {("w2",)}


def test_with_nodes_named_only_those_are_asked_for() -> None:
    found = planned(installed(), "cp1", "w1", scope=Scope(nodes=frozenset({"w1"})))
    assert "host" in found.satisfied
    assert "control_plane" in found.not_applicable
    assert found.unseen == ()


def test_every_step_is_in_exactly_one_place() -> None:
    rack = FakeRack(samples.desired())
    rack.cluster = NoCluster()
    for seen in ((), ("cp1",), ("cp1", "w1", "w2")):
        found = planned(rack, *seen)
        names = [step.name for step in found.steps if step.name != "preflight"]
        names += [*found.satisfied, *found.not_applicable, *(one.step for one in found.unseen)]
        assert sorted(names) == sorted(step.name for step in INSTALL if step.unmet)


def test_both_commands_say_it_in_json() -> None:
    rack = installed()
    found = planned(rack, "cp1", "w1")
    status = status_as_json(rack.desired.site, Observed({}, rack.cluster), Look({}), found)
    for document in (plan_as_json(found), status):
        assert set(document["not_applicable"]) == PARTS
        assert {"step": "host", "nodes": ["w2"]} in document["unseen"]
        assert "host" not in document["satisfied"]
        json.dumps(document)


def test_nothing_to_do_is_not_said_of_nodes_that_were_not_seen(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show_plan(planned(installed(), "cp1", "w1"))
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "nothing to do on the nodes that answered"
    assert said[1].startswith("not checked: host, ")
    assert said[1].endswith(": w2")


def test_a_plan_says_first_that_it_cannot_be_done(capsys: pytest.CaptureFixture[str]) -> None:
    found = planned(FakeRack(samples.desired()), "cp1", "w1", "w2")
    refusal = Refusal("w1", "memory", "1 DIMM", "2", "put it back")
    show_plan(replace(found, refusals=(refusal, refusal)))
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("2 refusals: nothing can be done")
    assert said[1].startswith("refused: w1: memory")
    assert said.index("the steps as the site is now; plan again after the fix:") < next(
        number for number, line in enumerate(said) if line.startswith("host: ")
    )


def unsigned(rack: FakeRack) -> Desired:
    settings = replace_signers(rack.desired)
    return replace(settings, signature=Signature("missing", fault="this bundle is not signed"))


def replace_signers(desired: Desired) -> Desired:
    settings = desired.site.settings.model_copy(update={"bundle_signers": "/site/allowed_signers"})
    return replace(desired, site=replace(desired.site, settings=settings))


@pytest.mark.parametrize("seen", [("cp1", "w1", "w2"), ("cp1", "w2")])
def test_an_unsigned_bundle_is_refused_while_its_node_rests(seen: tuple[str, ...]) -> None:
    rack = rack_with_one_in_maintenance()
    desired = unsigned(rack)
    groups = {n.name: n.groups - {"services"} for n in desired.site.nodes}
    groups["w1"] |= {"services"}
    nodes = tuple(replace(n, groups=groups[n.name]) for n in desired.site.nodes)
    desired = replace(desired, site=replace(desired.site, nodes=nodes))
    assert desired.site.services_node.name == "w1"
    rack.documents["w2"]["sysctl"] = {}
    node_facts = {n: p for n, p in rack.look(nodes).node_facts.items() if n in seen}
    observed = Observed(node_facts, rack.cluster)
    found = plan(desired, observed, preflight(desired, node_facts, observed))
    assert "bundle_signature" in [refusal.check for refusal in found.refusals]
