"""One lab with Run:ai for the tests of this folder, watched from before it is made.

``APPLIANCE_TEST_RUNAI_SITE=DIR`` uses the lab of that site, which is up already, and leaves it up;
``APPLIANCE_TEST_BUNDLE=DIR`` takes that bundle, with stand-ins, instead of building one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.adapters.content import list_releases
from appliance.cli.lab_parts import default_bundle
from tests.commands import succeed
from tests.lab.conftest import LabSite
from tests.lab.runai.commands import Commands
from tests.lab.runai.researchers import Researchers, researchers_of
from tests.lab.runai.watch import ProcessWatch

NAME = "raie2e"


@pytest.fixture(scope="package")
def watch() -> Iterator[ProcessWatch]:
    """Process lists, from the lab's first command to its last."""
    given = _given()
    with ProcessWatch(given.name if given else NAME) as found:
        yield found


@pytest.fixture(scope="package")
def commands(watch: ProcessWatch) -> Commands:
    """Runs the command line, and keeps all that it says."""
    assert watch.is_alive()
    return Commands()


@pytest.fixture(scope="package")
def runai_lab(tmp_path_factory: pytest.TempPathFactory, commands: Commands) -> Iterator[LabSite]:
    """One control plane and two workers with two GPUs each, by the command that a person types."""
    if (given := _given()) is not None:
        yield given
        return
    succeed("lab", "down", "--name", NAME, "--yes")
    site = tmp_path_factory.mktemp("runai") / NAME
    words = ("--name", NAME, "--site", str(site), "--with", "runai", "--yes")
    chosen = os.environ.get("APPLIANCE_TEST_BUNDLE")
    commands.succeed("lab", "up", *words, *(("--bundle", chosen) if chosen else ()), timeout=2400)
    yield LabSite(NAME, site, _bundle())
    succeed("lab", "down", "--name", NAME, "--yes")


@pytest.fixture(scope="package")
def researchers(runai_lab: LabSite, commands: Commands) -> Iterator[Researchers]:
    """The API server trusts logins, and two users of a node have the CLI; one of them logs in."""
    with researchers_of(runai_lab, commands) as found:
        yield found


def _given() -> LabSite | None:
    given = os.environ.get("APPLIANCE_TEST_RUNAI_SITE")
    if given is None:
        return None
    (control_plane,) = Path(given).glob("host_vars/*-cp1.yml")
    return LabSite(control_plane.stem.removesuffix("-cp1"), Path(given), _bundle())


def _bundle() -> Path:
    chosen = os.environ.get("APPLIANCE_TEST_BUNDLE")
    return Path(chosen) if chosen else default_bundle(list_releases()[-1], standins=True)
