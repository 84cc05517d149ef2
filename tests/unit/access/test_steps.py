"""The steps node_roles and access of an install: by port, forbidden late, recorded."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest

from appliance.errors import ClusterError, PreflightFailed, StepNotVerified
from appliance.model.components.access import oidc
from appliance.model.plan.planner import Scope
from appliance.model.state.cluster.api_flags import ApiFlags
from appliance.model.state.cluster.cluster import Cluster, Unreachable
from appliance.model.state.nodes.roles import LABELS, AnchoredObject, NodeAffinity, RolesView
from appliance.workflows.install import InstallRequest, InstallResult, install
from appliance.workflows.runai.access import enable
from tests import samples
from tests.fakes import (
    FakeJournal,
    FakeRack,
    run,
)
from tests.sessions import fake_session

ISSUER = "https://runai.rack.test/auth/realms/runai"


class Rack(FakeRack):
    """A converged site with Run:ai; the play ``access`` gives its API server the flags."""

    def __init__(self, *anchored: AnchoredObject) -> None:
        super().__init__(samples.desired(samples.site(runai={"access": {"enabled": True}})))
        site = self.desired.site
        self.documents = {node.name: samples.converged(node, self.desired) for node in site.nodes}
        document = self.documents["cp1"]
        document["kubernetes"]["apiserver"] = {"oidc": {}, "oidc_ca_sha256": None}
        self.issuer: dict[str, Any] = {"ok": True, "issuer": ISSUER}
        self.believe()
        labels: dict[str, dict[str, str]] = {node.name: {} for node in site.nodes}
        labels["cp1"] = {"node-role.kubernetes.io/control-plane": ""}
        view = RolesView(labels, NodeAffinity(False, False), anchored)
        self.cluster = replace(samples.cluster(self.desired), roles=view)

    def believe(self) -> None:
        self.documents["cp1"]["issuer"] = self.issuer

    def _take_effect(self, play: Any) -> None:
        if play.playbook == "access":
            wanted = dict(play.inventory["all"]["vars"]["api_oidc_flags"])
            server = {"oidc": wanted, "oidc_ca_sha256": samples.CA}
            self.documents["cp1"]["kubernetes"]["apiserver"] = server
            assert isinstance(self.cluster, Cluster)
            self.cluster = replace(self.cluster, api_flags=ApiFlags(wanted, {"cp1": wanted}))


class Bench:
    def __init__(self, rack: Rack) -> None:
        self.rack = rack
        self.journal = FakeJournal()

    def run(self, workflow: Any = install, **scope: Any) -> InstallResult:
        session = fake_session(self.rack, self.journal)
        request = InstallRequest(self.rack.desired, run(), Scope(**scope))
        result: InstallResult = workflow(request, session, lambda _: True)
        return result


def test_roles_are_written_by_port_and_flags_by_playbook() -> None:
    bench = Bench(Rack())
    assert bench.run().steps == ("preflight", "node_roles", "access")
    assert [play.playbook for play in bench.rack.plays] == ["preflight", "access"]
    assert bench.rack.roles().having("cpu") == {"w1", "w2"}
    assert bench.rack.roles().affinity == NodeAffinity(True, False)
    assert bench.run().steps == ()


def test_a_role_that_the_inventory_does_not_have_is_removed() -> None:
    bench = Bench(Rack())
    bench.run()
    view = bench.rack.roles()
    labels = copy.deepcopy({name: dict(found) for name, found in view.labels.items()})
    labels["w1"] |= {LABELS["system"]: ""}
    assert isinstance(bench.rack.cluster, Cluster)
    bench.rack.cluster = replace(bench.rack.cluster, roles=replace(view, labels=labels))
    done = bench.run(only="node_roles")
    (reason,) = done.plan.steps[0].reasons
    assert (reason.node, reason.text.split(",")[1]) == ("w1", " but is not in that group")
    assert bench.rack.roles().roles("w1") == {"cpu"}


def test_the_inventory_does_not_move_a_stateful_service() -> None:
    rack = Rack(AnchoredObject("StatefulSet", "runai", "db", "w2"))
    nodes = tuple(
        replace(node, groups=frozenset({"system_nodes"})) if node.name == "w1" else node
        for node in rack.desired.site.nodes
    )
    rack.desired = replace(rack.desired, site=replace(rack.desired.site, nodes=nodes))
    bench = Bench(rack)
    told = "w2: stateful service: found StatefulSet runai/db"
    with pytest.raises(PreflightFailed, match=told) as caught:
        bench.run(only="node_roles")
    # An install has no --allow-move; the command for roles has.
    hint = str(caught.value.hint)
    assert "role remove w2 --role system --allow-move, then run the same command again" in hint
    assert rack.role_plans == []
    assert bench.journal.records == []


def test_roles_without_an_api_are_an_error_that_says_so() -> None:
    rack = Rack()
    bench = Bench(rack)
    rack.cluster = Unreachable("silent", {"cp1": "etcd data"})
    with pytest.raises(ClusterError, match="so no node role was set"):
        bench.run(only="node_roles")


def test_access_enable_runs_its_step_alone_and_is_recorded_under_its_name() -> None:
    bench = Bench(Rack())
    assert bench.run(enable).steps == ("access",)
    (record,) = bench.journal.records
    assert (record.command, record.step, record.outcome) == (
        "runai access enable",
        "access",
        "verified",
    )
    assert any("has no --oidc-issuer-url" in why for why in record.why)
    assert bench.run(enable).steps == ()


def test_an_issuer_that_is_not_believed_refuses_before_anything_runs() -> None:
    rack = Rack()
    rack.issuer["ok"] = False
    bench = Bench(rack)
    with pytest.raises(PreflightFailed) as caught:
        bench.run(enable)
    assert caught.value.exit_code == 3
    assert rack.plays == []
    assert bench.journal.records == []


def test_an_issuer_that_fails_on_the_way_stops_the_step_before_it_begins() -> None:
    rack = Rack()
    bench = Bench(rack)
    write = rack.write_roles

    def break_issuer(plan: Any) -> None:
        write(plan)
        rack.issuer["ok"] = False

    rack.write_roles = break_issuer  # type: ignore[method-assign]
    with pytest.raises(StepNotVerified, match="step access was not started: cp1: OIDC issuer"):
        bench.run()
    assert [play.playbook for play in rack.plays] == ["preflight"]
    assert [record.outcome for record in bench.journal.records][-1] == "not verified"


def test_every_flag_of_the_plan_reaches_the_role() -> None:
    bench = Bench(Rack())
    bench.run(enable)
    found = bench.rack.plays[-1].inventory["all"]["vars"]
    assert found["api_oidc_flags"] == oidc.wanted_flags(bench.rack.desired)
