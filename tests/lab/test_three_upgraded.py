"""Three control planes and one worker go through two releases in one run, while pods serve."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands import succeed
from tests.lab.conftest import LabSite, lab_up
from tests.lab.support.api_probe import api_watched
from tests.lab.support.lost_requests import lost_explained
from tests.lab.support.service_probe import asking
from tests.lab.support.upgrading import (
    LAST,
    LAST_TAG,
    SECONDS,
    cordoned,
    last_bundle,
    load_now,
    new_bundle,
    runtimes,
    to_last,
    versions,
)

__all__ = ["last_bundle", "new_bundle"]

pytestmark = [pytest.mark.lab, pytest.mark.slow]

LONGEST_GAP_SECONDS = 10.0


@pytest.fixture(scope="module")
def old_trio(tmp_path_factory: pytest.TempPathFactory, bundle_directory: Path) -> Iterator[LabSite]:
    """Four nodes on the first release."""
    words = ("--control-planes", "3", "--workers", "1", "--bundle", str(bundle_directory))
    with lab_up("threeup", tmp_path_factory.mktemp("labs"), *words) as site:
        lab = LabSite(site.name, site, bundle_directory)
        done = lab.install(timeout=2400)
        assert done.returncode == 0, done.stderr
        yield lab


def test_two_releases_in_one_run_lose_no_request_and_keep_the_api(
    old_trio: LabSite, new_bundle: Path, last_bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    watching = api_watched(old_trio.node("w1"), f"api.{old_trio.name}.test", 8443)
    began = time.monotonic()
    serving = asking(old_trio, everywhere=True)
    with serving as asked, lost_explained(old_trio, asked) as why, watching as watched:
        done = succeed(*to_last(old_trio, new_bundle, last_bundle), "--yes", timeout=2 * SECONDS)
    took = time.monotonic() - began
    with capsys.disabled():
        print(  # noqa: T201 - a figure of the release
            f"\n3 + 1 nodes, two releases in {took:.0f} s (load {load_now()}); "
            f"requests {asked.total}, lost {len(asked.lost)}; API: "
            f"{watched.failed} of {watched.asked} failed, longest time "
            f"without an answer {watched.gap:.1f} s (target {LONGEST_GAP_SECONDS:.0f} s)"
        )
        print(done.stdout[-3000:])  # noqa: T201 - what a person reads at its end
    assert asked.lost == [], "\n\n".join([*asked.lost, *why])
    assert set(versions(old_trio).values()) == {LAST_TAG}
    assert all(one.startswith("containerd://") for one in runtimes(old_trio).values())
    assert cordoned(old_trio) == []
    assert watched.gap <= LONGEST_GAP_SECONDS, watched.reasons


def test_afterwards_there_is_nothing_to_do_and_an_install_is_let_through(
    old_trio: LabSite, last_bundle: Path
) -> None:
    done = succeed(*to_last(old_trio, last_bundle), "--yes")
    assert f"nothing to do: every node runs {LAST}" in done.stdout
    install = ["install", "--site", str(old_trio.directory), "--bundle", str(last_bundle), "--yes"]
    succeed(*install, timeout=SECONDS)
    old_trio.settled()
