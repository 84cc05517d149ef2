"""Emptying a node never deletes what is mounted below its folders: with real bind mounts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.prerequisites import require
from tests.unit.modules.loading import ROOT

VOLUME = "pods/1/volumes/kubernetes.io~nfs/pv 1\\x"


def emptied(tmp_path: Path, folder: str, point: str, case: str) -> dict[str, Any]:
    """What became of the share when the node below ``tmp_path`` was emptied."""
    require("unshare")
    rights = [] if os.geteuid() == 0 else ["--map-root-user"]
    unshared = ["unshare", *rights, "--mount", "--propagation", "private"]
    program = [sys.executable, "-m", "tests.unit.modules.empty_in_namespace"]
    done = subprocess.run(
        [*unshared, *program, str(tmp_path), folder, point, case],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("case", ["plain", "linked"])
def test_a_pods_network_storage_is_unmounted_and_keeps_its_files(tmp_path: Path, case: str) -> None:
    found = emptied(tmp_path, "var/lib/kubelet", VOLUME, case)
    assert found == {"said": "", "share": ["postgres.db"], "own": False}


@pytest.mark.parametrize(
    ("folder", "case"),
    [("var/lib/kubelet", "stuck"), ("var/lib/etcd", "plain"), ("etc/kubernetes", "plain")],
)
def test_what_stays_mounted_stops_it_before_anything_is_deleted(
    tmp_path: Path, folder: str, case: str
) -> None:
    found = emptied(tmp_path, folder, "below", case)
    assert "is mounted below" in found["said"]
    assert (found["share"], found["own"]) == (["postgres.db"], True)
