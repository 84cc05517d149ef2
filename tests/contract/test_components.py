"""A new component is a folder and one line: nothing else of the model has to know it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from appliance.model.components.base.component import Component
from appliance.model.plan.components import COMPONENTS, FOLDERS
from appliance.model.plan.steps import INSTALL
from tests.contract import tree

MODEL = tree.ROOT / "appliance/model"
DUMMY = """
from appliance.model.components.base.component import Component, Step, cluster_members


def unmet(node, desired, observed):
    yield "dummy is not there"


def check(subject):
    yield subject.warning("dummy", "nothing", "a dummy", "appliance plan")


def site_check(desired):
    yield from ()


DUMMY = Component(
    "dummy",
    steps=(Step("dummy", "a dummy is there", cluster_members, unmet),),
    checks=(check,),
    site_checks=(site_check,),
    variables=lambda run: {"dummy_version": "1"},
    node_variables=lambda run, node: {"dummy_name": node.name},
    groups=lambda desired: {"appliance_dummies": {"hosts": {}}},
    probe_arguments=lambda desired: ("--dummy", "yes"),
)
COMPONENTS = (DUMMY,)
"""
# What a plan, a run, preflight and the probe make of it.
ASKED = """
from appliance.model.checks.preflight import preflight
from appliance.model.checks.probe_request import probe_arguments
from appliance.model.plan.inventory import run_inventory
from appliance.model.plan.planner import plan
from appliance.model.state.observed import Observed
from tests import samples

desired = samples.desired()
documents = {node.name: samples.converged(node, desired) for node in desired.site.nodes}
seen = Observed(samples.node_facts(documents), samples.cluster(desired))
planned = plan(desired, seen, ())
(step,) = [step for step in planned.steps if step.name == "dummy"]
assert step.nodes == ("cp1", "w1", "w2"), step
assert {reason.text for reason in step.reasons} == {"dummy is not there"}, step
run = run_inventory(desired, seen, planned.choice, bundle_directory=None)["all"]
assert run["vars"]["dummy_version"] == "1"
assert run["hosts"]["w1"]["dummy_name"] == "w1"
assert set(run["children"]["appliance_dummy"]["hosts"]) == {"cp1", "w1", "w2"}
assert "appliance_dummies" in run["children"]
assert "dummy" in {finding.check for finding in preflight(desired, seen.node_facts, seen)}
assert "--dummy" in probe_arguments(desired)
print("a dummy is known everywhere")
"""


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for part in ("appliance", "tests", "hardware", "inventories", "roles", "playbooks"):
        ignored = shutil.ignore_patterns("__pycache__", "docs", "go", "lab", "molecule")
        shutil.copytree(tree.ROOT / part, tmp_path / part, ignore=ignored)
    shutil.copytree(MODEL.parent / "lab", tmp_path / "appliance/lab")
    return tmp_path


def _asked(where: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", ASKED], cwd=where, capture_output=True, text=True, check=False
    )


def test_a_component_is_one_folder_and_one_line(copy: Path) -> None:
    assert "not enough values to unpack" in _asked(copy).stderr, "the premise: it is not there"
    folder = copy / "appliance/model/components/dummy"
    folder.mkdir()
    (folder / "__init__.py").write_text('"""A dummy."""\n', encoding="utf-8")
    (folder / "component.py").write_text(DUMMY, encoding="utf-8")
    registry = copy / "appliance/model/plan/components.py"
    lines = registry.read_text(encoding="utf-8").splitlines(keepends=True)
    lines.insert(lines.index('    "gpu",\n'), '    "dummy",\n')
    registry.write_text("".join(lines), encoding="utf-8")
    done = _asked(copy)
    assert done.stdout == "a dummy is known everywhere\n", done.stderr


def test_every_folder_of_a_component_is_registered() -> None:
    folders = {path.name for path in (MODEL / "components").iterdir() if path.is_dir()}
    assert folders - {"__pycache__", "base"} == set(FOLDERS)


def test_every_component_is_complete_on_its_own() -> None:
    assert all(isinstance(component, Component) and component.steps for component in COMPONENTS)
    names = [component.name for component in COMPONENTS]
    assert len(names) == len(set(names))


def test_no_steps_name_is_in_the_engine() -> None:
    engine = (MODEL.parent / "workflows/install.py").read_text(encoding="utf-8")
    assert [step.name for step in INSTALL if f'"{step.name}"' in engine] == []
