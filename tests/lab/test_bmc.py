"""A machine is off, its Node still Ready, and its BMC proves it; BMCs switch nodes: stand-ins."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.commands import appliance, succeed
from tests.lab.conftest import LabSite
from tests.lab.support.bmcs import bmcs_of
from tests.lab.support.faults import ssh_answers, wait_for_ssh
from tests.lab.support.faults_cluster import power_off
from tests.lab.support.matrix import SECONDS, whole
from tests.lab.support.runbook import Runbook
from tests.standins.simulated_bmcs import LOGIN

PAGE = Runbook("power-of-nodes")

pytestmark = [pytest.mark.lab, pytest.mark.slow]


def test_a_bmc_proves_what_the_api_has_not_noticed(installed_lab: LabSite, tmp_path: Path) -> None:
    lab = installed_lab
    whole(lab)
    words = ["node", "remove", lab.node("w2"), "--site", str(lab.directory), "--dry-run"]
    with power_off(lab.node("w2")):
        refused = appliance(*words)
        assert refused.returncode == 3, refused.stdout + refused.stderr
        assert "found a Ready Node" in refused.stderr
        with bmcs_of(lab, ["w2"], tmp_path):
            proven = appliance(*words)
    assert proven.returncode == 0, proven.stdout + proven.stderr
    said = f"the BMC of its machine (serial STANDIN-{lab.node('w2')}) reports power off"
    assert said in proven.stdout + proven.stderr
    assert LOGIN["password"] not in proven.stdout + proven.stderr


def test_nodes_are_switched_by_their_bmcs(installed_lab: LabSite, tmp_path: Path) -> None:
    """The page of the power of nodes, in its order but for the ``off`` of what is off."""
    lab, record = installed_lab, tmp_path / "gpu2-redfish.json"
    whole(lab)
    address = lab.address("w2")
    values = {"SITE": str(lab.directory), "gpu1": lab.node("w1"), "gpu2": lab.node("w2"),
              "gpu2-redfish.json": str(record)}  # fmt: skip
    with bmcs_of(lab, ["w1", "w2"], tmp_path):
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
        assert LOGIN["password"] not in record.read_text()
        words = PAGE.words(
            "appliance node power cycle gpu2 --hard --allow-outage --site SITE", values
        )
        succeed(*words, "--yes", timeout=SECONDS)
        wait_for_ssh(address, 60)
        again = ("node", "return", lab.node("w2"), "--site", str(lab.directory), "--yes")
        succeed(*again, timeout=SECONDS)
    whole(lab)
