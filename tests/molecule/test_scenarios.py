"""Every Molecule scenario, as pytest cases: create, check, converge, idempotence, verify.

``default`` scenarios run in every CI run; all others are ``slow`` and run before a release.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCENARIOS = sorted(path.parent.name for path in (ROOT / "molecule").glob("*/molecule.yml"))
DEFAULTS = "_default"
# Each waits for its nodes more than it works.
AT_ONCE = 2


def _case(name: str) -> object:
    marks = [pytest.mark.molecule]
    if not name.endswith(DEFAULTS):
        marks.append(pytest.mark.slow)
    return pytest.param(name, marks=marks)


def _play(scenario: str, bundle: Path) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "APPLIANCE_BUNDLE": str(bundle),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    return subprocess.run(
        ["molecule", "-c", "molecule/base.yml", "test", "-s", scenario],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )


@pytest.fixture(scope="module")
def plays(
    request: pytest.FixtureRequest, bundle_directory: Path
) -> Iterator[Mapping[str, Future[subprocess.CompletedProcess[str]]]]:
    """The scenarios that were chosen, by name, in the order of the tests, a few at a time."""
    chosen = [
        str(item.callspec.params["scenario"])
        for item in request.session.items
        if item.path == Path(__file__) and isinstance(item, pytest.Function)
        if hasattr(item, "callspec")
    ]
    pool = ThreadPoolExecutor(max_workers=AT_ONCE)
    try:
        yield {name: pool.submit(_play, name, bundle_directory) for name in chosen}
    finally:
        pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("scenario", [_case(name) for name in SCENARIOS])
def test_the_scenario_passes(
    scenario: str, plays: Mapping[str, Future[subprocess.CompletedProcess[str]]]
) -> None:
    done = plays[scenario].result()
    assert done.returncode == 0, told(done.stdout + done.stderr)


def told(output: str) -> str:
    """What failed first, and how it ended: the nodes' removal comes in between."""
    first = re.search(r"fatal:|FAILED!|Traceback", output)
    at = first.start() if first else 0
    return f"{output[max(0, at - 1500) : at + 4000]}\n[...]\n{output[-2000:]}"


def test_there_are_scenarios() -> None:
    assert len(SCENARIOS) >= 10
