"""One lab with Run:ai for the tests of this folder, watched from before it is made.

``APPLIANCE_TEST_RUNAI_SITE=DIR`` uses the lab of that site, which is up already, and leaves it up;
``APPLIANCE_TEST_GPU_BUNDLE=DIR`` takes that bundle, with stand-ins, instead of building one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.conftest import LabSite, lab_up
from tests.lab.runai.commands import Commands
from tests.lab.runai.researchers import Researchers, researchers_of
from tests.lab.runai.watch import ProcessWatch
from tests.this_run import built_bundle, lab_name

SHORT = "runai"


@pytest.fixture(scope="package")
def watch() -> Iterator[ProcessWatch]:
    """Process lists, from the lab's first command to its last."""
    given = _given()
    with ProcessWatch(given.name if given else lab_name(SHORT)) as found:
        yield found


@pytest.fixture(scope="package")
def commands(watch: ProcessWatch) -> Commands:
    """Runs the command line, and keeps all that it says."""
    assert watch.is_alive()
    return Commands()


@pytest.fixture(scope="package")
def runai_lab(tmp_path_factory: pytest.TempPathFactory, commands: Commands) -> Iterator[LabSite]:
    """One control plane and three workers with two GPUs each, by the command that a person types.

    The last worker shares its GPUs; a gang of whole ones needs the other two.
    """
    if (given := _given()) is not None:
        yield given
        return
    name, bundle = lab_name(SHORT), built_bundle(standins=True)
    extras = ("--with", "runai", "--workers", "3", "--bundle", str(bundle))
    with lab_up(SHORT, tmp_path_factory.mktemp("runai"), *extras) as site:
        words = ("--name", name, "--site", str(site), "--yes", *extras)
        commands.succeed("lab", "up", *words, timeout=2400)
        yield LabSite(name, site, bundle)


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
    name = control_plane.stem.removesuffix("-cp1")
    return LabSite(name, Path(given), built_bundle(standins=True))
