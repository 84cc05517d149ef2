"""What a plan of a site with ``runai:`` says and refuses before the first change."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from typing import Any

import pytest

from appliance.model.checks.health.inputs import HealthInputs
from appliance.model.checks.health.stages import before_change
from appliance.model.checks.preflight import Finding
from appliance.model.plan.planner import plan
from appliance.model.state.cluster.cluster import NoCluster
from appliance.model.state.observed import Observed
from appliance.model.state.plan import Plan
from appliance.model.state.upgrade import ANNOTATION, UpgradeMark
from tests import samples
from tests.unit.health import scene


def _findings(*earlier: Finding, **case: Any) -> tuple[Finding, ...]:
    return before_change(dataclasses.replace(scene.inputs(case), pods=None), earlier)


def _errors(**case: Any) -> set[str]:
    return {finding.check for finding in _findings(**case) if finding.severity == "error"}


def _bare_plan(*findings: Finding) -> Plan:
    desired = samples.desired()
    seen = samples.node_facts({node.name: samples.bare(node) for node in desired.site.nodes})
    return plan(desired, Observed(seen, NoCluster()), findings)


def test_what_the_issue_names_is_refused_before_any_change() -> None:
    foreign = {"ingress_classes": [{"name": "nginx"}]}
    elsewhere = {"w1": {"resolver/resolves": {scene.DOMAIN: ["203.0.113.9"]}}}
    assert _errors(prerequisites=foreign) == {"ingress_class"}
    assert _errors(see=elsewhere) == {"dns_nodes"}
    assert _errors(groups={"w1": ["gpu_workers"], "w2": ["cpu_workers"]}) == {"system_nodes"}
    assert _errors(see={"w1": {"clock/epoch": scene.NOW + 90}}) == {"clock_spread"}
    assert _errors(certificate={"trusted": False}) == {"certificate"}
    assert _errors(login_known=False) == {"login"}
    assert _errors(runai={"vendor_bundle": "runai-2.17.1.tar"}) == {"cluster_version"}
    operator = {"namespace": "gpu-operator", "version": "1.11.1"}
    assert _errors(gpu_operators=[operator]) == {"gpu_operator"}
    assert _errors() == set()


def test_what_preflight_said_already_is_not_said_again() -> None:
    late: dict[str, Any] = {"runai": {"vendor_bundle": "runai-2.17.1.tar"}}
    ahead: dict[str, Any] = {"see": {"w1": {"clock/epoch": scene.NOW + 90}}}
    bundle, clock = (Finding("cp1", c, "error", "a", "b", "c") for c in ("vendor_bundle", "clock"))
    warned = dataclasses.replace(clock, severity="warning")
    for case, said, left in (
        (late, bundle, set()),
        (late, clock, {"cluster_version"}),
        (ahead, clock, set()),
        (ahead, warned, {"clock_spread"}),
    ):
        errors = {f.check for f in _findings(said, **case) if f.severity == "error"}
        assert errors == left


def test_bare_nodes_are_included() -> None:
    found = _errors(cluster=None, groups={"w1": ["gpu_workers"], "w2": ["cpu_workers"]})
    assert found == {"system_nodes"}


def test_what_only_a_cluster_or_pods_can_show_is_not_said_before() -> None:
    late = {"nodes_ready", "gpu_nodes", "storage_class", "registry", "dns_pods"}
    assert not late & {finding.check for finding in _findings(cluster=None, site={"nfs": None})}


def test_an_installed_backend_can_be_healed_all_the_same() -> None:
    there = {"releases": {"runai-backend/runai-backend": "deployed"}}
    found = _findings(prerequisites=there, certificate={"trusted": False})
    assert [f.severity for f in found if f.check == "certificate"] == ["warning"]


def test_a_site_without_runai_hears_nothing() -> None:
    desired = samples.desired()
    assert before_change(HealthInputs(desired, Observed({}, NoCluster()))) == ()


def test_an_error_forbids_its_step_alone() -> None:
    finding = Finding("w1", "clock_spread", "error", "90 s", "60 s", "date", "runai")
    unplanned = _bare_plan(finding)
    assert unplanned.refusals == ()
    assert [warning.text for warning in unplanned.warnings] == [
        "clock_spread: found 90 s, expected 60 s"
    ]
    planned = _bare_plan(dataclasses.replace(finding, step="host"))
    assert [refusal.check for refusal in planned.refusals] == ["clock_spread"]
    assert planned.warnings == ()
    everywhere = _bare_plan(dataclasses.replace(finding, step=""))
    assert [refusal.check for refusal in everywhere.refusals] == ["clock_spread"]


def test_every_finding_before_the_change_is_of_step_runai() -> None:
    found = _findings(groups={"w1": ["gpu_workers"], "w2": ["cpu_workers"]})
    assert {finding.step for finding in found} == {"runai"}


@pytest.mark.parametrize(
    ("over", "severity", "cure"),
    [
        (False, "warning", "appliance cluster upgrade --to k8s-1.24.17-r1"),
        (True, "error", "set appliance_release in site.yml"),
    ],
    ids=["under way", "over"],
)
def test_in_the_middle_of_an_upgrade_the_version_of_before_is_no_fault(
    over: bool, severity: str, cure: str
) -> None:
    """``site.yml`` has the new release from its beginning on; a power cut may come in between."""
    inputs = scene.inputs({})
    mark = UpgradeMark("k8s-1.24.17-r1", "2026-01-01T00:00:00+00:00", "bob", over=over)
    found = samples.annotated(inputs.cluster, ["cp1"], ANNOTATION, mark.as_text())  # type: ignore[arg-type]
    observed = replace(inputs.observed, cluster=replace(found, version="v1.22.0"))
    said = before_change(replace(inputs, observed=observed, pods=None), ())
    (version,) = [one for one in said if one.check == "cluster_version"]
    assert (version.severity, version.seen) == (severity, "Kubernetes v1.22.0")
    assert cure in version.hint
