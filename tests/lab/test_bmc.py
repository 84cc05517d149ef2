"""A machine is off, its Node still Ready, and its BMC proves it; the BMC is a stand-in."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from appliance.adapters.site.vault import KEPT, AnsibleVault
from tests.commands import appliance
from tests.lab.conftest import LabSite
from tests.lab.support.faults_cluster import power_off
from tests.lab.support.matrix import whole
from tests.standins.simulated_bmcs import (
    FILE,
    LOGIN,
    SYSTEM,
    certificate,
    configuration,
    configured,
)

pytestmark = [pytest.mark.lab, pytest.mark.slow]


@contextmanager
def bmc_of(lab: LabSite, short: str, folder: Path) -> Iterator[None]:
    """A BMC that says whether the node's container runs, in the inventory and in the vault."""
    address = lab.address(short).rsplit(".", 1)[0] + ".1"
    authority = certificate(folder, address)
    running = f"{shutil.which('podman')} container inspect {lab.node(short)}"
    bmc = configured(
        address=address,
        port=443,
        changes={SYSTEM: {"SerialNumber": f"STANDIN-{lab.node(short)}", "UUID": None}},
        power=running + " --format '{{.State.Running}}'",
    )
    (folder / "config.json").write_text(json.dumps(configuration(bmc)))
    process = subprocess.Popen(
        [sys.executable, str(FILE), str(folder / "config.json")], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    host = lab.directory / "host_vars" / f"{lab.node(short)}.yml"
    secrets = lab.directory / "group_vars/all/vault.yml"
    before = {path: path.read_text() for path in (host, secrets)}
    vault = AnsibleVault(lab.directory / KEPT)
    try:
        assert process.stdout.readline() == "443\n"
        host.write_text(yaml.safe_dump({**yaml.safe_load(before[host]), "bmc_address": address}))
        more = {
            "vault_bmc_user": LOGIN["user"],
            "vault_bmc_password": LOGIN["password"],
            "vault_bmc_ca_certificate": authority,
        }
        secrets.write_text(vault.encrypt(yaml.safe_dump({**vault.read(secrets), **more})))
        yield
    finally:
        for path, text in before.items():
            path.write_text(text)
        process.kill()
        process.wait(10)
        process.stdout.close()


def test_a_bmc_proves_what_the_api_has_not_noticed(installed_lab: LabSite, tmp_path: Path) -> None:
    lab = installed_lab
    whole(lab)
    words = ["node", "remove", lab.node("w2"), "--site", str(lab.directory), "--dry-run"]
    with power_off(lab.node("w2")):
        refused = appliance(*words)
        assert refused.returncode == 3, refused.stdout + refused.stderr
        assert "found a Ready Node" in refused.stderr
        with bmc_of(lab, "w2", tmp_path):
            proven = appliance(*words)
    assert proven.returncode == 0, proven.stdout + proven.stderr
    said = f"the BMC of its machine (serial STANDIN-{lab.node('w2')}) reports power off"
    assert said in proven.stdout + proven.stderr
    assert LOGIN["password"] not in proven.stdout + proven.stderr
