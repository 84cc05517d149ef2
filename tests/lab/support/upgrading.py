"""The upgrade of a lab: its command, its bundle, and what is asked of the cluster."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.commands import succeed
from tests.lab.conftest import LabSite
from tests.lab.support.cluster import kubectl
from tests.this_run import OS, folder

NEW, TAG = "k8s-1.23.17-r1", "v1.23.17"
LAST, LAST_TAG = "k8s-1.24.17-r1", "v1.24.17"
SECONDS = 3600.0


def built(release: str, *, standins: bool = False) -> Path:
    """The bundle of a release, built once a run."""
    directory = folder() / f"bundle-{release}{'-standins' if standins else ''}"
    words = ["bundle", "build", "--release", release, "--os", OS, str(directory), "--yes"]
    succeed(*words, *(["--standins"] if standins else []), timeout=7200)
    return directory


@pytest.fixture(scope="module")
def new_bundle() -> Path:
    """The bundle of the new release; ``APPLIANCE_TEST_NEW_BUNDLE=DIR`` names one."""
    given = os.environ.get("APPLIANCE_TEST_NEW_BUNDLE")
    return Path(given) if given else built(NEW)


@pytest.fixture(scope="module")
def last_bundle() -> Path:
    """The bundle of the last release; ``APPLIANCE_TEST_LAST_BUNDLE=DIR`` names one."""
    given = os.environ.get("APPLIANCE_TEST_LAST_BUNDLE")
    return Path(given) if given else built(LAST)


def words(lab: LabSite, bundle: Path, *more: str) -> list[str]:
    """The words of the command."""
    site = ["--site", str(lab.directory), "--bundle", str(bundle)]
    return ["cluster", "upgrade", "--to", NEW, *site, *more]


def to_last(lab: LabSite, *bundles: Path) -> list[str]:
    """The words of the command that goes through every release."""
    given = [word for one in bundles for word in ("--bundle", str(one))]
    return ["cluster", "upgrade", "--to", LAST, "--site", str(lab.directory), *given]


def settings(lab: LabSite) -> dict[str, Any]:
    """What site.yml says."""
    text = (lab.directory / "group_vars/all/site.yml").read_text()
    found: dict[str, Any] = yaml.safe_load(text)
    return found


def versions(lab: LabSite) -> dict[str, str]:
    """Node -> the version of its kubelet."""
    found = json.loads(kubectl(lab, "get nodes -o json"))
    return {
        item["metadata"]["name"]: item["status"]["nodeInfo"]["kubeletVersion"]
        for item in found["items"]
    }


def runtimes(lab: LabSite) -> dict[str, str]:
    """Node -> the container runtime of its kubelet."""
    found: dict[str, Any] = json.loads(kubectl(lab, "get nodes -o json"))
    return {
        item["metadata"]["name"]: item["status"]["nodeInfo"]["containerRuntimeVersion"]
        for item in found["items"]
    }


def cordoned(lab: LabSite) -> list[str]:
    """The nodes that take no pod."""
    found = json.loads(kubectl(lab, "get nodes -o json"))
    return [i["metadata"]["name"] for i in found["items"] if i["spec"].get("unschedulable")]


def load_now() -> str:
    """The machine's load over the last minute, for figures that are printed."""
    return Path("/proc/loadavg").read_text(encoding="ascii").split()[0]
