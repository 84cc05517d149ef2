"""Run:ai goes from its oldest version that a site can have to the newest, hop by hop.

A lab of its own, on stand-ins: 1 control plane and 1 worker. ``APPLIANCE_TEST_GPU_BUNDLE=DIR``
takes that bundle, with stand-ins, instead of building one.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from appliance.lab.vendor.bundle import build_vendor_bundle
from tests.commands import succeed
from tests.lab.conftest import LabSite, lab_up
from tests.lab.runai.backend import clusters, make_project, projects, versions
from tests.this_run import built_bundle, lab_name

pytestmark = [pytest.mark.lab, pytest.mark.slow]

FIRST = "2.4.0"
HOPS = ("2.5.0", "2.6.0", "2.7.14", "2.8.2")
PROJECT = "before-all-hops"


@contextmanager
def lab_of_first(short: str, folder: Path) -> Iterator[LabSite]:
    """One control plane and one worker, with the oldest version."""
    bundle = built_bundle(standins=True)
    version = ("--with", "runai", "--runai-version", FIRST)
    extras = (*version, "--workers", "1", "--bundle", str(bundle))
    with lab_up(short, folder, *extras) as site:
        words = ("--name", lab_name(short), "--site", str(site), "--yes", *extras)
        succeed("lab", "up", *words, timeout=2400)
        yield LabSite(lab_name(short), site, bundle)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabSite]:
    """A lab of its own."""
    with lab_of_first("hops", tmp_path_factory.mktemp("hops")) as found:
        yield found


def words(lab: LabSite, bundle: Path, *more: str) -> tuple[str, ...]:
    return ("runai", "upgrade", str(bundle), "--site", str(lab.directory), *more)


def test_the_oldest_version_is_connected_and_gets_a_project(lab: LabSite) -> None:
    assert versions(lab) == {(FIRST, "deployed")}
    make_project(lab, PROJECT)
    assert projects(lab) >= {PROJECT}


@pytest.mark.parametrize("target", HOPS)
def test_a_hop_keeps_login_connection_and_project(
    lab: LabSite, target: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = build_vendor_bundle(target, tmp_path)
    told = json.loads(succeed(*words(lab, bundle, "--dry-run", "-o", "json")).stdout)
    assert told["steps"]
    began = time.monotonic()
    succeed(*words(lab, bundle, "--yes"), timeout=2400)
    with capsys.disabled():
        print(f"\nto {target}: {time.monotonic() - began:.0f} s")  # noqa: T201 - a figure
    assert versions(lab) == {(target, "deployed")}
    # Logs in with the site's own password.
    assert [one["status"] for one in clusters(lab)] == ["connected"]
    assert projects(lab) >= {PROJECT}
    assert "nothing to do" in succeed(*words(lab, bundle, "--yes")).stdout


def test_install_has_nothing_to_do_afterwards(lab: LabSite) -> None:
    done = lab.install()
    assert done.returncode == 0, done.stderr
    assert "nothing to do" in done.stdout
