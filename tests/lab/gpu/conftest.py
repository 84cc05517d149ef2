"""One lab with stand-ins of GPUs for the tests of this folder; it is down when they have ended."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.conftest import GPUS, LabSite, lab_up


@pytest.fixture(scope="package")
def gpu_lab(tmp_path_factory: pytest.TempPathFactory, standins_bundle: Path) -> Iterator[LabSite]:
    """One control plane and two workers with stand-ins of GPUs, installed to the end.

    ``APPLIANCE_TEST_GPU_SITE=DIR`` uses the lab of that site (``APPLIANCE_TEST_GPU_BUNDLE=DIR`` is
    the bundle it was made from), which is up already, and leaves it as it ends.
    """
    if given := os.environ.get("APPLIANCE_TEST_GPU_SITE"):
        (control_plane,) = Path(given).glob("host_vars/*-cp1.yml")
        name = control_plane.stem.removesuffix("-cp1")
        yield LabSite(name, Path(given), standins_bundle)
        return
    words = ("--workers", "2", "--gpus", str(GPUS))
    with lab_up("gpu", tmp_path_factory.mktemp("gpus"), *words) as site:
        found = LabSite(site.name, site, standins_bundle)
        done = found.install()
        assert done.returncode == 0, done.stderr
        yield found
