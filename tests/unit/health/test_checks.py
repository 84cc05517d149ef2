"""Every health check on data: ``tests/data/health/cases/*.yml`` are the cases.

A case starts from a site with GPU workers and a system node that is in order, changes what was seen
or asked for, and says the state of one check and what its findings say.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from appliance.cli.commands.health.view import health_as_json, show_health
from appliance.cli.screen.render import print_json
from appliance.model.checks.health.stages import CHECKS, Result, health
from appliance.model.state.observed import Look
from appliance.workflows.health import HealthResult
from tests import golden
from tests.unit.health.scene import inputs

CASES: list[tuple[str, dict[str, Any]]] = [
    (f"{path.stem}: {case['name']}", case)
    for path in sorted((Path(__file__).parents[2] / "data" / "health" / "cases").glob("*.yml"))
    for case in yaml.safe_load(path.read_text(encoding="utf-8"))
]


def _result(case: dict[str, Any]) -> Result:
    return next(r for r in health(inputs(case)) if r.check.name == case["check"])


@pytest.mark.parametrize("case", [case for _, case in CASES], ids=[name for name, _ in CASES])
def test_a_check_says_what_the_case_wants(case: dict[str, Any]) -> None:
    result = _result(case)
    said = [f"{f.severity}: {f.sentence()}; {f.hint}" for f in result.findings]
    assert result.state == case["state"], said
    for word in case.get("seen", ()):
        assert word in result.seen
    wanted = case.get("findings", [])
    assert len(said) == len(wanted), said
    for sentence, words in zip(said, wanted, strict=True):
        assert [word for word in words if word not in sentence] == [], sentence


@pytest.mark.parametrize(("name", "case"), CASES, ids=[name for name, _ in CASES])
def test_a_check_says_what_it_said(
    name: str, case: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    seen = inputs(case)
    result, look = _result(case), Look(seen.observed.node_facts)
    found = HealthResult(seen.desired.site, "runai", (result,), look)
    show_health(found)
    print_json(health_as_json(found))
    file, _, title = name.partition(": ")
    golden.agree(f"health/{file}", title, "".join(capsys.readouterr()))


def test_a_site_in_order_has_no_error_and_no_warning_but_the_shared_node() -> None:
    results = health(inputs({}))
    assert {r.check.name for r in results if r.state not in ("ok", "skipped")} == {"system_nodes"}
    assert {r.check.name for r in results if r.state == "skipped"} == {
        "certificate",
        "vendor_secrets",
        "researcher_login",
        # The nodes of the samples tell nothing of their file systems.
        "disks",
    }


def test_without_a_cluster_nothing_is_claimed_of_it() -> None:
    results = {r.check.name: r.state for r in health(inputs({"cluster": None, "pods": None}))}
    assert results["nodes_ready"] == "error"
    skipped = {name for name, state in results.items() if state == "skipped"}
    assert {"storage_class", "ingress_class", "prometheus", "gpu_nodes", "dns_pods"} <= skipped


def test_every_check_has_a_case_in_which_it_speaks() -> None:
    spoken = {case["check"] for _, case in CASES if case["state"] in ("error", "warning")}
    assert {check.name for check in CHECKS} == spoken


def test_every_finding_tells_what_to_do() -> None:
    for _, case in CASES:
        for finding in _result(case).findings:
            assert finding.hint
            assert finding.seen
            assert finding.expected
            assert finding.check == case["check"]
