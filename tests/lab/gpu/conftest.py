"""One lab with stand-ins of GPUs for the tests of this folder; it is down when they have ended."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.adapters.content import list_releases
from appliance.cli.bundle_parts import build
from appliance.cli.lab_parts import OPERATING_SYSTEM, default_bundle
from tests.commands import succeed
from tests.lab.conftest import GPUS, LabSite, bring_up


@pytest.fixture(scope="package")
def gpu_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabSite]:
    """One control plane and two workers with stand-ins of GPUs, installed to the end.

    ``APPLIANCE_TEST_GPU_SITE=DIR`` uses the lab of that site (``APPLIANCE_TEST_GPU_BUNDLE=DIR`` is
    the bundle it was made from), which is up already, and leaves it as it ends.
    """
    if given := os.environ.get("APPLIANCE_TEST_GPU_SITE"):
        (control_plane,) = Path(given).glob("host_vars/*-cp1.yml")
        name = control_plane.stem.removesuffix("-cp1")
        yield LabSite(name, Path(given), Path(os.environ["APPLIANCE_TEST_GPU_BUNDLE"]))
        return
    release = list_releases()[-1]
    bundle = default_bundle(release, standins=True)
    build(release, OPERATING_SYSTEM, bundle, standins=True)
    name = "gpue2e"
    succeed("lab", "down", "--name", name, "--yes")
    words = ("--workers", "2", "--gpus", str(GPUS))
    found = LabSite(name, bring_up(name, tmp_path_factory.mktemp("gpus"), *words), bundle)
    done = found.install()
    assert done.returncode == 0, done.stderr
    yield found
    if not os.environ.get("APPLIANCE_TEST_KEEP"):
        succeed("lab", "down", "--name", name, "--yes")
