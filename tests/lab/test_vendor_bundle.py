"""The vendor's bundle on a cluster: streamed, prepared, killed, finished, and Run:ai with it.

The tests of this file tell one story and run in its order, on the lab that was installed before;
what is refused is in ``test_runai_refusals.py``.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from appliance.lab.vendor.bundle import build_vendor_bundle
from tests.lab.conftest import LabSite, wait_for
from tests.lab.support.runai_site import RunaiSite, runai_site
from tests.lab.support.stillness import assert_still, scene
from tests.vendor_bundles import with_hole

# Run:ai is installed as a whole, and its bundle is streamed and prepared again and again.
pytestmark = [pytest.mark.lab, pytest.mark.slow]

FOLDER = "/var/lib/appliance/runai"
IMAGES = "/var/lib/docker-registry/docker/registry/v2/repositories/run-ai-prod"
JOB = "/var/lib/appliance/jobs/runai-prepare.spec.json"
UNIT = "systemctl is-active appliance-runai-prepare.service || true"
HOLE = 1_500_000_000


@dataclass(frozen=True)
class Story:
    """The lab by a site that asks for Run:ai, and a whole vendor bundle."""

    site: RunaiSite
    good: Path

    @property
    def lab(self) -> LabSite:
        return self.site.lab

    def says(self, bundle: Path) -> None:
        settings = self.site.settings()
        settings["runai"]["vendor_bundle"] = str(bundle)
        self.site.write(settings)

    def forget(self) -> None:
        """Nothing of a vendor bundle is on the node, nor in the registry."""
        self.lab.shell("cp1", f"rm -rf {FOLDER} {IMAGES}")

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
def story(installed_lab: LabSite, tmp_path_factory: pytest.TempPathFactory) -> Story:
    folder = tmp_path_factory.mktemp("vendor")
    site = runai_site(installed_lab, folder)
    good = build_vendor_bundle("2.7.1", folder)
    found = Story(site, good)
    found.forget()
    # What comes before the vendor's software: the story below is about that alone.
    done = site.lab.install("--until", "storage")
    assert done.returncode == 0, done.stderr
    return found


def test_a_stream_that_was_cut_off_goes_on_where_it_was(story: Story) -> None:
    path = with_hole(story.good, HOLE)
    story.says(path)
    running = story.start()
    wait_for("a part of the bundle", lambda: story.size_received() > 100_000_000, 300)
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    cut = story.size_received()
    assert 0 < cut < path.stat().st_size
    assert story.lab.shell("cp1", f"ls {FOLDER}") == "incoming\n"

    running = story.start()
    sizes: list[int] = []
    while running.poll() is None and sizes[-1:] != [0]:
        sizes.append(story.size_received())
    assert running.wait(timeout=900) == 0
    # It grew from what was there; it goes when it is unpacked.
    assert min(size for size in sizes if size) >= cut
    kept = json.loads(story.lab.shell("cp1", f"cat {FOLDER}/bundle.json"))
    assert kept["size"] == path.stat().st_size
    assert story.lab.shell("cp1", f"ls {FOLDER}/incoming") == ""
    assert int(story.lab.shell("cp1", f"stat -c %s {kept['path']}/deploy/hole")) == HOLE
    path.unlink()


def test_runai_is_installed_as_a_whole(story: Story) -> None:
    story.lab.settled()
    (last,) = (r for r in story.lab.records()[-2:] if r["step"] == "runai")
    assert last["outcome"] == "verified"
    log = "kubectl --kubeconfig /etc/kubernetes/admin.conf -n runai logs deployment/runai-agent"
    assert f"connected to https://{story.site.domain}" in story.lab.shell("cp1", log)


def test_the_script_goes_on_when_the_control_process_is_killed(story: Story) -> None:
    story.forget()
    story.says(story.good)
    running = story.start()
    wait_for("the script", lambda: story.lab.shell("cp1", UNIT) == "active\n", 300)
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    assert story.lab.shell("cp1", UNIT) == "active\n", "it outlives who asked for it"
    first = json.loads(story.lab.shell("cp1", f"cat {JOB}"))["run_id"]
    done = story.lab.install()
    assert done.returncode == 0, done.stderr
    assert json.loads(story.lab.shell("cp1", f"cat {JOB}"))["run_id"] == first, "waited for, once"
    story.lab.settled()


def test_a_script_that_was_killed_itself_is_run_again(story: Story) -> None:
    story.forget()
    running = story.start()
    wait_for("the script", lambda: story.lab.shell("cp1", UNIT) == "active\n", 300)
    story.lab.shell("cp1", "systemctl kill --signal=KILL appliance-runai-prepare.service")
    assert running.wait(timeout=300) == 1
    assert "has not completed" in json.dumps(story.lab.status()["unmet"])
    assert story.lab.install().returncode == 0


def test_a_deleted_image_is_pushed_again(story: Story) -> None:
    story.lab.shell("cp1", f"rm -r {IMAGES}/agent-standin")
    assert "gcr.io/run-ai-prod/agent-standin:2.7.1" in json.dumps(story.lab.status()["unmet"])
    assert story.lab.install().returncode == 0


def test_a_second_run_has_nothing_to_do_even_without_the_tar(story: Story) -> None:
    story.good.unlink()
    before = scene(story.lab)
    done = story.lab.install()
    assert done.returncode == 0
    assert "nothing to do" in done.stderr + done.stdout
    assert_still(before, scene(story.lab))
