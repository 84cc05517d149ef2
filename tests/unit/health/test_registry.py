"""Every check is in one registry, and no two of them report the same fault."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.local.hardware_models import load_hardware, load_role_minima
from appliance.adapters.site.files import check_site
from appliance.model.checks.engine import STAGES, failed_checks
from appliance.model.checks.health.inputs import HealthInputs
from appliance.model.checks.health.stages import health
from appliance.model.checks.registry import CHECKS, before_install, of
from appliance.model.plan.steps import BY_NAME
from appliance.model.state.findings import Finding
from tests.site_cases import KNOWN, break_site, case_names
from tests.unit.health import scene
from tests.unit.health import test_checks as health_cases
from tests.unit.preflight import test_checks as preflight_cases

MODELS, MINIMA = load_hardware(), load_role_minima()
RESTING = {check.name: check.rests_on for check in CHECKS}


def _twice(findings: tuple[Finding, ...]) -> list[str]:
    """What is reported more than once of a node, whichever check reports it."""
    counted = Counter(f"{f.node}: {f.seen}, {f.expected}" for f in findings)
    return [sentence for sentence, count in counted.items() if count > 1]


def _echoes(findings: tuple[Finding, ...]) -> list[str]:
    """The checks that speak although one that they rest on found an error."""
    failed = failed_checks(findings)
    return [f.check for f in findings if failed & set(RESTING.get(f.check, ()))]


@pytest.mark.parametrize(("name", "case"), health_cases.CASES, ids=str)
def test_no_health_case_reports_a_fault_twice(name: str, case: dict[str, Any]) -> None:
    inputs = scene.inputs(case)
    planned = before_install(inputs, MODELS, MINIMA)
    assert (_twice(planned), _echoes(planned)) == ([], []), name
    judged = tuple(finding for result in health(inputs) for finding in result.findings)
    assert _twice(judged) == [], name


@pytest.mark.parametrize(("name", "case"), preflight_cases.CASES, ids=str)
def test_no_preflight_case_reports_a_fault_twice(name: str, case: dict[str, Any]) -> None:
    planned = before_install(HealthInputs(*preflight_cases.scene(case)), MODELS, MINIMA)
    assert (_twice(planned), _echoes(planned)) == ([], []), name


@pytest.mark.parametrize("name", case_names())
def test_no_fault_of_a_broken_site_is_reported_twice(name: str, tmp_path: Path) -> None:
    break_site(name, tmp_path / "rack7")
    judged = check_site(tmp_path / "rack7", known=KNOWN)
    faults = (*judged.faults, *judged.warnings)
    assert len({(f.file, f.line, f.problem) for f in faults}) == len(faults)


def test_the_clocks_are_reported_once() -> None:
    ahead = scene.inputs({"see": {"w1": {"clock/epoch": scene.NOW + 90}}})
    found = before_install(ahead, MODELS, MINIMA)
    errors = [f.check for f in found if f.severity == "error" and f.check.startswith("clock")]
    assert errors == ["clock"]


def test_a_vendor_bundle_that_does_not_fit_is_reported_once() -> None:
    inside = {"inside": "2.17.1", "runai": {"vendor_bundle": "runai-2.17.1.tar"}}
    found = before_install(scene.inputs(inside), MODELS, MINIMA)
    names = {"vendor_bundle", "cluster_version"}
    assert {f.check for f in found if f.severity == "error"} & names == {"vendor_bundle"}


def test_every_stage_has_checks_and_every_name_is_there_once_in_a_stage() -> None:
    for stage in STAGES:
        names = [check.name for check in of(stage)]
        assert names, stage
        assert [name for name, count in Counter(names).items() if count > 1] == [], stage


def test_every_check_rests_on_checks_that_run_before_it() -> None:
    order = {check.name: min(STAGES.index(s) for s in check.stages) for check in reversed(CHECKS)}
    assert [check.name for check in CHECKS if check.rests_on] == ["cluster_version", "clock_spread"]
    for check in CHECKS:
        for name in check.rests_on:
            assert order[name] < order[check.name], check.name


def test_every_step_that_errors_forbid_exists() -> None:
    assert {check.step for check in CHECKS} - {""} <= BY_NAME.keys()
    assert all(check.step for check in of("before_runai"))
