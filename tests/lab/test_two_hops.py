"""A lab of the first release goes through two releases in one run, and changes its runtime."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands import succeed
from tests.lab.conftest import LabSite, installed_as, wait_for
from tests.lab.support.api_probe import api_watched
from tests.lab.support.runbook import Runbook
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
    settings,
    to_last,
    versions,
)

__all__ = ["last_bundle", "new_bundle"]

PAGE = Runbook("upgrade-kubernetes")

pytestmark = [pytest.mark.lab, pytest.mark.slow]


@pytest.fixture(scope="module")
def first_lab(
    tmp_path_factory: pytest.TempPathFactory, bundle_directory: Path
) -> Iterator[LabSite]:
    """One control plane and two workers on the first release."""
    with installed_as("hop", tmp_path_factory.mktemp("labs"), bundle_directory) as lab:
        yield lab


def test_killed_in_the_change_of_the_runtime_the_same_command_ends_both_releases(
    first_lab: LabSite, new_bundle: Path, last_bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = Path(sys.executable).with_name("appliance")
    page = "appliance cluster upgrade --to k8s-1.24.17-r1 --bundle DIR --bundle DIR2 --site SITE"
    values = {"DIR": str(new_bundle), "DIR2": str(last_bundle), "SITE": str(first_lab.directory)}
    endpoint = settings(first_lab)["control_plane_endpoint"]["name"]
    watching = api_watched(first_lab.node("w1"), endpoint, 6443)
    with asking(first_lab) as asked, watching as watched:
        process = subprocess.Popen(
            [program, *PAGE.words(page, values), "--yes"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            # No API is asked: it is away while kubeadm runs.
            flags = "grep containerd.sock /var/lib/kubelet/kubeadm-flags.env"
            wait_for(
                "the first worker's kubelet pointed at containerd",
                lambda: bool(first_lab.shell("w1", flags, check=False)),
                SECONDS,
            )
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
        assert {node: one[:6] for node, one in versions(first_lab).items()} == dict.fromkeys(
            versions(first_lab), "v1.23."
        )
        succeed(*to_last(first_lab, last_bundle), "--yes", timeout=SECONDS)
    with capsys.disabled():
        print(  # noqa: T201 - a figure of the release
            f"\ntwo releases, killed once: requests {asked.total}, lost {len(asked.lost)}; "
            f"longest time without API {watched.gap:.0f} s (load {load_now()})"
        )
    assert asked.lost == []
    assert set(versions(first_lab).values()) == {LAST_TAG}
    assert all(one.startswith("containerd://") for one in runtimes(first_lab).values())
    assert cordoned(first_lab) == []


def test_afterwards_there_is_nothing_to_do(first_lab: LabSite, last_bundle: Path) -> None:
    done = succeed(*to_last(first_lab, last_bundle), "--yes")
    assert f"nothing to do: every node runs {LAST}" in done.stdout
