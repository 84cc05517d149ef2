"""The backup of a site is restored into a lab like it, and nothing of it is left afterwards.

The site is a lab of its own, which is taken down first: its nodes' names are needed again.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from appliance.lab.rehearsal.opened import NOTES
from tests.commands import appliance, succeed
from tests.lab.conftest import LabSite, lab_up, wait_for
from tests.lab.support.backed_up import backed_up, put_work
from tests.lab.support.cluster import kubectl
from tests.lab.support.runbook import Runbook
from tests.this_run import OS, lab_name

pytestmark = [pytest.mark.lab, pytest.mark.slow]

PAGE = Runbook("rehearse-a-restore")
FILE = "rack7-20260301T020000Z.backup"  # in the page
SECONDS = 2400
# Where podman and the labs keep what they have, and where programs put what they need for a while.
PLACES = ("/var/lib/containers", "/var/lib/appliance-lab", "/run/appliance-lab")
# A secret of the site, and the line of the private key that only its CA has.
CANARY = "canary-of-the-rack-0c41"
SECRET = f"""---
apiVersion: v1
kind: Secret
metadata: {{name: token, namespace: research}}
stringData: {{token: {CANARY}}}
"""


@dataclass
class Rehearsed:
    """What the operator brings, and the lab."""

    site: LabSite
    file: Path
    key: Path
    address: str
    authority: str
    lab: LabSite

    def values(self) -> dict[str, str]:
        """What the page's names are here."""
        files = {FILE: str(self.file), "rack7.key": str(self.key)}
        lab = {"LAB": str(self.lab.directory), "like-rack7": self.lab.directory.name}
        return {**files, **lab, "SITE": str(self.site.directory), "DIR": str(self.site.bundle)}

    def restore(self, *, dry_run: bool = False) -> list[str]:
        """The words of the command."""
        if dry_run:
            return PAGE.words(
                "appliance cluster restore rack7-20260301T020000Z.backup --identity rack7.key "
                "--new-machines --bundle DIR --site LAB --dry-run",
                self.values(),
            )
        page = (
            "appliance cluster restore rack7-20260301T020000Z.backup --identity rack7.key "
            "--new-machines --bundle DIR --site LAB"
        )
        return [*PAGE.words(page, self.values()), "--yes"]


@pytest.fixture(scope="module")
def rehearsed(
    tmp_path_factory: pytest.TempPathFactory, bundle_directory: Path
) -> Iterator[Rehearsed]:
    """A site with work in it that is gone, its backup, and a bare lab like it."""
    folder = tmp_path_factory.mktemp("rack")
    with lab_up("rack", folder, "--workers", "1") as directory:
        site = LabSite(directory.name, directory, bundle_directory)
        done = site.install(timeout=SECONDS)
        # A machine with other work may be too slow once; what is tried here comes later.
        done = site.install(timeout=SECONDS) if done.returncode else done
        assert done.returncode == 0, done.stderr
        put_work(site, SECRET)
        site.settled(300)
        file, key = backed_up(site, folder, SECONDS)
        site.status()
        address = site.address("cp1")
        authority = site.shell("cp1", "sed -n 2p /etc/kubernetes/pki/ca.key").strip()
    like = tmp_path_factory.mktemp("like") / lab_name("like")
    # Its nodes are named as those of the site.
    lab = LabSite(site.name, like, bundle_directory)
    found = Rehearsed(site, file, key, address, authority, lab)
    try:
        page = "appliance lab up --like SITE --bare --bundle DIR --site LAB"
        words = PAGE.words(page, found.values())
        succeed(*words, "--name", like.name, "--os", OS, "--yes", timeout=SECONDS)
        yield found
    finally:
        succeed("lab", "down", "--name", like.name, "--yes")


def _found(rehearsed: Rehearsed, word: str) -> list[str]:
    """Files of this machine that were written since the backup was made, and have the word."""
    places = [*PLACES, tempfile.gettempdir()]
    since = ["-newer", str(rehearsed.key), "-type", "f", "-size", "-64M"]
    search = ["-exec", "grep", "-lsF", "-e", word, "{}", "+"]
    done = subprocess.run(
        ["find", *(place for place in places if Path(place).exists()), "-xdev", *since, *search],
        capture_output=True, text=True, timeout=1200, check=False,
    )  # fmt: skip
    return done.stdout.splitlines()


def test_the_forecast_says_what_is_rehearsed_and_changes_nothing(rehearsed: Rehearsed) -> None:
    done = succeed(*rehearsed.restore(dry_run=True), timeout=SECONDS)
    assert f"rehearses the restore of {rehearsed.site.name} in a lab" in done.stdout
    assert "would be refused" not in done.stdout
    assert not (NOTES / rehearsed.lab.directory.name).exists()


def test_the_backup_comes_back_in_the_lab(rehearsed: Rehearsed) -> None:
    began = time.monotonic()
    done = succeed(*rehearsed.restore(), "--output", "json", timeout=SECONDS)
    print(f"rehearsed restore: {time.monotonic() - began:.0f} s")  # noqa: T201 - for the log
    told: dict[str, Any] = json.loads(done.stdout)
    assert told["done"]
    assert told["rehearses"] == rehearsed.site.name
    print(f"changed kinds: {told['changed_kinds']}")  # noqa: T201 - for the log
    assert {"configmaps", "secrets", "deployments.apps"} <= set(told["same_kinds"])
    assert told["restored"]["compared"]
    assert rehearsed.lab.address("cp1") != rehearsed.address
    why = [line for one in rehearsed.lab.records() for line in one["why"]]
    assert any(f"the restore of {rehearsed.site.name} took" in line for line in why)


def test_what_was_in_the_cluster_is_there_and_runs(rehearsed: Rehearsed) -> None:
    lab = rehearsed.lab
    notes = kubectl(lab, "-n research get configmap notes -o jsonpath={.data.history}")
    assert notes == "three jobs"
    ready = "-n research get deployment web -o jsonpath={.status.readyReplicas}"
    wait_for("the deployment runs", lambda: kubectl(lab, ready) == "1", 300)
    for short in ("cp1", "w1"):
        told = "{.status.addresses[?(@.type=='InternalIP')].address}"
        found = kubectl(lab, f'get node {lab.node(short)} -o jsonpath="{told}"')
        assert found == lab.address(short)
    own = kubectl(lab, "-n kube-system get configmap kube-proxy kubeadm-config -o yaml")
    assert f"api.{lab.directory.name}.test" in own
    assert rehearsed.address not in own


def test_nothing_of_it_reaches_out(rehearsed: Rehearsed) -> None:
    """Not from a node, and not from a pod: neither the rack nor another machine."""
    lab = rehearsed.lab
    for address in (rehearsed.address, "192.0.2.1"):
        assert lab.shell("w1", f"timeout 5 bash -c '</dev/tcp/{address}/6443' || echo no") == "no\n"
        ask = f"timeout 5 nc -w 3 {address} 6443 </dev/null || echo no"
        pod = f'-n research exec deployment/web -- sh -c "{ask}"'
        assert kubectl(lab, pod).splitlines()[-1] == "no"


def test_a_second_run_is_refused(rehearsed: Rehearsed) -> None:
    done = appliance(*rehearsed.restore(), timeout=SECONDS)
    assert done.returncode == 3, done.stderr
    assert "were restored from it already" in done.stderr


def test_the_lab_goes_and_leaves_nothing_of_the_backup(rehearsed: Rehearsed) -> None:
    like = rehearsed.lab.directory
    # The search finds what is there, and the install gave the operator a kubeconfig.
    assert _found(rehearsed, rehearsed.authority) != []
    assert (like / ".appliance" / "kubeconfig").is_file()
    assert (NOTES / like.name).read_text().strip() == str(like)
    down = PAGE.words("appliance lab down --name like-rack7", rehearsed.values())
    done = succeed(*down, "--yes")
    assert f"destroyed: {like}/.appliance/kubeconfig" in done.stderr
    assert not (NOTES / like.name).exists()
    assert _found(rehearsed, CANARY) == []
    assert _found(rehearsed, rehearsed.authority) == []
