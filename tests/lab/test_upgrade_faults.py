"""An upgrade meets one fault after the other; the same command goes on after each.

The rows are one story in one lab: each strikes where the one before has left off. After each the
observed versions keep to kubeadm's skew rules, and no node is cordoned but the one that is named.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.commands import appliance, succeed
from tests.lab.conftest import LabSite, installed_as, wait_for
from tests.lab.support import faults, faults_cluster
from tests.lab.support.cluster import kubectl
from tests.lab.support.frozen import frozen
from tests.lab.support.matrix import DONE, FAILED, REFUSED, UNREACHABLE, Process, phase, start
from tests.lab.support.runbook import Runbook
from tests.lab.support.skew import skew_is_allowed
from tests.lab.support.upgrading import (
    NEW,
    SECONDS,
    TAG,
    cordoned,
    new_bundle,
    settings,
    versions,
    words,
)

__all__ = ["new_bundle"]

pytestmark = [pytest.mark.lab, pytest.mark.slow]

# This lab has no packages to patch, no GPU and no Run:ai; what it cannot type of the page is in
# tests/contract/untyped_commands.py, or typed by the tests of those.
FIRST = "k8s-1.23.5-r1"
PAGE, UPGRADE = Runbook("upgrade-that-failed"), Runbook("upgrade-kubernetes")


@pytest.fixture(scope="module")
def old_lab(tmp_path_factory: pytest.TempPathFactory, bundle_directory: Path) -> Iterator[LabSite]:
    """One control plane and two workers on the first release."""
    with installed_as("upf", tmp_path_factory.mktemp("labs"), bundle_directory) as lab:
        yield lab


def meet(
    lab: LabSite,
    bundle: Path,
    begun: Callable[[], bool],
    fault: Callable[[], object],
    *more: str,
) -> tuple[int, str]:
    """Start the command, put the fault in force when ``begun``, and see how the command ends."""
    path = lab.directory.parent / "said.log"
    with ExitStack() as stack:
        said = stack.enter_context(path.open("w"))
        process: Process = start(words(lab, bundle, "--yes", *more), said)
        wait_for("its work to begin", lambda: begun() or process.poll() is not None, 1200)
        assert process.poll() is None, path.read_text()
        stack.enter_context(fault())  # type: ignore[arg-type]
        code = process.wait(SECONDS)
    return code, path.read_text()


def playing(lab: LabSite, playbook: str) -> Callable[[], bool]:
    """Whether a play of that playbook has begun, of a run that begins from now on."""
    runs = lab.directory / ".appliance" / "runs"
    before = set(runs.glob("*"))
    pattern = f"{playbook}/artifacts/*/job_events/*"
    return lambda: any(next(run.glob(pattern), None) for run in set(runs.glob("*")) - before)


@contextmanager
def no_space(node: str, path: str) -> Iterator[None]:
    """A file system that is full, with everything in it that was there before."""
    away = "/root/before-it-was-full"
    used = int(faults.shell(node, f"du -sk {path} | cut -f 1"))
    faults.shell(node, f"cp -a {path} {away} && mount -t tmpfs -o size={used + 512}k tmpfs {path}")
    try:
        faults.shell(node, f"cp -a {away}/. {path}/")
        faults.shell(node, f"dd if=/dev/zero of={path}/filler bs=64k 2>/dev/null", check=False)
        assert int(faults.shell(node, f"df --output=avail -B1 {path} | tail -n 1")) < 65536
        yield
    finally:
        # A program that runs from it keeps it, until the kubelet is started anew.
        faults.shell(node, f"umount -l {path} && rm -rf {away}")
    assert faults.shell(node, f"stat -f -c %T {path}") != "tmpfs"


@contextmanager
def kubelet_broken(node: str) -> Iterator[None]:
    """A drop-in of a person, with which the kubelet ends at once when it is started anew."""
    path = "/etc/systemd/system/kubelet.service.d/99-person.conf"
    text = "[Service]\nExecStart=\nExecStart=/bin/false\n"
    with faults.file_says(node, path, text):
        faults.shell(node, "systemctl daemon-reload")
        yield
    faults.shell(node, "systemctl daemon-reload")


@contextmanager
def registry_masked(node: str) -> Iterator[None]:
    """The registry has stopped, and nothing can start it."""
    unit = "docker-registry"
    faults.shell(node, f"systemctl mask --runtime --now {unit}")
    try:
        assert faults.shell(node, f"systemctl is-active {unit} || true") != "active"
        yield
    finally:
        faults.shell(node, f"systemctl unmask --runtime {unit}")


def test_the_registry_stops_before_the_images_are_there(old_lab: LabSite, new_bundle: Path) -> None:
    cp1 = old_lab.node("cp1")
    begun = playing(old_lab, "kubernetes_images")
    code, said = meet(old_lab, new_bundle, begun, lambda: registry_masked(cp1))
    assert code == FAILED, said
    assert set(versions(old_lab).values()) == {"v1.23.5"}
    skew_is_allowed(old_lab)
    assert cordoned(old_lab) == []


def test_an_upgrade_that_changed_nothing_is_abandoned(old_lab: LabSite) -> None:
    assert settings(old_lab)["appliance_release"] == NEW, "the premise"
    where = {"SITE": str(old_lab.directory)}
    look = UPGRADE.words("appliance cluster upgrade --abandon --site SITE --dry-run", where)
    assert FIRST in succeed(*look).stdout
    assert settings(old_lab)["appliance_release"] == NEW
    succeed(*UPGRADE.words("appliance cluster upgrade --abandon --site SITE", where), "--yes")
    assert settings(old_lab)["appliance_release"] == FIRST
    found = json.loads(kubectl(old_lab, f"get node {old_lab.node('cp1')} -o json"))
    assert "appliance.dev/upgrade" not in found["metadata"]["annotations"]


def test_the_control_plane_loses_its_power_while_kubeadm_upgrades_it(
    old_lab: LabSite, new_bundle: Path
) -> None:
    cp1 = old_lab.node("cp1")
    assert versions(old_lab)[cp1] == "v1.23.5", "the premise"
    begun = lambda: bool(  # noqa: E731
        old_lab.shell("cp1", "pgrep -f '[k]ubeadm.* upgrade apply' || true").strip()
    )
    code, said = meet(old_lab, new_bundle, begun, lambda: faults_cluster.power_off(cp1))
    assert code in (FAILED, UNREACHABLE), said
    assert re.search("same command|run .*again", said), said
    done = appliance(*words(old_lab, new_bundle, "--yes", "--pause-after", cp1), timeout=SECONDS)
    assert done.returncode == DONE, done.stdout + done.stderr
    assert versions(old_lab)[cp1] == TAG
    skew_is_allowed(old_lab)
    assert cordoned(old_lab) == []


def test_a_worker_whose_disk_is_full_stays_out_and_is_named(
    old_lab: LabSite, new_bundle: Path
) -> None:
    w1 = old_lab.node("w1")
    with no_space(w1, "/usr/local/bin"):
        failed = appliance(*words(old_lab, new_bundle, "--yes"), timeout=SECONDS)
    assert failed.returncode == FAILED, failed.stdout + failed.stderr
    assert f"{w1} stays out of service" in failed.stderr
    assert cordoned(old_lab) == [w1]
    assert versions(old_lab)[old_lab.node("w2")] != TAG
    skew_is_allowed(old_lab)
    succeed(*words(old_lab, new_bundle, "--yes", "--pause-after", w1), timeout=SECONDS)
    assert versions(old_lab)[w1] == TAG
    assert cordoned(old_lab) == []


def test_a_second_operator_is_refused_and_the_first_goes_on(
    old_lab: LabSite, new_bundle: Path
) -> None:
    w2 = old_lab.node("w2")
    path = old_lab.directory.parent / "first.log"
    with path.open("w") as said, ExitStack() as stack:
        process = start(words(old_lab, new_bundle, "--yes"), said)
        stack.callback(process.kill)
        moving = lambda: phase(old_lab, "w2") != "" or process.poll() is not None  # noqa: E731
        wait_for("w2 to be taken out", moving, 600)
        assert process.poll() is None, path.read_text()
        with frozen(process):
            second = appliance(*words(old_lab, new_bundle, "--yes"), timeout=SECONDS)
            maintain = ["node", "maintain", w2, "--site", str(old_lab.directory), "--yes"]
            other = appliance(*maintain, timeout=SECONDS)
        assert (second.returncode, other.returncode) == (REFUSED, REFUSED), second.stderr
        assert "cluster upgrade" in second.stderr
        with kubelet_broken(w2):
            code = process.wait(SECONDS)
    text = path.read_text()
    assert code == FAILED, text
    assert f"{w2} stays out of service" in text
    assert cordoned(old_lab) == [w2]
    skew_is_allowed(old_lab)


def test_every_command_of_the_page_of_a_failed_upgrade_is_typed(
    old_lab: LabSite, new_bundle: Path, tmp_path: Path
) -> None:
    """In the state that the page is about: w2 is out of service, with a kubelet that failed."""
    w2 = old_lab.node("w2")
    values = {"RELEASE": NEW, "NODE": w2, "DIR": str(new_bundle), "SITE": str(old_lab.directory)}

    def said(page: list[str], *more: str) -> str:
        done = appliance(*page, *more, timeout=SECONDS, cwd=tmp_path)
        assert done.returncode == DONE, done.stdout + done.stderr
        return done.stdout + done.stderr

    assert w2 in said(PAGE.words("appliance status --site SITE", values))
    assert "cluster upgrade" in said(PAGE.words("appliance history --site SITE", values))
    page = "appliance cluster upgrade --to RELEASE --bundle DIR --site SITE --dry-run"
    assert w2 in said(PAGE.words(page, values))
    logs = PAGE.words("appliance node logs NODE --since 1h --site SITE", values)
    assert "kubelet" in said(logs)
    said(PAGE.words("appliance node logs NODE --kernel --site SITE", values))
    said(PAGE.words("appliance node ssh NODE --site SITE", values), "--", "true")
    back = "appliance cluster upgrade --to RELEASE --back NODE --site SITE"
    said(PAGE.words(back, values), "--yes")
    assert (versions(old_lab)[w2], cordoned(old_lab)) == ("v1.23.5", [])
    skew_is_allowed(old_lab)
    with faults_cluster.power_off(w2):
        without = "appliance cluster upgrade --to RELEASE --bundle DIR --without NODE --site SITE"
        said(PAGE.words(without, values), "--yes")
        assert w2 in appliance("status", "--site", str(old_lab.directory)).stdout
    said(PAGE.words("appliance support bundle --site SITE", values))


def test_once_the_kubelet_may_start_the_same_command_ends_it(
    old_lab: LabSite, new_bundle: Path
) -> None:
    succeed(*words(old_lab, new_bundle, "--yes"), timeout=SECONDS)
    assert set(versions(old_lab).values()) == {TAG}
    assert cordoned(old_lab) == []
    found = json.loads(kubectl(old_lab, f"get node {old_lab.node('cp1')} -o json"))
    assert "appliance.dev/upgrade" not in found["metadata"]["annotations"]
    old_lab.settled()
