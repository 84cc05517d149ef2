"""No golden section outlives its case."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import yaml

from appliance.adapters.local.hardware_models import load_hardware
from tests import golden
from tests.site_cases import case_names

DATA = golden.ROOT / "tests" / "data"
FILES = sorted(golden.GOLDEN.rglob("*.txt"))
# Folder below tests/data/golden -> folder of the cases.
CASES = {"plan": "plan", "health": "health/cases", "preflight": "preflight/cases"}


def _tests(path: Path) -> set[str]:
    tree = ast.parse(path.read_text("utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def _words(path: Path) -> set[str]:
    """The words of a story, whose titles are typed among them."""
    nodes = ast.walk(ast.parse(path.read_text("utf-8")))
    return {n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)}


# Folder -> the test that names the sections of a file in it.
WRITERS = {
    "terminal": "terminal/test_{}.py",
    "rehearsal": "unit/rehearsal/test_{}.py",
    "restore": "unit/restore/test_{}.py",
    "hardware": "unit/hardware/test_burn_in_judged.py",
}


def _allowed(path: Path) -> set[str]:
    folder = path.parent.name
    if folder == "cli":
        return _tests(golden.ROOT / "tests" / "cli" / f"{path.stem}.py")
    if folder in WRITERS:
        return _words(golden.ROOT / "tests" / WRITERS[folder].format(path.stem))
    if folder == "imaging":
        cases = set(load_hardware()) if path.stem == "seeds" else set()
        return cases | _words(golden.ROOT / "tests" / "unit" / "imaging" / f"test_{path.stem}.py")
    if folder in CASES:
        cases = yaml.safe_load((DATA / CASES[folder] / f"{path.stem}.yml").read_text("utf-8"))
        return {case["name"] for case in cases}
    assert path.stem == "broken_sites"
    return set(case_names())


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_section_belongs_to_a_case(path: Path) -> None:
    sections = golden.read(path)
    assert sections
    cli = path.parent.name == "cli"
    names = {title.partition("[")[0] if cli else title for title in sections}
    assert names - _allowed(path) == set()


@pytest.mark.parametrize("time", ["   0.0", "   9.9", "  10.0", "1234.5", "12345.6"])
def test_the_column_of_a_lines_time_is_as_wide_at_any_time(time: str) -> None:
    assert golden.steady(f"[{time} s] verified after 10.5 s") == (
        "[   SECONDS] verified after SECONDS"
    )
