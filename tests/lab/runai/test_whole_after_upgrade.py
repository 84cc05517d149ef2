"""A lab with Run:ai goes to the last release of Kubernetes, and is whole afterwards.

The very last file of its folder: the lab runs on another release and runtime afterwards.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
import yaml

from tests.lab.conftest import LabSite
from tests.lab.runai.backend import clusters, make_project, projects
from tests.lab.runai.commands import Commands
from tests.lab.runai.test_runai import job, run_job
from tests.lab.support.cluster import busybox
from tests.lab.support.issuer import settings_file
from tests.lab.support.upgrading import (
    LAST,
    LAST_TAG,
    NEW,
    SECONDS,
    built,
    cordoned,
    runtimes,
    to_last,
    versions,
)

pytestmark = [pytest.mark.lab, pytest.mark.slow]

PROJECT = "before-kubernetes"


@pytest.fixture(scope="module")
def steps() -> tuple[Path, Path]:
    """The bundles of both releases, with stand-ins; ``APPLIANCE_TEST_..._GPU_BUNDLE`` name them."""
    given = [os.environ.get(f"APPLIANCE_TEST_{word}_GPU_BUNDLE") for word in ("NEW", "LAST")]
    new, last = given
    return (
        Path(new) if new else built(NEW, standins=True),
        Path(last) if last else built(LAST, standins=True),
    )


def test_the_runtime_of_runai_stops_it_and_the_hint_mends_that(
    runai_lab: LabSite, steps: tuple[Path, Path], commands: Commands
) -> None:
    if PROJECT not in projects(runai_lab):
        make_project(runai_lab, PROJECT)
    stopped = commands.run(*to_last(runai_lab, *steps), "--allow-outage", "--yes")
    assert stopped.returncode == 3
    assert "appliance install --only runai" in stopped.stderr
    path = settings_file(runai_lab)
    settings = yaml.safe_load(path.read_text())
    values = {"runai-operator": {"config": {"global": {"runtime": "containerd"}}}}
    settings["runai"]["cluster_values"] = values
    path.write_text(yaml.safe_dump(settings))
    again = ["install", "--only", "runai", "--site", str(runai_lab.directory), "--yes"]
    commands.succeed(*again, "--bundle", str(runai_lab.bundle), timeout=SECONDS)


def test_kubernetes_goes_through_two_releases(
    runai_lab: LabSite,
    steps: tuple[Path, Path],
    commands: Commands,
    capsys: pytest.CaptureFixture[str],
) -> None:
    began = time.monotonic()
    # The lab has one system node, and its GPUs are served by the operator's toolkit: the command
    # stops before them until this is said.
    outage = ("--allow-outage", "--accept-loss", "gpu-toolkit", "--yes")
    commands.succeed(*to_last(runai_lab, *steps), *outage, timeout=2 * SECONDS)
    with capsys.disabled():
        print(f"\n1 + 3 with Run:ai, two releases: {time.monotonic() - began:.0f} s")  # noqa: T201
    assert set(versions(runai_lab).values()) == {LAST_TAG}
    assert all(one.startswith("containerd://") for one in runtimes(runai_lab).values())
    assert cordoned(runai_lab) == []


def test_login_connection_and_project_are_there(runai_lab: LabSite) -> None:
    # Logs in with the site's own password.
    assert [one["status"] for one in clusters(runai_lab)] == ["connected"]
    assert PROJECT in projects(runai_lab)


def test_a_whole_gpu_and_a_part_run_jobs(runai_lab: LabSite) -> None:
    image = busybox(runai_lab)
    for name, document in (
        ("whole", job("whole", image, gpus=1)),
        ("fraction", job("fraction", image, fraction="0.5")),
    ):
        ((_, said),) = run_job(runai_lab, name, document)
        assert said.startswith("GPU 0: STANDIN")


def test_the_gpu_stack_of_the_release_comes_next_and_then_there_is_nothing_to_do(
    runai_lab: LabSite, steps: tuple[Path, Path], commands: Commands
) -> None:
    words = ["--site", str(runai_lab.directory), "--bundle", str(steps[1]), "--yes"]
    commands.succeed("gpu", "upgrade", *words, "--allow-outage", timeout=SECONDS)
    commands.succeed("install", *words, timeout=SECONDS)
    assert "nothing to do" in commands.succeed("install", *words, timeout=SECONDS).stdout
