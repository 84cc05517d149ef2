"""Run:ai goes from its oldest version to the newest one in one command, without the hops between.

A lab of its own, on stand-ins: 1 control plane and 1 worker.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.lab.vendor.bundle import build_vendor_bundle
from tests.commands import succeed
from tests.lab.conftest import LabSite
from tests.lab.runai.backend import clusters, make_project, projects, versions
from tests.lab.test_runai_hops import FIRST, HOPS, PROJECT, lab_of_first, words

pytestmark = [pytest.mark.lab, pytest.mark.slow]

LAST = HOPS[-1]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabSite]:
    """One control plane and one worker, with the oldest version."""
    with lab_of_first("jump", tmp_path_factory.mktemp("jump")) as found:
        yield found


def test_one_command_goes_from_the_oldest_to_the_newest(
    lab: LabSite, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert versions(lab) == {(FIRST, "deployed")}
    make_project(lab, PROJECT)
    bundle = build_vendor_bundle(LAST, tmp_path)
    assert json.loads(succeed(*words(lab, bundle, "--dry-run", "-o", "json")).stdout)["steps"]
    began = time.monotonic()
    succeed(*words(lab, bundle, "--yes"), timeout=2400)
    with capsys.disabled():
        print(f"\n{FIRST} to {LAST}: {time.monotonic() - began:.0f} s")  # noqa: T201 - a figure
    assert versions(lab) == {(LAST, "deployed")}
    assert [one["status"] for one in clusters(lab)] == ["connected"]
    assert projects(lab) >= {PROJECT}
    assert "nothing to do" in succeed(*words(lab, bundle, "--yes")).stdout
