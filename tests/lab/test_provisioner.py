"""The provisioner of the shared storage, in a lab of a bundle that has its image.

On Debian that is a bundle with stand-ins: a program of ours on a later version of its library.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lab.conftest import LabSite, lab_up, wait_for
from tests.lab.support.cluster import KUBECTL
from tests.lab.support.storage_site import write_storage

pytestmark = [pytest.mark.lab, pytest.mark.slow]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, standins_bundle: Path) -> Iterator[LabSite]:
    """One control plane, which serves the storage, and one worker; installed to the end."""
    with lab_up("volumes", tmp_path_factory.mktemp("volumes"), "--workers", "1") as site:
        found = LabSite(site.name, site, standins_bundle)
        write_storage(found)
        done = found.install()
        assert done.returncode == 0, done.stderr
        yield found


def _apply(lab: LabSite, *objects: dict[str, Any]) -> None:
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    lab.shell("cp1", f"echo '{listed}' | {KUBECTL} apply -f -")


def _claim(lab: LabSite, *names: str) -> None:
    """Claims of the default class, larger than any volume that was made beforehand."""
    spec = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "200Gi"}}}
    kind = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
    _apply(lab, *({**kind, "metadata": {"name": name}, "spec": spec} for name in names))


def _phases(lab: LabSite, *names: str) -> list[str]:
    each = "{range .items[*]}{.status.phase} {end}" if len(names) > 1 else "{.status.phase}"
    return lab.shell("cp1", f"{KUBECTL} get pvc {' '.join(names)} -o jsonpath='{each}'").split()


def _forget(lab: LabSite, *names: str) -> None:
    """Remove claims, their volumes and the folders, which a deleted volume leaves."""
    lab.shell("cp1", f"{KUBECTL} delete pvc --ignore-not-found {' '.join(names)}")
    ours = f"{KUBECTL} get pv -o name | grep /pvc-"
    lab.shell("cp1", f"{KUBECTL} delete $({ours}); rm -r /srv/runai/default-claim-*")


def test_a_provisioner_that_was_stopped_is_seen_and_comes_back(lab: LabSite) -> None:
    stop = "scale deployment appliance-nfs-provisioner --replicas=0"
    lab.shell("cp1", f"{KUBECTL} -n appliance-storage {stop}")
    seen = "no pod of the provisioner is ready"
    wait_for(seen, lambda: any(seen in entry["text"] for entry in lab.status()["unmet"]), 60)
    done = lab.install()
    assert done.returncode == 0, done.stderr
    lab.settled()


def test_more_claims_than_volumes_are_bound_and_a_deleted_one_loses_nothing(
    lab: LabSite,
) -> None:
    names = [f"claim-{number}" for number in range(1, 7)]
    _claim(lab, *names)
    try:
        wait_for("the claims", lambda: _phases(lab, *names) == ["Bound"] * len(names))
        folder = lab.shell("cp1", "ls -d /srv/runai/default-claim-1-pvc-*").strip()
        assert lab.shell("cp1", f"stat -c %u:%a {folder}").strip() == "1001:777"
        lab.shell("cp1", f"echo kept >{folder}/file; {KUBECTL} delete pvc claim-1")
        volume = folder.rpartition("claim-1-")[2]
        phase = f"{KUBECTL} get pv {volume} -o jsonpath='{{.status.phase}}'"
        wait_for("the volume", lambda: lab.shell("cp1", phase) == "Released")
        assert lab.shell("cp1", f"cat {folder}/file").strip() == "kept"
    finally:
        _forget(lab, *names)
    lab.settled()


def test_a_class_of_an_earlier_release_gets_a_provisioner_and_pending_claims_a_volume(
    lab: LabSite,
) -> None:
    sc = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {
            "name": "appliance-nfs",
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        },
        "provisioner": "kubernetes.io/no-provisioner",
    }
    lab.shell("cp1", f"{KUBECTL} delete sc appliance-nfs")
    _apply(lab, sc)
    _claim(lab, "claim-waiting")
    before = lab.shell("cp1", f"{KUBECTL} get pv appliance-volume-01 -o jsonpath={{.metadata.uid}}")
    said = [entry["text"] for entry in lab.status()["unmet"]]
    assert any("has no provisioner" in text for text in said), said
    assert _phases(lab, "claim-waiting") == ["Pending"]
    done = lab.install()
    assert done.returncode == 0, done.stderr
    wait_for("the claim", lambda: _phases(lab, "claim-waiting") == ["Bound"])
    _forget(lab, "claim-waiting")
    lab.settled()
    after = lab.shell("cp1", f"{KUBECTL} get pv appliance-volume-01 -o jsonpath={{.metadata.uid}}")
    assert before == after
