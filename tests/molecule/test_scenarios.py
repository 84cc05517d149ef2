"""Every Molecule scenario, as pytest cases: create, check, converge, idempotence, verify.

Those of ``OFTEN`` run in every CI run; all others are ``slow`` and run before a release.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from appliance.model.programs import Use
from tests.prerequisites import require_for
from tests.this_run import folder

ROOT = Path(__file__).parents[2]
SCENARIOS = sorted(path.parent.name for path in (ROOT / "molecule").glob("*/molecule.yml"))
# In every run: what is on every machine, and what deletes; the others' roles are in each lab's
# install, too. Whom the export, the registry and the pod guard refuse is tried on a lab in every
# run (tests/lab/test_storage.py).
OFTEN = {
    "host_base_default",
    "node_reset_default",
}


def _case(name: str) -> object:
    marks = [pytest.mark.molecule]
    if name not in OFTEN:
        marks.append(pytest.mark.slow)
    return pytest.param(name, marks=marks)


@pytest.mark.parametrize("scenario", [_case(name) for name in SCENARIOS])
def test_the_scenario_passes(scenario: str, bundle_directory: Path) -> None:
    require_for(Use.LAB, Use.PLAYS, Use.BRING)
    environment = {
        **os.environ,
        "APPLIANCE_BUNDLE": str(bundle_directory),
        "MOLECULE_EPHEMERAL_DIRECTORY": str(folder() / "molecule" / scenario),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    done = subprocess.run(
        ["molecule", "-c", "molecule/base.yml", "test", "-s", scenario],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, told(done.stdout + done.stderr)


def told(output: str) -> str:
    """What failed first, and how it ended: the nodes' removal comes in between."""
    first = re.search(r"fatal:|FAILED!|Traceback|Error: ", output)
    at = first.start() if first else 0
    return f"{output[max(0, at - 1500) : at + 4000]}\n[...]\n{output[-2000:]}"


def test_there_are_scenarios() -> None:
    assert len(SCENARIOS) >= 10
