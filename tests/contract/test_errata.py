"""The errata table and the code: every row is there, and what a row names exists."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from appliance.model.checks.health.stages import CHECKS as HEALTH
from appliance.model.checks.preflight import CHECKS as PREFLIGHT
from appliance.model.checks.preflight import SITE_CHECKS
from tests.contract import tree

PAGE = Path("appliance/docs/errata.md")
ROWS = (*(f"E{number}" for number in range(1, 20)), *(f"P{number}" for number in range(1, 29)))
REFERENCE = re.compile(r"`(preflight|health|plan|test):([^`]+)`")
# The guide's names as its type-setting left them, in anything that could be a command.
MANGLED = re.compile(r"Run:ai[-=/@](?!\s)|[/ ]Run:ai (?:-n|--)|-n Run:ai\b")


def _rows() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in tree.read(PAGE).splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if re.fullmatch(r"[EP]\d+", cells[0]):
            assert cells[0] not in found, f"{cells[0]} is there twice"
            found[cells[0]] = cells
    return found


def _references(kind: str) -> set[str]:
    return {name for found, name in REFERENCE.findall(_body()) if found == kind}


def _body() -> str:
    """The page without the table that explains its forms."""
    return tree.read(PAGE).partition("\n## ")[2]


def _cases(folder: str) -> list[tuple[str, dict[str, object]]]:
    return [
        (f"{path.stem}: {case['name']}", case)
        for path in tree.under(folder)
        if path.suffix == ".yml"
        for case in yaml.safe_load(tree.read(path))
        if isinstance(case, dict) and "name" in case
    ]


def test_every_erratum_and_every_pitfall_has_its_row() -> None:
    assert tuple(_rows()) == ROWS


@pytest.mark.parametrize("number", ROWS)
def test_a_row_names_what_holds_it_or_says_plainly_that_nothing_does(number: str) -> None:
    cells = _rows()[number]
    assert len(cells) == 4, cells
    held = cells[3]
    plain = re.match(r"not covered( yet)?$|out of scope: \w|out of scope$", held)
    assert bool(REFERENCE.search(held)) != bool(plain), held
    assert REFERENCE.sub("", held).strip(" ,") == "" or plain, "only names, or only plain words"


def test_every_preflight_check_that_is_named_exists_and_speaks_in_a_case() -> None:
    spoken = {case["check"] for _, case in _cases("tests/data/preflight") if case.get("findings")}
    named = _references("preflight")
    assert named <= {check.__name__ for check in (*PREFLIGHT, *SITE_CHECKS)}
    assert named <= spoken


def test_every_health_check_that_is_named_exists_and_speaks_in_a_case() -> None:
    cases = _cases("tests/data/health")
    spoken = {case["check"] for _, case in cases if case["state"] in ("error", "warning")}
    named = _references("health")
    assert named <= {check.name for check in HEALTH}
    assert named <= spoken


def test_every_case_of_the_planner_that_is_named_exists() -> None:
    assert _references("plan") <= {name for name, _ in _cases("tests/data/plan")}


def test_every_test_that_is_named_is_collected() -> None:
    named = _references("test")
    files = sorted({name.partition("::")[0] for name in named})
    listed = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "", *files],
        cwd=tree.ROOT,
        # More words, as -v, would list other lines.
        env={**os.environ, "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert listed.returncode == 0, listed.stdout[-2000:]
    collected = {line.partition("[")[0] for line in listed.stdout.splitlines() if "::" in line}
    assert named - collected == set()


def test_no_name_of_the_guide_is_mangled_here() -> None:
    assert MANGLED.search("helm get values Run:ai-backend")
    assert MANGLED.search("kubectl taint nodes w1 Run:ai=drain:NoExecute")
    assert MANGLED.search("kubectl get pods -n Run:ai")
    wrong = [
        f"{path}: {line.strip()}"
        for path in tree.under("appliance", "playbooks", "roles", "inventories")
        if path != PAGE
        for line in tree.read(path).splitlines()
        if MANGLED.search(line)
    ]
    assert wrong == []


def test_flannel_stays_on_a_drained_node() -> None:
    template = tree.read(Path("roles/flannel/templates/flannel.yaml.j2"))
    assert re.search(r"tolerations:\n +- operator: Exists\n", template)
