"""Shared storage on the lab: refused before any change, installed, healed, used by a pod.

The tests of this file tell one story and run in its order, on the lab that was installed before;
its site gets shared storage here, served by nfs-ganesha and mounted by the stand-in.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.lab.conftest import LabSite, wait_for
from tests.lab.support import hostile_pod
from tests.lab.support.cluster import KUBECTL
from tests.lab.support.stillness import assert_still, scene
from tests.lab.support.storage_site import write_storage

pytestmark = pytest.mark.lab

PROOF = "appliance-storage-proof"


@contextmanager
def _site(lab: LabSite, **changes: Any) -> Iterator[None]:
    write_storage(lab, **changes)
    yield
    write_storage(lab)


@pytest.fixture
def stored_lab(installed_lab: LabSite) -> LabSite:
    """The lab with its storage proved."""
    write_storage(installed_lab)
    done = installed_lab.install()
    assert done.returncode == 0, done.stderr
    return installed_lab


def _vacant(lab: LabSite) -> str:
    return lab.address("cp1").rpartition(".")[0] + ".99"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"minimum_free_gb": 999999, "path": "/srv/runai/more"},
            ("nfs_space", "expected at least 999999 GB"),
        ),
        ({"path": "/srv/other"}, ("nfs_file_system", "found /srv/other on overlay")),
        ({"server": "vacant"}, ("nfs_server", "found no NFS server at", "open TCP 2049")),
    ],
)
def test_storage_that_will_not_do_is_refused_and_nothing_is_changed(
    installed_lab: LabSite, changes: dict[str, Any], words: tuple[str, ...]
) -> None:
    lab = installed_lab
    if changes.get("server"):
        changes = {"server": _vacant(lab)}
    with _site(lab, **changes):
        before = scene(lab)
        done = lab.install()
        assert done.returncode == 3, done.stdout + done.stderr
        for part in words:
            assert part in done.stderr
        assert_still(before, scene(lab))


@pytest.mark.slow
def test_a_run_killed_while_pods_prove_the_storage_is_taken_up_by_the_next(
    installed_lab: LabSite,
) -> None:
    lab = installed_lab
    write_storage(lab)
    lab.shell("cp1", f"{KUBECTL} delete storageclass appliance-nfs --ignore-not-found")
    words = [sys.executable, "-m", "appliance", *lab.install_words()]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        running = f"{KUBECTL} get pods -n {PROOF} -o name 2>/dev/null | grep -q pod/"
        wait_for("pods of the proof", lambda: _succeeds(lab, running))
        assert process.poll() is None
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    done = lab.install()
    assert done.returncode == 0, done.stderr
    lab.settled()


def _succeeds(lab: LabSite, command: str) -> bool:
    return lab.shell("cp1", f"if {command}; then echo yes; fi").strip() == "yes"


def test_it_is_there_and_a_second_run_changes_nothing(stored_lab: LabSite) -> None:
    lab = stored_lab
    before = scene(lab)
    done = lab.install()
    assert done.returncode == 0
    assert "nothing to do" in done.stdout + done.stderr
    assert_still(before, scene(lab))
    found = lab.status()
    assert "(needed before first use: 1 GB)" in found["storage"]
    assert "storage" in found["standins"][lab.node("w1")], "the mount is a stand-in, and named"


@pytest.mark.parametrize(
    ("place", "command", "words"),
    [
        ("cp1", "systemctl disable --now nfs-ganesha", "nfs-ganesha does not run"),
        ("cp1", "rm /etc/ganesha/ganesha.conf", "ganesha NFS server is not configured to export"),
        ("cp1", "chown 0:0 /srv/runai; chmod 700 /srv/runai", "user 1001 may not write"),
        ("cp1", "rmdir /srv/runai/appliance-proof", "lacks a folder"),
        ("w1", "rm /var/lib/appliance/storage-proof.json", "no write test as user"),
        ("cp1", f"{KUBECTL} delete pv appliance-volume-02", "no PersistentVolume appliance-vol"),
        (
            "w1",
            "systemctl disable --now pod-guard; iptables -t mangle -F APPLIANCE-PODS",
            "pods can reach the shared storage or the registry",
        ),
        (
            "cp1",
            f"{KUBECTL} annotate sc appliance-nfs storageclass.kubernetes.io/is-default-class-",
            "not the default StorageClass",
        ),
    ],
)
def test_what_is_taken_away_is_seen_and_comes_back(
    stored_lab: LabSite, place: str, command: str, words: str
) -> None:
    lab = stored_lab
    lab.shell(place, command)
    said = [entry["text"] for entry in lab.status()["unmet"]]
    assert any(words in text for text in said), said
    done = lab.install()
    assert done.returncode == 0, done.stderr
    lab.settled()


def test_a_pod_like_a_database_uses_a_volume_of_the_default_class(stored_lab: LabSite) -> None:
    lab = stored_lab
    image = json.loads((lab.bundle / "manifest.json").read_text())["images"]["busybox:1.35.0"]
    mount = [{"name": "data", "mountPath": "/data"}]
    shell = ["/bin/busybox", "sh", "-c"]
    common = {"image": f"registry.{lab.name}.test:5000/busybox@{image}", "volumeMounts": mount}
    prepare = "mkdir -p /data/db && chown -R 1001:1001 /data/db && chmod 0700 /data/db"
    write = "echo kept >/data/db/file && sync && cat /data/db/file && stat -c %u:%a /data/db"
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "50Gi"}}}
    pod = {
        "restartPolicy": "Never",
        "tolerations": [{"operator": "Exists"}],
        "initContainers": [
            {**common, "name": "own", "command": [*shell, prepare]},
        ],
        "containers": [
            {
                **common,
                "name": "db",
                "command": [*shell, write],
                "securityContext": {"runAsUser": 1001},
            },
        ],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "like-a-database"}}],
    }
    metadata = {"name": "like-a-database"}
    objects = [
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": claim},
        {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod},
    ]
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    lab.shell("cp1", f"echo '{listed}' | {KUBECTL} apply -f -")
    try:
        phase = f"{KUBECTL} get pod like-a-database -o jsonpath='{{.status.phase}}'"
        wait_for("the pod to end", lambda: lab.shell("cp1", phase) in {"Succeeded", "Failed"})
        assert lab.shell("cp1", f"{KUBECTL} logs like-a-database").split() == ["kept", "1001:700"]
    finally:
        lab.shell("cp1", f"{KUBECTL} delete pod,pvc like-a-database --wait=false")
    # A volume that was used is as good as one that is free.
    lab.settled()


def test_a_pod_neither_writes_to_the_registry_nor_mounts_the_export(stored_lab: LabSite) -> None:
    lab, cp1 = stored_lab, stored_lab.address("cp1")
    source = f"{cp1}:/srv/runai"
    with hostile_pod.pod_on(lab, "w1") as inside, hostile_pod.service_for(lab, cp1) as service:
        for address in (cp1, service):
            assert hostile_pod.requests(lab, "w1", address, inside) == hostile_pod.CUT_OFF
        for user in (0, 1001):
            assert hostile_pod.mount(lab, "w1", inside, source, user) == "not mounted"
        with hostile_pod.guard_lifted(lab, "w1"):
            # It was the guard that refused; behind it the registry still asks for the login.
            assert hostile_pod.requests(lab, "w1", cp1, inside) == hostile_pod.OPEN
            assert hostile_pod.mount(lab, "w1", inside, source, 1001) == "written"
        assert hostile_pod.mount(lab, "w1", inside, source, 1001) == "not mounted"
    lab.settled()


def test_a_pod_on_the_node_that_serves_is_kept_away_under_each_of_its_addresses(
    stored_lab: LabSite,
) -> None:
    lab, cp1 = stored_lab, stored_lab.address("cp1")
    gateway = lab.shell("cp1", "ip -4 -o address show cni0 | awk '{print $4}'").partition("/")[0]
    with hostile_pod.pod_on(lab, "cp1") as inside:
        for address in (cp1, gateway):
            assert hostile_pod.requests(lab, "cp1", address, inside) == hostile_pod.CUT_OFF
            source = f"{address}:/srv/runai"
            assert hostile_pod.mount(lab, "cp1", inside, source, 1001) == "not mounted"


def test_a_host_of_the_lan_and_a_node_without_the_login_may_only_read(
    stored_lab: LabSite, tmp_path: Path
) -> None:
    lab = stored_lab
    assert hostile_pod.requests_of_the_lan(lab, tmp_path) == hostile_pod.OPEN
    assert hostile_pod.requests(lab, "w1", lab.address("cp1")) == hostile_pod.OPEN
    lab.settled()
