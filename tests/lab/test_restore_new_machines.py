"""Every machine of a site burns: from the backup file and its key, a cluster runs on new ones.

The control host keeps nothing but its SSH key, the bundle and the password of the vault.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from appliance.lab.site.site import KEY
from tests.commands import appliance, succeed
from tests.lab.conftest import LabSite, lab_up, wait_for
from tests.lab.support import faults
from tests.lab.support.backed_up import backed_up, put_work
from tests.lab.support.cluster import kubectl
from tests.lab.support.runbook import Runbook

pytestmark = [pytest.mark.lab, pytest.mark.slow]

PAGE, BACK_UP = Runbook("recover-the-cluster"), Runbook("back-up-the-appliance")
REPOSITORIES = "/var/lib/docker-registry/docker/registry/v2/repositories"
FILE = "rack7-20260301T020000Z.backup"  # in the page
SECONDS = 2400
PASSWORD = Path(".appliance", "vault-password")


@dataclass
class Burnt:
    """What is left of a lab: a backup, its key, and where the site is to be written."""

    lab: LabSite
    file: Path
    key: Path
    again: Path
    password: Path

    def values(self) -> dict[str, str]:
        """What the page's names are here."""
        files = {FILE: str(self.file), "rack7.key": str(self.key)}
        return {**files, "/media/bundle": str(self.lab.bundle), "rack7": str(self.again)}

    def words(self) -> list[str]:
        """The command that writes the site."""
        page = f"appliance cluster restore {FILE} --identity rack7.key --new-machines --site rack7"
        return PAGE.words(page, self.values())

    def forecast(self) -> list[str]:
        """What the command for the machines would do; the page has the site in a variable."""
        page = (
            f"appliance cluster restore {FILE} --identity rack7.key --new-machines "
            "--accept-host-keys --bundle /media/bundle --dry-run"
        )
        return [*PAGE.words(page, self.values()), "--site", str(self.again)]

    def machines(self) -> list[str]:
        """The command for the machines, which needs the bundle."""
        page = (
            f"appliance cluster restore {FILE} --identity rack7.key --new-machines "
            "--accept-host-keys --bundle /media/bundle"
        )
        words = [*PAGE.words(page, self.values()), "--site", str(self.again), "--yes"]
        for short in ("cp1", "w1"):
            listed = "for one in /etc/ssh/ssh_host_*_key.pub; do ssh-keygen -lf $one; done"
            # As their consoles show them.
            for key in re.findall(r"SHA256:\S+", self.lab.shell(short, listed)):
                words += ["--expect-host-key", key]
        return words


@pytest.fixture(scope="module")
def burnt(tmp_path_factory: pytest.TempPathFactory, bundle_directory: Path) -> Iterator[Burnt]:
    """An installed lab with work in it, a backup, and then other machines in its place."""
    folder = tmp_path_factory.mktemp("burnt")
    words = ("--workers", "1", "--bundle", str(bundle_directory))
    with lab_up("burnt", folder, *words) as site:
        lab = LabSite(site.name, site, bundle_directory)
        done = lab.install(timeout=SECONDS)
        assert done.returncode == 0, done.stderr
        put_work(lab)
        lab.settled(300)
        file, key = backed_up(lab, folder, SECONDS)
        file = _with_images(lab, file)
        kubectl(lab, "create namespace after-the-backup")
        _forget(site)
        for short in ("cp1", "w1"):
            node = lab.node(short)
            faults.wipe(site, node, serial=f"STANDIN-another-{short}")
        (site / "known_hosts").unlink()
        again = folder / "again" / site.name
        left = LabSite(site.name, again, bundle_directory)
        yield Burnt(left, file, key, again, site / PASSWORD)


def _with_images(lab: LabSite, other: Path) -> Path:
    """Another backup in the same place, with the images of the registry."""
    values = {"SITE": str(lab.directory)}
    dry = "appliance cluster backup create --images --dry-run --site SITE"
    assert "images of the registry" in succeed(*BACK_UP.words(dry, values)).stdout
    words = BACK_UP.words("appliance cluster backup create --images --site SITE", values)
    succeed(*words, "--yes", timeout=SECONDS)
    listed = succeed("cluster", "backup", "list", "--site", str(lab.directory)).stdout
    assert "with images" in listed
    (file,) = set(other.parent.glob("*.backup")) - {other}
    return file


def _forget(site: Path) -> None:
    """The control host is new, too: of the site it has the SSH key and the vault's password."""
    kept = {site / KEY, site / f"{KEY}.pub", site / PASSWORD}
    for path in sorted(site.rglob("*"), reverse=True):
        if path.is_file() and path not in kept:
            path.unlink()
    shutil.rmtree(site / "group_vars")


