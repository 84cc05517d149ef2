"""A worker that was wiped comes back by the same command; another machine in its place does not.

The tests of this file tell one story and run in its order, on the lab that was installed before.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import time

import pytest

from tests.lab.conftest import LabSite
from tests.lab.support import faults
from tests.lab.support.cluster import KUBECTL
from tests.lab.support.stillness import Scene, assert_still, scene

pytestmark = pytest.mark.lab

LOST, STAYING = "w2", ("cp1", "w1")
TYPE = "run.ai/type"


@pytest.fixture(scope="module")
def whole(installed_lab: LabSite) -> Scene:
    """Every node before anything happens to one of them."""
    installed_lab.settled()
    installed_lab.shell("cp1", f"{KUBECTL} label node {installed_lab.node(LOST)} {TYPE}=standin")
    return scene(installed_lab)


def _others_are_still(lab: LabSite, whole: Scene) -> None:
    assert_still(whole, scene(lab), [lab.node(short) for short in STAYING])


def test_another_machine_in_the_place_of_a_worker_is_refused(
    installed_lab: LabSite, whole: Scene
) -> None:
    lab = installed_lab
    name = lab.node(LOST)
    faults.wipe(lab.directory, name, serial="STANDIN-another")
    before = scene(lab)
    done = lab.install()
    assert done.returncode == 3, done.stdout + done.stderr
    assert (
        f"error: {name}: passport: found DMI serial STANDIN-another, "
        f"expected STANDIN-{name}, which this node had when it joined"
    ) in done.stderr
    assert f"appliance node add {name} --replace {name}" in done.stderr
    assert_still(before, scene(lab))
    _others_are_still(lab, whole)


def test_a_wiped_worker_has_another_host_key_and_the_hint_helps(
    installed_lab: LabSite, whole: Scene
) -> None:
    """On a rack nobody writes known_hosts for the operator, as a lab does for its own nodes."""
    lab = installed_lab
    known_hosts = lab.directory / "known_hosts"
    text = known_hosts.read_text()
    faults.wipe(lab.directory, lab.node(LOST))
    known_hosts.write_text(text)
    done = lab.install()
    assert done.returncode == 4, done.stdout + done.stderr
    assert f"error: {lab.node(LOST)} ({lab.address(LOST)}): wrong host key" in done.stderr
    (hint,) = re.findall(r"hint: .*if it was reinstalled: (.*) && ", done.stderr)
    subprocess.run(shlex.split(hint), check=True, capture_output=True, timeout=30)
    assert lab.address(LOST) not in known_hosts.read_text()
    _others_are_still(lab, whole)


def test_the_same_command_brings_a_wiped_worker_back(installed_lab: LabSite, whole: Scene) -> None:
    lab, name = installed_lab, installed_lab.node(LOST)
    records = len(lab.records())
    began = time.monotonic()
    done = lab.install("--accept-host-keys")
    print(f"rejoin: {time.monotonic() - began:.1f} s")  # noqa: T201 - a figure for the log
    assert done.returncode == 0, done.stdout + done.stderr
    status = lab.settled()
    assert [node["status"] for node in status["nodes"]] == ["Ready"] * 3
    # What its old Node object had was written down before that went.
    labels = lab.shell("cp1", f"{KUBECTL} get node {name} --show-labels")
    assert f"{TYPE}=standin" in labels
    lab.shell("cp1", f"{KUBECTL} label node {name} {TYPE}-")
    _others_are_still(lab, whole)
    touched = {node for record in lab.records()[records:] for node in record["nodes"]}
    changed = {
        record["step"]
        for record in lab.records()[records:]
        if record["step"] != "preflight" and set(record["nodes"]) != {name}
    }
    assert changed == set(), "steps for nodes that nothing was wrong with"
    assert name in touched


def test_then_nothing_is_left_to_do(installed_lab: LabSite) -> None:
    done = installed_lab.install()
    assert done.returncode == 0, done.stderr
    assert "nothing to do" in done.stdout
