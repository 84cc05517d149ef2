"""A cluster whose etcd is lost comes back by one command, from a backup or from one node.

``APPLIANCE_TEST_TRIO=DIR`` uses the installed lab of that site, and leaves it with one member.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.commands import appliance, succeed
from tests.lab.conftest import LabSite
from tests.lab.support import faults
from tests.lab.support.backed_up import backed_up
from tests.lab.support.cluster import KUBECTL
from tests.lab.support.runbook import Runbook
from tests.lab.support.trio import installed_trio

pytestmark = [pytest.mark.lab, pytest.mark.slow]

PAGE = Runbook("recover-the-cluster")
FILE = "rack7-20260301T020000Z.backup"  # in the page
CONTROL_PLANES = ("cp1", "cp2", "cp3")
SECONDS = 1200


@dataclass(frozen=True)
class Saved:
    """A lab with a backup of it, and the key that opens it."""

    lab: LabSite
    file: Path
    key: Path

    def values(self) -> dict[str, str]:
        """What the page's names are here."""
        nodes = {name: self.lab.node(name) for name in CONTROL_PLANES}
        return {FILE: str(self.file), "rack7.key": str(self.key), **nodes}

    def site(self) -> tuple[str, ...]:
        """Where the page has the site in the environment, and a person who says yes."""
        return ("--site", str(self.lab.directory), "--yes")

    def words(self) -> tuple[str, ...]:
        """The command that restores it."""
        page = f"appliance cluster restore {FILE} --identity rack7.key"
        return (*PAGE.words(page, self.values()), *self.site())


@pytest.fixture(scope="module")
def trio(tmp_path_factory: pytest.TempPathFactory, bundle_directory: Path) -> Iterator[LabSite]:
    """An installed lab of its own."""
    with installed_trio("lost", tmp_path_factory.mktemp("lost"), bundle_directory) as found:
        yield found


@pytest.fixture(scope="module")
def saved(trio: LabSite, tmp_path_factory: pytest.TempPathFactory) -> Saved:
    """A backup of the lab, with an object of ours in it."""
    folder = tmp_path_factory.mktemp("backups")
    trio.shell("cp1", f"{KUBECTL} create namespace before-the-backup")
    file, key = backed_up(trio, folder, SECONDS)
    return Saved(trio, file, key)


def destroy(lab: LabSite, *names: str) -> None:
    """The data of etcd is gone, and etcd with it."""
    for name in names:
        lab.shell(name, "rm -rf /var/lib/etcd/member; pkill -9 -x etcd || true")


def stop(lab: LabSite, *names: str) -> None:
    """The machines are off."""
    for name in names:
        subprocess.run(["podman", "stop", "--time", "5", lab.node(name)], check=True, timeout=120)


def namespaces(lab: LabSite) -> set[str]:
    """The names of all namespaces."""
    listed = lab.shell("cp1", f"{KUBECTL} get namespaces -o jsonpath={{.items[*].metadata.name}}")
    return set(listed.split())


def test_a_living_cluster_is_refused(saved: Saved) -> None:
    done = appliance(*saved.words())
    assert done.returncode == 3, done.stderr
    assert "a living cluster is not overwritten" in done.stderr
    assert "before-the-backup" in namespaces(saved.lab)