def _killed_after(words: list[str], seconds: float) -> None:
    argv = [sys.executable, "-m", "appliance", *words]
    process = subprocess.Popen(
        argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    time.sleep(seconds)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(30)


def test_the_site_comes_out_of_the_backup(burnt: Burnt) -> None:
    done = succeed(*burnt.words(), "--output", "json")
    told: dict[str, Any] = json.loads(done.stdout)
    assert told["written"]
    assert told["faults"] == []
    assert (burnt.again / "known_hosts").read_text() == ""
    assert (burnt.again / "known_hosts.old").read_text() != ""
    shutil.copy(burnt.password, burnt.again / PASSWORD)
    succeed(*PAGE.words("appliance site check --site rack7", burnt.values()))


def test_machines_that_are_not_new_are_refused(burnt: Burnt) -> None:
    burnt.lab.shell("w1", "mkdir -p /etc/kubernetes && touch /etc/kubernetes/kubelet.conf")
    done = appliance(*burnt.machines(), timeout=SECONDS)
    assert done.returncode == 3, done.stderr
    assert "the machine is not new" in done.stderr
    burnt.lab.shell("w1", "rm /etc/kubernetes/kubelet.conf")


def test_killed_at_random_moments_the_same_command_brings_the_cluster_back(burnt: Burnt) -> None:
    chance = random.Random(18)  # noqa: S311 - moments, no secret
    succeed(*burnt.forecast(), timeout=SECONDS)
    for _ in range(2):
        _killed_after(burnt.machines(), chance.uniform(20, 160))
    began = time.monotonic()
    done = succeed(*burnt.machines(), "--output", "json", timeout=SECONDS)
    print(f"restore onto new machines: {time.monotonic() - began:.0f} s")  # noqa: T201 - for the log
    told: dict[str, Any] = json.loads(done.stdout)
    assert told["done"]
    print(f"changed kinds: {told['changed_kinds']}")  # noqa: T201 - for the log
    assert {"configmaps", "deployments.apps", "services"} <= set(told["same_kinds"])
    assert "nodes" in told["not_carried"]
    assert told["restored"]["compared"]


def test_what_was_in_the_cluster_is_there_and_runs(burnt: Burnt) -> None:
    lab = burnt.lab
    found = kubectl(lab, "get namespaces -o jsonpath={.items[*].metadata.name}").split()
    assert "research" in found
    assert "after-the-backup" not in found
    notes = kubectl(lab, "-n research get configmap notes -o jsonpath={.data.history}")
    assert notes == "three jobs"
    ready = "-n research get deployment web -o jsonpath={.status.readyReplicas}"
    wait_for("the deployment runs", lambda: kubectl(lab, ready) == "1", 300)
    for short in ("cp1", "w1"):
        serial = "{.metadata.annotations.appliance\\.dev/dmi-serial}"
        node = kubectl(lab, f"get node {lab.node(short)} -o jsonpath='{serial}'")
        assert node == f"STANDIN-another-{short}"


def test_the_install_finds_its_cluster_and_ends_it(burnt: Burnt) -> None:
    words = PAGE.words("appliance install --site rack7", burnt.values())
    done = appliance(*words, "--yes", timeout=SECONDS)
    assert done.returncode == 0, done.stderr
    burnt.lab.settled(300)
    succeed(*PAGE.words("appliance status --site rack7", burnt.values()))
    steps = [one for one in burnt.lab.records() if one["command"] == "cluster restore"]
    assert any("what was changed since is lost" in why for one in steps for why in one["why"])


def test_a_registry_that_lost_an_image_gets_it_back(burnt: Burnt) -> None:
    own = ["--site", str(burnt.again)]
    burnt.lab.shell("cp1", f"rm -r {REPOSITORIES}/busybox")
    dry = f"appliance cluster restore {FILE} --identity rack7.key --only images --dry-run"
    assert "brings back 1," in succeed(*PAGE.words(dry, burnt.values()), *own).stdout
    page = f"appliance cluster restore {FILE} --identity rack7.key --only images"
    words = [*PAGE.words(page, burnt.values()), *own, "--yes", "--output", "json"]
    told: dict[str, Any] = json.loads(succeed(*words, timeout=SECONDS).stdout)
    assert [name.partition(":")[0] for name in told["pushed"]] == ["busybox"]
    again: dict[str, Any] = json.loads(succeed(*words, timeout=SECONDS).stdout)
    assert (again["lacking"], again["done"]) == ([], True)


def test_a_second_run_is_refused(burnt: Burnt) -> None:
    done = appliance(*burnt.machines(), timeout=SECONDS)
    assert done.returncode == 3, done.stderr
    assert "were restored from it already" in done.stderr
