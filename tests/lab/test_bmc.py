"""A machine is off, its Node still Ready, and its BMC proves it; BMCs switch nodes: stand-ins."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from appliance.lab.machine.bmcs import BmcProcesses
from tests.commands import appliance, succeed
from tests.lab.conftest import LabSite, wait_for
from tests.lab.support.bmcs import as_it_was, bmcs_of
from tests.lab.support.cluster import kubectl
from tests.lab.support.faults import shell, ssh_answers, wait_for_ssh
from tests.lab.support.faults_cluster import power_off
from tests.lab.support.matrix import SECONDS, whole
from tests.lab.support.runbook import Runbook
from tests.this_run import OS

PAGE = Runbook("power-of-nodes")

pytestmark = [pytest.mark.lab, pytest.mark.slow]


def test_a_bmc_proves_what_the_api_has_not_noticed(installed_lab: LabSite) -> None:
    lab = installed_lab
    whole(lab)
    words = ["node", "remove", lab.node("w2"), "--site", str(lab.directory), "--dry-run"]
    with power_off(lab.node("w2")):
        refused = appliance(*words)
        assert refused.returncode == 3, refused.stdout + refused.stderr
        assert "found a Ready Node" in refused.stderr
        with bmcs_of(lab, ["w2"]) as password:
            proven = appliance(*words)
    assert proven.returncode == 0, proven.stdout + proven.stderr
    said = f"the BMC of its machine (serial STANDIN-{lab.node('w2')}) reports power off"
    assert said in proven.stdout + proven.stderr
    assert password not in proven.stdout + proven.stderr


def test_a_lost_node_that_is_on_is_powered_off_before_its_pods_are_deleted(
    installed_lab: LabSite,
) -> None:
    """Its network is gone and its containers run: nothing but its BMC can end them."""
    lab, name = installed_lab, installed_lab.node("w2")
    whole(lab)
    site, address = ("--site", str(lab.directory)), lab.address("w2")
    lost = ("node", "maintain", name, "--lost", *site)
    cut = f"power off {name} by its BMC (serial STANDIN-{name}), which reports power On"
    with bmcs_of(lab, ["w2"]) as password:
        shell(name, "ip link set eth0 down")
        wait_for("NotReady", lambda: not _is_ready(lab, name), 180)
        assert not ssh_answers(address)
        for words in (lost, ("node", "remove", name, *site)):
            assert cut in succeed(*words, "--dry-run", timeout=SECONDS).stdout
        assert _runs(name)
        done = succeed(*lost, "--yes", "--output", "json", timeout=SECONDS)
        assert not _runs(name)
        assert "reports power Off; nothing answers at" in json.loads(done.stdout)["powered_off"]
        assert password not in done.stdout + done.stderr
        fenced = done.stderr.index("maintain: fence: verified")
        assert fenced < done.stderr.index("maintain: taint")
        succeed("node", "power", "on", name, *site, "--yes")
        wait_for_ssh(address, 60)
        succeed("node", "return", name, *site, "--yes", timeout=SECONDS)
    whole(lab)


def _is_ready(lab: LabSite, name: str) -> bool:
    found = json.loads(kubectl(lab, f"get node {name} -o json"))
    conditions = found["status"]["conditions"]
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def _runs(name: str) -> bool:
    words = ["podman", "container", "inspect", name, "--format", "{{.State.Running}}"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout == "true\n"


def test_nodes_are_switched_by_their_bmcs(installed_lab: LabSite, tmp_path: Path) -> None:
    """The page of the power of nodes, in its order but for the ``off`` of what is off."""
    lab, record = installed_lab, tmp_path / "gpu2-redfish.json"
    whole(lab)
    address = lab.address("w2")
    values = {"SITE": str(lab.directory), "gpu1": lab.node("w1"), "gpu2": lab.node("w2"),
              "gpu2-redfish.json": str(record)}  # fmt: skip
    with bmcs_of(lab, ["w1", "w2"]) as password:
        words = PAGE.words("appliance node power status gpu1 --site SITE --output json", values)
        assert [one["power"] for one in json.loads(succeed(*words).stdout)] == ["On"]
        words = PAGE.words("appliance node maintain gpu2 --shutdown --site SITE", values)
        succeed(*words, "--yes", timeout=SECONDS)
        assert not ssh_answers(address)
        succeed(*PAGE.words("appliance node power off gpu2 --site SITE", values), "--yes")
        succeed(*PAGE.words("appliance node power on gpu1 gpu2 --site SITE", values), "--yes")
        wait_for_ssh(address, 60)
        succeed(*PAGE.words(
            "appliance hardware record gpu2 --to gpu2-redfish.json --site SITE", values
        ))  # fmt: skip
        assert password not in record.read_text()
        words = PAGE.words(
            "appliance node power cycle gpu2 --hard --allow-outage --site SITE", values
        )
        succeed(*words, "--yes", timeout=SECONDS)
        wait_for_ssh(address, 60)
        again = ("node", "return", lab.node("w2"), "--site", str(lab.directory), "--yes")
        succeed(*again, timeout=SECONDS)
    whole(lab)


def test_lab_up_gives_every_node_a_bmc_and_starts_what_died(installed_lab: LabSite) -> None:
    lab = installed_lab
    whole(lab)
    site, name = ("--site", str(lab.directory)), lab.node("w2")
    up = ("lab", "up", "--name", lab.name, *site, "--os", OS, "--with", "bmc", "--bare", "--yes")
    power = ("node", "power", "status", *site, "--output", "json")
    with as_it_was(lab):
        succeed(*up, timeout=SECONDS)
        found = json.loads(succeed(*power).stdout)
        assert {one["node"]: one["power"] for one in found} == {
            lab.node(short): "On" for short in ("cp1", "w1", "w2")
        }
        assert all("bmc" in parts for parts in lab.status()["standins"].values())
        process = _bmcs(lab)["pid"]
        os.kill(process, signal.SIGKILL)
        wait_for("the end of the BMCs", lambda: _bmcs(lab)["pid"] is None, 30)
        found = json.loads(succeed(*power).stdout)
        assert [one["power"] for one in found] == [None, None, None], "unknown is not Off"
        again = succeed(*up, timeout=SECONDS)
        assert "BMCs: started for" in again.stderr
        # A node that podman started, and no BMC.
        cycle = ("node", "power", "cycle", name, "--hard", "--allow-outage", *site, "--yes")
        began = _started(name)
        succeed(*cycle, timeout=SECONDS)
        assert _started(name) != began
        wait_for_ssh(lab.address("w2"), 60)
        whole(lab)
        assert "BMCs: they run" in succeed(*up, timeout=SECONDS).stderr
    assert not BmcProcesses().running(lab.name)
    whole(lab)


def _bmcs(lab: LabSite) -> dict[str, Any]:
    words = ("lab", "status", "--name", lab.name, "--output", "json")
    (found,) = json.loads(succeed(*words).stdout)["bmcs"]
    return dict(found)


def _started(name: str) -> str:
    words = ["podman", "container", "inspect", name, "--format", "{{.State.StartedAt}}"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout
