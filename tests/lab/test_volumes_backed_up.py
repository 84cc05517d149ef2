"""The data of a claim is saved while a pod has it, damaged, and restored; killed at any moment."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.commands import appliance, succeed
from tests.lab.conftest import LabSite, lab_up, wait_for
from tests.lab.support.cluster import KUBECTL, busybox
from tests.lab.support.runbook import Runbook
from tests.lab.support.storage_site import write_storage

pytestmark = [pytest.mark.lab, pytest.mark.slow]

RANDOM = random.SystemRandom()
KILLS = 4
CLAIM, POD = "research", "writer"
BACK_UP, RECOVER = Runbook("back-up-the-appliance"), Runbook("recover-the-cluster")
# As a listing of the folder: owners, modes, links, sizes and sums.
LISTING = (
    "cd {folder} && find . -printf '%P %y %m %U:%G %n %l\\n' | sort && "
    "find . -type f -exec sha256sum {{}} + | sort"
)
# By the pod, over NFS; what the lab's client cannot make is added on the server.
DATA = """
set -e; cd /data; mkdir -p models/v1; echo weights >models/v1/weights
dd if=/dev/urandom of=noise bs=2048 count=200 2>/dev/null; sync; echo yes >done
"""
ON_THE_SERVER = (
    "cd {folder}/models && ln -s v1 latest && ln v1/weights again && mkfifo pipe && "
    "chmod 4750 again && truncate -s 50M ../sparse && chown 1001:1002 v1"
)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, standins_bundle: Path) -> Iterator[LabSite]:
    """One control plane, which serves the storage, and one worker; with a place for backups."""
    with lab_up("saved", tmp_path_factory.mktemp("saved"), "--workers", "1") as site:
        found = LabSite(site.name, site, standins_bundle)
        write_storage(found)
        folder = found.directory.parent
        (folder / "place").mkdir()
        key = succeed("cluster", "backup", "key", str(folder / "key.txt")).stdout.splitlines()[0]
        settings = found.directory / "group_vars/all/site.yml"
        section = {"backup": {"recipients": [key], "to": str(folder / "place")}}
        settings.write_text(settings.read_text() + yaml.safe_dump(section))
        done = found.install()
        assert done.returncode == 0, done.stderr
        yield found


@pytest.fixture(scope="module")
def folder(lab: LabSite) -> str:
    """The folder of a claim in the export, with data that a pod wrote."""
    claim: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": CLAIM},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "resources": {"requests": {"storage": "200Gi"}},
        },
    }
    _apply(lab, claim, _pod(lab))
    ready = f"{KUBECTL} wait --for=condition=Ready pod/{POD} --timeout=180s"
    lab.shell("cp1", ready)
    found = lab.shell("cp1", f"ls -d /srv/runai/default-{CLAIM}-pvc-*").strip()
    wait_for("the data", lambda: lab.shell("cp1", f"ls {found}/done || :") != "")
    lab.shell("cp1", ON_THE_SERVER.format(folder=found))
    return found


def _pod(lab: LabSite) -> dict[str, Any]:
    container = {
        "name": POD,
        "image": busybox(lab),
        "command": ["/bin/busybox", "sh", "-c", f"{DATA}\nsleep 36000"],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    spec = {
        "terminationGracePeriodSeconds": 0,
        "restartPolicy": "Never",
        "containers": [container],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": CLAIM}}],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": POD}, "spec": spec}


def _apply(lab: LabSite, *objects: dict[str, Any]) -> None:
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    lab.shell("cp1", f"cat <<'END' | {KUBECTL} apply -f -\n{listed}\nEND")


def _listing(lab: LabSite, folder: str) -> str:
    return lab.shell("cp1", LISTING.format(folder=folder))


def _damage(lab: LabSite, folder: str) -> None:
    lab.shell("cp1", f"cd {folder}; rm -r models; echo other > noise; echo new > newer")


def _values(lab: LabSite, file: Path | None = None) -> dict[str, str]:
    return {
        "SITE": str(lab.directory),
        "team-a/datasets": f"default/{CLAIM}",
        "rack7-20260301T020000Z.backup": str(file),
        "rack7.key": str(lab.directory.parent / "key.txt"),
    }


def _words(lab: LabSite, file: Path, *more: str) -> tuple[str, ...]:
    command = (
        "appliance cluster restore rack7-20260301T020000Z.backup --identity rack7.key "
        "--only volumes --volume team-a/datasets"
    )
    given = RECOVER.words(command, _values(lab, file))
    return (*given, "--site", str(lab.directory), *more)


@pytest.fixture(scope="module")
def saved(lab: LabSite, folder: str) -> tuple[Path, str]:
    """A backup with the data, proved with its key; and the listing at that time."""
    every = "appliance cluster backup create --volumes --dry-run --site SITE"
    assert f"default/{CLAIM}" in succeed(*BACK_UP.words(every, _values(lab))).stdout
    one = "appliance cluster backup create --volume team-a/datasets --site SITE"
    said = succeed(*BACK_UP.words(one, _values(lab)), "--yes", "--output", "json")
    found = json.loads(said.stdout)
    assert any(f"pods use it and may write meanwhile: {POD}" in one for one in found["planned"])
    assert "volumes" in found["backup"]["kinds"]
    assert found["backup"]["missing"] == []
    file = lab.directory.parent / "place" / f"{found['backup']['id']}.backup"
    key = str(lab.directory.parent / "key.txt")
    proved = succeed(
        "cluster", "backup", "verify", str(file), "--identity", key, "--site", str(lab.directory)
    )
    assert f"default/{CLAIM}: compared:" in proved.stdout
    left = lab.shell("cp1", "ls -A /var/lib/appliance/backup").strip()
    assert left == ""
    return file, _listing(lab, folder)


def test_a_claim_that_a_pod_has_is_not_restored(lab: LabSite, saved: tuple[Path, str]) -> None:
    done = appliance(*_words(lab, saved[0], "--yes"))
    assert done.returncode == 3
    assert f"kubectl --namespace=default delete pod/{POD}" in done.stderr
    lab.shell("cp1", f"{KUBECTL} delete pod {POD} --wait=true")


def test_what_was_damaged_comes_back_and_stays_beside(
    lab: LabSite, folder: str, saved: tuple[Path, str]
) -> None:
    planned = (
        "appliance cluster restore rack7-20260301T020000Z.backup --identity rack7.key "
        "--only volumes --dry-run"
    )
    _damage(lab, folder)
    damaged = _listing(lab, folder)
    succeed(*RECOVER.words(planned, _values(lab, saved[0])), "--site", str(lab.directory))
    assert _listing(lab, folder) == damaged
    found = json.loads(succeed(*_words(lab, saved[0], "--yes", "--output", "json")).stdout)
    assert _listing(lab, folder) == saved[1]
    kept = found["volumes"][0]["kept"]
    assert lab.shell("cp1", f"cat /srv/runai/{kept}/newer").strip() == "new"
    holes = lab.shell("cp1", f"stat -c '%b' {folder}/sparse")
    assert int(holes) * 512 < 1_000_000
    lab.settled()


def test_a_pod_reads_what_came_back(lab: LabSite, folder: str, saved: tuple[Path, str]) -> None:
    assert saved[1]
    _apply(lab, _pod(lab))
    lab.shell("cp1", f"{KUBECTL} wait --for=condition=Ready pod/{POD} --timeout=180s")
    here = lab.shell("cp1", f"sha256sum {folder}/noise").split()[0]
    there = lab.shell("cp1", f"{KUBECTL} exec {POD} -- /bin/busybox sha256sum /data/noise").split()
    assert there[0] == here
    lab.shell("cp1", f"{KUBECTL} delete pod {POD} --wait=true")


def test_killed_at_random_moments_the_same_command_ends_it(
    lab: LabSite, folder: str, saved: tuple[Path, str]
) -> None:
    _damage(lab, folder)
    for _ in range(KILLS):
        moment = RANDOM.uniform(1, 30)
        with subprocess.Popen(
            [sys.executable, "-m", "appliance", *_words(lab, saved[0], "--yes")],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as process:
            time.sleep(moment)
            process.send_signal(signal.SIGKILL)
    # A run whose connection broke may be at work for some seconds more.
    words = _words(lab, saved[0], "--yes")
    wait_for("the restore", lambda: appliance(*words).returncode == 0, 600)
    assert _listing(lab, folder) == saved[1]
    names = lab.shell("cp1", "ls /srv/runai")
    assert ".restoring-" not in names
    assert ".restored-" not in names
    assert "new" in lab.shell("cp1", f"cat {folder}.before-*/newer")
    lab.settled()
