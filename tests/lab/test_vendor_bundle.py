"""The vendor's bundle on a cluster: refused when it is wrong, streamed, prepared, killed, finished.

The tests of this file tell one story and run in its order, on the lab that was installed before.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from appliance.adapters.lab_vendor_bundle import build_vendor_bundle
from tests.lab.conftest import LabSite, wait_for
from tests.lab.stillness import Scene, assert_still, scene
from tests.vendor_bundles import with_hole, with_member, without

# Slow, and open: its site has neither a system node nor DNS, which an install with Run:ai now
# refuses beside the bundle's own faults. It must get both, and then installs Run:ai as a whole.
pytestmark = [pytest.mark.lab, pytest.mark.slow]

FOLDER = "/var/lib/appliance/runai"
IMAGES = "/var/lib/docker-registry/docker/registry/v2/repositories/run-ai-prod"
JOB = "/var/lib/appliance/jobs/runai-prepare.spec.json"
HOLE = 1_500_000_000


@dataclass
class Story:
    """The lab, its vendor bundles, and what its site says of them."""

    lab: LabSite
    folder: Path
    good: Path

    def says(self, bundle: Path, **more: Any) -> None:
        path = self.lab.directory / "group_vars/all/site.yml"
        settings = yaml.safe_load(path.read_text())
        settings["runai"] = {"vendor_bundle": str(bundle), "minimum_free_gb": 1, **more}
        path.write_text(yaml.safe_dump(settings))

    def size_received(self) -> int:
        seen = self.lab.shell(
            "cp1", f"stat -c %s {FOLDER}/incoming/*.tar 2>/dev/null || true", check=False
        )
        return int(seen or 0)

    def start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "appliance", *self.lab.install_words()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )


@pytest.fixture(scope="module")
def story(installed_lab: LabSite, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    site = installed_lab.directory / "group_vars/all/site.yml"
    before = site.read_text()
    installed_lab.shell("cp1", f"rm -rf {FOLDER} {IMAGES}")
    folder = tmp_path_factory.mktemp("vendor")
    yield Story(installed_lab, folder, build_vendor_bundle("2.7.1", folder))
    site.write_text(before)


@pytest.fixture(scope="module")
def before(story: Story) -> Scene:
    return scene(story.lab)


def refused(story: Story, before: Scene, *words: str) -> None:
    done = story.lab.install()
    assert done.returncode == 3, done.stdout + done.stderr
    for word in words:
        assert word in done.stderr
    assert len(done.stderr.strip().splitlines()) <= 4, done.stderr
    assert_still(before, scene(story.lab))


def test_a_truncated_bundle_is_refused(story: Story, before: Scene) -> None:
    path = story.folder / "runai-2.7.0.tar"
    path.write_bytes(story.good.read_bytes()[:9_000_000])
    story.says(path)
    refused(story, before, "runai-2.7.0.tar: it ends in the middle: it is truncated")


def test_a_bundle_for_a_later_kubernetes_is_refused_with_the_range(
    story: Story, before: Scene
) -> None:
    story.says(build_vendor_bundle("2.17.3", story.folder))
    refused(story, before, "Kubernetes 1.23.5 runs Run:ai 2.4 to 2.10, not 2.17.3")


def test_a_bundle_without_a_chart_is_refused(story: Story, before: Scene) -> None:
    story.says(without(story.good, "runai-cluster-2.7.1.tgz"))
    refused(story, before, "it lacks the cluster's chart")


def test_a_bundle_that_writes_elsewhere_is_refused(story: Story, before: Scene) -> None:
    story.says(with_member(story.good, tarfile.TarInfo("../../etc/cron.d/evil")))
    refused(story, before, "would be written outside the folder")


def test_too_little_space_is_refused_before_the_first_byte(story: Story, before: Scene) -> None:
    """The threshold is the site's: the lab's disk is larger than 20 GB."""
    story.says(story.good, minimum_free_gb=90_000)
    refused(story, before, "GB free on", "90000.0 GB for runai-2.7.1.tar", "minimum_free_gb")


def test_a_bundle_that_is_not_there_is_refused(story: Story, before: Scene) -> None:
    story.says(story.folder / "nowhere.tar")
    refused(story, before, "no vendor bundle", "correct runai.vendor_bundle")


def test_a_stream_that_was_cut_off_goes_on_where_it_was(story: Story) -> None:
    path = with_hole(story.good, HOLE)
    story.says(path)
    running = story.start()
    wait_for("a part of the bundle", lambda: story.size_received() > 100_000_000, 120)
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    cut = story.size_received()
    assert 0 < cut < path.stat().st_size
    assert story.lab.shell("cp1", f"ls {FOLDER}") == "incoming\n"

    running = story.start()
    sizes: list[int] = []
    while running.poll() is None and sizes[-1:] != [0]:
        sizes.append(story.size_received())
    assert running.wait(timeout=600) == 0
    # It grew from what was there; it goes when it is unpacked.
    assert min(size for size in sizes if size) >= cut
    kept = json.loads(story.lab.shell("cp1", f"cat {FOLDER}/bundle.json"))
    assert kept["size"] == path.stat().st_size
    assert story.lab.shell("cp1", f"ls {FOLDER}/incoming") == ""
    assert int(story.lab.shell("cp1", f"stat -c %s {kept['path']}/deploy/hole")) == HOLE


def test_the_script_goes_on_when_the_control_process_is_killed(story: Story) -> None:
    story.lab.shell("cp1", f"rm -rf {FOLDER} {IMAGES}")
    story.says(story.good)
    running = story.start()
    unit = "systemctl is-active appliance-runai-prepare.service || true"
    wait_for("the script", lambda: story.lab.shell("cp1", unit) == "active\n", 180)
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    assert story.lab.shell("cp1", unit) == "active\n", "it outlives who asked for it"
    first = json.loads(story.lab.shell("cp1", f"cat {JOB}"))["run_id"]
    done = story.lab.install()
    assert done.returncode == 0, done.stderr
    assert json.loads(story.lab.shell("cp1", f"cat {JOB}"))["run_id"] == first, "waited for, once"
    assert story.lab.status()["unmet"] == []


def test_a_script_that_was_killed_itself_is_run_again(story: Story) -> None:
    story.lab.shell("cp1", f"rm -rf {FOLDER} {IMAGES}")
    running = story.start()
    unit = "appliance-runai-prepare.service"
    active = f"systemctl is-active {unit} || true"
    wait_for("the script", lambda: story.lab.shell("cp1", active) == "active\n", 180)
    story.lab.shell("cp1", f"systemctl kill --signal=KILL {unit}")
    assert running.wait(timeout=120) == 1
    assert "has not run to its end" in json.dumps(story.lab.status()["unmet"])
    assert story.lab.install().returncode == 0


def test_an_image_that_somebody_deleted_is_pushed_again(story: Story) -> None:
    story.lab.shell("cp1", f"rm -r {IMAGES}/agent-standin")
    assert "gcr.io/run-ai-prod/agent-standin:2.7.1" in json.dumps(story.lab.status()["unmet"])
    assert story.lab.install().returncode == 0


def test_a_second_run_has_nothing_to_do_even_without_the_tar(story: Story) -> None:
    story.good.unlink()
    done = story.lab.install()
    assert done.returncode == 0
    assert "nothing to do" in done.stderr + done.stdout
