"""A lab of the first release is upgraded to the next one, while its pods serve."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.commands import appliance, succeed
from tests.lab.conftest import LabSite, installed_as
from tests.lab.support.api_probe import api_watched
from tests.lab.support.cluster import kubectl
from tests.lab.support.runbook import Runbook
from tests.lab.support.service_probe import asking
from tests.lab.support.skew import skew_is_allowed
from tests.lab.support.upgrading import (
    NEW,
    SECONDS,
    TAG,
    cordoned,
    load_now,
    new_bundle,
    settings,
    versions,
    words,
)

__all__ = ["new_bundle"]

pytestmark = [pytest.mark.lab, pytest.mark.slow]

PAGE = Runbook("upgrade-kubernetes")
KILLS = int(os.environ.get("APPLIANCE_TEST_KILLS", "12"))


@pytest.fixture(scope="module")
def old_lab(tmp_path_factory: pytest.TempPathFactory, bundle_directory: Path) -> Iterator[LabSite]:
    """One control plane and two workers on the first release."""
    if given := os.environ.get("APPLIANCE_TEST_SITE"):
        yield LabSite(Path(given).name, Path(given), bundle_directory)
        return
    with installed_as("upg", tmp_path_factory.mktemp("labs"), bundle_directory) as lab:
        yield lab


def values(lab: LabSite, bundle: Path) -> dict[str, str]:
    """What the page's names are here."""
    return {"SITE": str(lab.directory), "DIR": str(bundle)}


def test_the_dry_run_shows_each_node_and_changes_nothing(
    old_lab: LabSite, new_bundle: Path
) -> None:
    page = "appliance cluster upgrade --to k8s-1.23.17-r1 --bundle DIR --site SITE --dry-run"
    done = succeed(*PAGE.words(page, values(old_lab, new_bundle)), "--output", "json")
    found: dict[str, Any] = json.loads(done.stdout)
    assert (found["path"], found["refusals"]) == ([NEW], [])
    nodes = [step["nodes"] for step in found["steps"] if step["kind"] == "nodes"]
    assert nodes == [[old_lab.node(name)] for name in ("cp1", "w1", "w2")]
    assert set(versions(old_lab).values()) == {"v1.23.5"}


def test_a_paused_upgrade_refuses_an_install_and_is_named(
    old_lab: LabSite, new_bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    began = time.monotonic()
    endpoint = settings(old_lab)["control_plane_endpoint"]["name"]
    watching = api_watched(old_lab.node("w1"), endpoint, 6443)
    with asking(old_lab) as asked, watching as watched:
        pause = ["--pause-after", old_lab.node("cp1"), "--yes"]
        succeed(*words(old_lab, new_bundle, *pause), timeout=SECONDS)
    took = time.monotonic() - began
    with capsys.disabled():
        print(  # noqa: T201 - a figure of the release
            f"\ncontrol plane in {took:.0f} s; requests {asked.total}, lost {len(asked.lost)}; "
            f"longest time without API {watched.gap:.0f} s (load {load_now()})"
        )
    assert asked.lost == []
    assert versions(old_lab)[old_lab.node("cp1")] == TAG
    assert cordoned(old_lab) == []
    refused = appliance(*old_lab.install_words())
    assert refused.returncode == 3
    assert f"an upgrade to {NEW} is under way" in refused.stderr
    status = succeed("status", "--site", str(old_lab.directory))
    assert f"an upgrade to {NEW} is under way" in status.stdout
    assert settings(old_lab)["appliance_release"] == NEW


def test_killed_at_random_moments_the_same_command_ends_it(
    old_lab: LabSite, new_bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = Path(sys.executable).with_name("appliance")
    dice = random.Random(int(os.environ.get("APPLIANCE_TEST_SEED", "17")))  # noqa: S311
    killed = 0
    with asking(old_lab) as asked:
        for _ in range(KILLS):
            process = subprocess.Popen(
                [program, *words(old_lab, new_bundle, "--yes")],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            try:
                if process.wait(dice.uniform(5, 60)) == 0:
                    break
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                process.wait()
                killed += 1
                skew_is_allowed(old_lab)
        page = "appliance cluster upgrade --to k8s-1.23.17-r1 --bundle DIR --site SITE"
        succeed(*PAGE.words(page, values(old_lab, new_bundle)), "--yes", timeout=SECONDS)
    with capsys.disabled():
        print(  # noqa: T201 - a figure of the release
            f"\nworkers, {killed} kills: requests {asked.total}, lost {len(asked.lost)}"
        )
    assert killed > 0
    assert asked.lost == []
    assert set(versions(old_lab).values()) == {TAG}
    assert cordoned(old_lab) == []
    annotations = json.loads(kubectl(old_lab, f"get node {old_lab.node('cp1')} -o json"))
    assert "appliance.dev/upgrade" not in annotations["metadata"]["annotations"]


def test_afterwards_there_is_nothing_to_do_and_an_install_is_let_through(
    old_lab: LabSite, new_bundle: Path
) -> None:
    done = succeed(*words(old_lab, new_bundle, "--yes"))
    assert f"nothing to do: every node runs {NEW}" in done.stdout
    install = ["install", "--site", str(old_lab.directory), "--bundle", str(new_bundle), "--yes"]
    succeed(*install, timeout=SECONDS)
    old_lab.settled()
    succeed(*PAGE.words("appliance health --site SITE", values(old_lab, new_bundle)))