def test_a_flipped_byte_is_refused(saved: Saved, tmp_path: Path) -> None:
    content = bytearray(saved.file.read_bytes())
    content[len(content) // 2] ^= 1
    broken = tmp_path / saved.file.name
    broken.write_bytes(content)
    beside = saved.file.with_name(f"{saved.file.name}.json")
    (tmp_path / beside.name).write_bytes(beside.read_bytes())
    words = list(saved.words())
    words[2] = str(broken)
    done = appliance(*words)
    assert done.returncode == 5, done.stderr
    assert "sha256" in done.stderr


def test_all_data_of_etcd_is_destroyed_and_every_key_comes_back(saved: Saved) -> None:
    lab = saved.lab
    lab.shell("cp1", f"{KUBECTL} create namespace after-the-backup")
    destroy(lab, *CONTROL_PLANES)
    page = f"appliance cluster restore {FILE} --identity rack7.key --dry-run"
    forecast = succeed(*PAGE.words(page, saved.values()), "--site", str(lab.directory))
    assert "recovery point" in forecast.stdout
    began = time.monotonic()
    done = succeed(*saved.words(), "--output", "json", timeout=SECONDS)
    took = time.monotonic() - began
    told = json.loads(done.stdout)
    print(f"restore of etcd on three control planes: {took:.1f} s")  # noqa: T201 - for the log
    assert told["done"]
    assert told["compared"], "every key was compared with the backup's"
    assert told["recovery_point"]
    assert {"before-the-backup"} <= namespaces(lab)
    assert "after-the-backup" not in namespaces(lab)
    lab.settled(600)
    steps = [one for one in lab.records() if one["command"] == "cluster restore"]
    assert any(told["recovery_point"] in why for one in steps for why in one["why"])


def test_the_old_data_is_kept_and_the_plain_snapshot_is_not(saved: Saved) -> None:
    """The first node had started again as a new and empty etcd: that is what it keeps."""
    kept = saved.lab.shell("cp1", "ls -d /var/lib/etcd/before-* /var/lib/etcd.before-* || true")
    assert saved.file.name.removesuffix(".backup") in kept
    for name in CONTROL_PLANES:
        left = saved.lab.shell(name, "find /var/lib/appliance/restore -name 'snapshot*'")
        assert left == ""


def test_killed_at_random_moments_the_same_command_ends_it(saved: Saved) -> None:
    lab = saved.lab
    chance = random.Random(18)  # noqa: S311 - moments, no secret
    destroy(lab, *CONTROL_PLANES)
    for _ in range(5):
        words = [sys.executable, "-m", "appliance", *saved.words()]
        process = subprocess.Popen(
            words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        time.sleep(chance.uniform(3, 60))
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)
    done = appliance(*saved.words(), timeout=SECONDS)
    # The last one may have been killed after its end: then the cluster lives.
    assert done.returncode == 0 or "a living cluster is not overwritten" in done.stderr
    lab.settled(600)
    assert "before-the-backup" in namespaces(lab)


def test_a_node_that_is_lost_as_a_whole_is_left_out_and_rejoins(saved: Saved) -> None:
    lab, bundle = saved.lab, ("--bundle", str(saved.lab.bundle))
    stop(lab, "cp3")
    destroy(lab, "cp1", "cp2")
    page = f"appliance cluster restore {FILE} --identity rack7.key --without cp3"
    succeed(*PAGE.words(page, saved.values()), *saved.site(), timeout=SECONDS)
    assert "before-the-backup" in namespaces(lab)
    assert lab.node("cp3") in succeed("status", "--site", str(lab.directory)).stdout
    faults.wipe(lab.directory, lab.node("cp3"))
    words = PAGE.words("appliance node rejoin cp3 --accept-host-keys", saved.values())
    succeed(*words, *saved.site(), *bundle, timeout=SECONDS)
    lab.settled(600)


def test_one_node_of_three_is_left_and_the_others_rejoin(saved: Saved) -> None:
    lab, values = saved.lab, saved.values()
    lab.shell("cp1", f"{KUBECTL} create namespace newest")
    stop(lab, "cp2", "cp3")
    words = PAGE.words("appliance cluster restore --survivor cp1", values)
    succeed(*words, *saved.site(), timeout=SECONDS)
    assert "newest" in namespaces(lab)
    for name in ("cp2", "cp3"):
        faults.wipe(lab.directory, lab.node(name))
    # Each is refused while the other is an empty machine that the cluster still lists.
    words = PAGE.words("appliance node remove cp3 --i-know-it-is-dead", values)
    succeed(*words, *saved.site(), timeout=SECONDS)
    for words in (
        PAGE.words("appliance node rejoin cp2 --accept-host-keys", values),
        PAGE.words("appliance node rejoin cp3 --accept-host-keys", values),
    ):
        succeed(*words, *saved.site(), "--bundle", str(lab.bundle), timeout=SECONDS)
    lab.settled(600)
    assert "newest" in namespaces(lab)
