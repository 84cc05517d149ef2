"""``appliance health``: its words, its exit codes, its JSON. The real thing: tests/lab."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.kubernetes.api import KubernetesApi
from appliance.adapters.local.this_machine import ThisMachine, login_known
from appliance.adapters.ssh.nodes import SshNodes
from appliance.cli import exits
from appliance.cli.app import Application
from appliance.cli.site_session import SiteSession
from appliance.model.checks.health.inputs import HealthInputs
from appliance.model.checks.health.login import is_asked
from appliance.model.checks.preflight import Finding
from appliance.model.site.settings import Node, Site
from appliance.model.state.cluster.cluster import ClusterState
from appliance.model.state.desired import Desired
from appliance.model.state.facts.facts import NodeFacts
from appliance.model.state.observed import Fault, Look, PodView
from appliance.workflows.session.session import Session
from tests import samples
from tests.fakes import FakeArchive
from tests.unit.health import scene

HEALTH = ["health", "--site", "/nowhere/rack"]


@dataclass
class FakeSite:
    """A site that is looked at: nodes, cluster and pods of a case in one."""

    inputs: HealthInputs
    faults: tuple[Fault, ...] = ()
    asked: list[tuple[str, ...]] = field(default_factory=list)

    @property
    def site(self) -> Site:
        return self.inputs.site

    def load_desired(self) -> Desired:
        return self.inputs.desired

    def session(self) -> Session:
        return Session(
            nodes=self,
            cluster=self,  # type: ignore[arg-type]
            archive=FakeArchive(),
            control_host=ThisMachine(),
            preflight=lambda *_: (),
        )

    def look(self, _nodes: Sequence[Node]) -> Look:
        return Look(self.inputs.observed.node_facts, self.faults)

    def read(self, _node_facts: Mapping[str, NodeFacts]) -> ClusterState:
        return self.inputs.observed.cluster

    def look_from_pods(self, nodes: Sequence[str], image: str, names: Sequence[str]) -> PodView:
        assert list(nodes) == ["cp1", "w1", "w2"]
        self.asked.append((image, *names))
        assert self.inputs.pods is not None
        return self.inputs.pods


Scene = Callable[..., FakeSite]


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> Scene:
    """A site of a case, which the command line finds at any directory."""

    def make(*, faults: tuple[Fault, ...] = (), **case: Any) -> FakeSite:
        found = FakeSite(scene.inputs(case), faults)
        monkeypatch.setattr(Application, "connect", lambda *_, **__: found)
        answer = dict(found.inputs.control_host or {})
        monkeypatch.setattr("appliance.adapters.local.control_host.resolve", lambda _names: answer)
        return found

    for name in ("APPLIANCE_SITE", "APPLIANCE_OUTPUT"):
        monkeypatch.delenv(name, raising=False)
    return make


def test_a_site_in_order_ends_with_0(given: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    rack = given()
    assert exits.run(HEALTH) == 0
    said = capsys.readouterr()
    assert "cluster_version" in said.out
    assert "Run:ai 2.8 supports 1.21 to 1.24" in said.out
    assert said.err == ""
    image, name = rack.asked[0]
    assert image.startswith("registry.rack.test:5000/busybox@sha256:")
    assert name == "runai.rack.test"


def test_an_error_ends_with_5_and_one_sentence(
    given: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    given(groups={"w1": ["gpu_workers"], "w2": ["cpu_workers"]}, members={"w1": {"devices": {}}})
    assert exits.run(HEALTH) == 5
    said = capsys.readouterr()
    assert "error: site: system_nodes: found no system node" in said.out
    assert "   hint: add workers to the group system_nodes" in said.out
    assert said.err.startswith("error: not ready for Run:ai: site: system_nodes: found no system")
    assert "(and 1 more)" in said.err
    assert len(said.err.splitlines()) <= 4


def test_warnings_alone_end_with_0(given: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    given(control_host=[])
    assert exits.run(HEALTH) == 0
    assert "warning: control host: dns_control_host: found no answer" in capsys.readouterr().out


def test_json_keeps_its_keys(given: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    given(prerequisites={"ingress_classes": [{"name": "nginx"}]})
    assert exits.run([*HEALTH, "--output", "json"]) == 5
    found = json.loads(capsys.readouterr().out)
    keys = {"site", "stage", "healthy", "checks", "unreachable", "vendor_diagnostics"}
    assert set(found) == keys
    assert (found["site"], found["stage"], found["healthy"]) == ("rack", "runai", False)
    check = next(one for one in found["checks"] if one["check"] == "ingress_class")
    assert set(check) == {"check", "asks", "state", "seen", "findings"}
    assert set(check["findings"][0]) == {
        *("node", "check", "severity", "seen", "expected", "hint"),
    }


def test_pods_are_not_started_when_they_are_not_wanted(
    given: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    rack = given()
    assert exits.run([*HEALTH, "--without-pods", "-o", "json"]) == 0
    assert rack.asked == []
    states = {c["check"]: c["state"] for c in json.loads(capsys.readouterr().out)["checks"]}
    assert states["dns_pods"] == states["node_connectivity"] == "skipped"


def test_a_node_that_does_not_answer_is_a_fault(
    given: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    given(faults=(Fault("w2", "w2 (198.18.7.22): no SSH on port 22", "ping it"),), away=["w2"])
    assert exits.run(HEALTH) == 5
    assert "unreachable: w2 (198.18.7.22): no SSH" in capsys.readouterr().out


def test_a_site_that_does_not_ask_for_runai_is_refused(
    given: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    given(site={"runai": None})
    assert exits.run([*HEALTH, "--stage", "runai"]) == 3
    said = capsys.readouterr().err
    assert "has no section runai" in said
    assert "appliance health --stage cluster" in said


def test_the_cluster_alone_is_judged_on_a_site_without_runai(
    given: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    rack = given(site={"runai": None})
    assert exits.run([*HEALTH, "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["stage"] == "cluster"
    assert {check["check"] for check in found["checks"]} == {
        *("nodes_ready", "registry", "pod_guard", "ca_trust", "kubernetes_certificates"),
        *("maintenance", "node_connectivity", "clock_spread", "disks"),
    }
    assert rack.asked[0][1:] == ()


def test_an_unhealthy_cluster_is_reported_as_such(
    given: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    given(site={"runai": None}, members={"w1": {"ready": False, "not_ready_reason": "no kubelet"}})
    assert exits.run([*HEALTH, "--without-pods"]) == 5
    assert capsys.readouterr().err.startswith("error: the cluster is not healthy: w1: ")


def test_the_vendors_tool_must_be_a_file(given: Scene, tmp_path: Path) -> None:
    given()
    assert exits.run([*HEALTH, "--run-vendor-diagnostics", str(tmp_path / "none")]) == 3


def test_an_unknown_stage_is_a_typing_error(given: Scene) -> None:
    given()
    assert exits.run([*HEALTH, "--stage", "moon"]) == 2


def test_a_plan_of_a_site_that_asks_for_runai_says_what_it_misses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("appliance.adapters.local.control_host.resolve", lambda _names: {})
    seen = scene.inputs({"groups": {"w1": ["gpu_workers"], "w2": ["cpu_workers"]}})
    found = _preflight(seen)
    assert {f.check: f.step for f in found}["system_nodes"] == "runai"
    without = scene.inputs({"site": {"runai": None}})
    assert [finding for finding in _preflight(without) if finding.step] == []


def _preflight(seen: HealthInputs) -> Sequence[Finding]:
    """What the command line's own preflight says of a case."""
    nodes = SshNodes(seen.site)
    connected = SiteSession(seen.site, seen.desired, nodes, KubernetesApi(seen.site, nodes), None)
    return connected.preflight(seen.desired, seen.observed.node_facts, seen.observed)


def test_help_says_what_it_starts_in_the_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    assert exits.run(["health", "-h"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "namespace is deleted at the end" in said
    assert "Example: appliance health" in said


def test_the_vault_is_opened_for_a_login_that_is_still_to_come() -> None:
    assert is_asked(scene.inputs({}))
    assert not is_asked(scene.inputs({"runai": {"cluster_values_file": "/media/runai.yaml"}}))
    there = {"releases": {"runai/runai-cluster": "deployed"}}
    assert not is_asked(scene.inputs({"prerequisites": there}))


def test_only_the_vault_decides_whether_the_login_is_known(tmp_path: Path) -> None:
    site = dataclasses.replace(samples.site(runai={}), directory=tmp_path)
    assert login_known(site, {}) is None, "there is no vault"
    site.vault_file.parent.mkdir(parents=True)
    site.vault_file.write_text("")
    assert login_known(site, None) is None, "it is closed"
    assert login_known(site, {"vault_runai_admin_password": " "}) is False
    assert login_known(site, {"vault_runai_admin_password": "Abcd!234"}) is True
