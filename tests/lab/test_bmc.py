"""A machine is off, its Node still Ready, and its BMC proves it; the BMC is a stand-in."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands import appliance
from tests.lab.conftest import LabSite
from tests.lab.support.bmcs import bmcs_of
from tests.lab.support.faults_cluster import power_off
from tests.lab.support.matrix import whole
from tests.standins.simulated_bmcs import LOGIN

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
