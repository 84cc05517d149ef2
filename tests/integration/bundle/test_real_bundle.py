"""The real bundle of the lab's system: built from real sources, killed, resumed, harmed, mended.

It is the very bundle that ``lab up`` installs from, so what is built here is not built twice.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.bundle.directory import BundleDirectory
from appliance.cli.commands.bundle.parts import build
from appliance.model.bundle.manifest import BundleManifest
from tests.prerequisites import require
from tests.this_run import OS, built_bundle

pytestmark = pytest.mark.bundle
RELEASE = "k8s-1.23.5-r1"
ROOT = Path(__file__).parents[3]


def appliance(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "appliance", "bundle", *arguments],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy, since tests here harm it."""
    require("go", "gcc")
    directory = tmp_path_factory.mktemp("real") / "bundle"
    shutil.copytree(built_bundle(), directory)
    return directory


def manifest_of(bundle: Path) -> BundleManifest:
    return BundleDirectory(bundle).manifest


def test_every_byte_is_what_the_manifest_says(bundle: Path) -> None:
    done = appliance("verify", "-o", "json", bundle)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["faults"] == []
    assert (found["binarys"], found["cnis"], found["images"]) == (6, 5, 9)


def test_building_again_changes_nothing(bundle: Path) -> None:
    before = BundleDirectory(bundle).digest
    assert build(RELEASE, OS, bundle).digest == before


def test_a_damaged_bundle_is_reported_and_repaired_by_another_build(bundle: Path) -> None:
    before = BundleDirectory(bundle).digest
    blob = max((bundle / "images/blobs/sha256").iterdir(), key=lambda path: path.stat().st_size)
    blob.unlink()
    with (bundle / "bin/kubeadm").open("r+b") as stream:
        stream.seek(1_000_000)
        stream.write(b"harm")
    (bundle / "bin/extra").write_bytes(b"x")
    done = appliance("verify", bundle)
    assert done.returncode == 5
    for words in ("bin/kubeadm: sha256", f"{blob.name}: missing", "bin/extra: is not in"):
        assert words in done.stderr
    assert build(RELEASE, OS, bundle).digest == before
    left = appliance("verify", "-o", "json", bundle)
    assert json.loads(left.stdout)["faults"] == ["bin/extra: is not in the manifest"]
    # What no build put there is somebody's: it is named, and left for them to take away.
    (bundle / "bin/extra").unlink()
    assert appliance("verify", bundle).returncode == 0


def test_a_build_that_is_killed_while_it_writes_goes_on(bundle: Path, tmp_path: Path) -> None:
    other = tmp_path / "bundle"
    arguments = ["build", "--release", RELEASE, "--os", OS, str(other)]
    child = subprocess.Popen(
        [sys.executable, "-m", "appliance", "bundle", *arguments],
        cwd=ROOT, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    deadline = time.monotonic() + 300
    while not (other / "images").is_dir() and time.monotonic() < deadline:
        time.sleep(0.005)
    os.killpg(child.pid, signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    assert (other / "images").is_dir()
    assert not (other / "manifest.json").exists()
    assert appliance("verify", other).returncode == 3
    assert appliance(*arguments).returncode == 0
    assert appliance("verify", other).returncode == 0
    assert manifest_of(other).images == manifest_of(bundle).images
    assert manifest_of(other).packages == manifest_of(bundle).packages


def test_what_is_built_says_its_version(bundle: Path) -> None:
    for program, words in {
        "kubeadm": ["version", "-o", "short"],
        "kubelet": ["--version"],
        "kubectl": ["version", "--client", "--short"],
        "helm": ["version", "--short"],
        "crane": ["version"],
        "age": ["--version"],
    }.items():
        done = subprocess.run(
            [bundle / "bin" / program, *words], capture_output=True, text=True, check=True
        )
        (item,) = [a for a in manifest_of(bundle).artifacts if a.name == program]
        assert item.version in done.stdout


def test_every_source_that_was_passed_over_is_named(bundle: Path) -> None:
    for item in manifest_of(bundle).artifacts:
        if item.source.kind == "go":
            assert item.source.skipped
        if item.source.kind == "compose" and item.name != "busybox":
            ((kind, ref, reason),) = item.source.skipped
            assert kind == "oci"
            assert ref
            assert reason
