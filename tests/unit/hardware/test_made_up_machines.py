"""Made-up machines as data give exactly the expected findings."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from appliance.model.checks.hardware.expected import Expectation
from appliance.model.checks.hardware.findings import Verdict, overall
from appliance.model.checks.hardware.qualification import qualify
from tests.unit.hardware.made_up import DATA, expectation, machine

CASES: list[dict[str, Any]] = yaml.safe_load((DATA / "cases.yml").read_text(encoding="utf-8"))


def expected_of(case: dict[str, Any]) -> Expectation:
    """The made-up model, with the changes of its file, and the number that the site names."""
    return expectation(change=case.get("model"), ordered=case.get("ordered"))


def test_there_are_twenty_machines() -> None:
    assert len(CASES) >= 20


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_a_machine_gives_exactly_its_findings(case: dict[str, Any]) -> None:
    found = qualify(expected_of(case), machine(case.get("change")))
    expected = {"firmware:bmc": "note", **case.get("find", {})}
    if "tells nothing" in case["name"]:
        del expected["firmware:bmc"]
    assert {one.fact: one.verdict.value for one in found if one.verdict != Verdict.PASS} == expected
    assert len({one.fact for one in found}) == len(found), "one judgement for each fact"
    worst = {"fail": Verdict.FAIL, "unknown": Verdict.UNKNOWN}
    assert overall(found) == next((worst[v] for v in worst if v in expected.values()), Verdict.PASS)


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_every_failure_and_unknown_says_what_to_do(case: dict[str, Any]) -> None:
    for finding in qualify(expected_of(case), machine(case.get("change"))):
        if finding.verdict in (Verdict.FAIL, Verdict.UNKNOWN):
            assert finding.action, finding.fact
            assert finding.expected, finding.fact
        assert finding.found, finding.fact
