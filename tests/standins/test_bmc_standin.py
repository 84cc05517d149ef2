"""The BMC adapter against the stand-in, over TLS: believed by the right CA alone."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.hardware.redfish import RedfishBmcs
from appliance.errors import ConfigError
from appliance.model.node.bmc import BmcReport
from appliance.model.site.settings import Node
from appliance.model.state.facts.identity import identity
from tests import samples
from tests.prerequisites import require

FILE = Path(__file__).parents[2] / "appliance/lab/standins/bmc_standin/bmc_standin.py"
LOGIN = {"user": "operator", "password": "canary-of-the-bmc"}
ADDRESS = "127.0.0.1"
W1 = replace(samples.site().node("w1"), bmc_address=IPv4Address(ADDRESS))


@dataclass(frozen=True)
class Bmc:
    """A BMC that runs: its port, the CA of its certificate, and the file that says its power."""

    port: int
    authority: str
    power: Path

    def asks(self, **changes: str) -> RedfishBmcs:
        secrets = {
            "vault_bmc_user": LOGIN["user"],
            "vault_bmc_password": LOGIN["password"],
            "vault_bmc_ca_certificate": self.authority,
        }
        return RedfishBmcs(lambda: {**secrets, **changes}, self.port)


def certificate(folder: Path, address: str = ADDRESS) -> str:
    """A self-signed certificate for the address, as BMCs bring one."""
    require("openssl")
    words = (
        *("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=bmc"),
        *("-addext", f"subjectAltName=IP:{address}"),
        *("-keyout", str(folder / "bmc.key"), "-out", str(folder / "bmc.crt")),
    )
    subprocess.run(["openssl", *words], check=True, capture_output=True, timeout=60)
    return (folder / "bmc.crt").read_text()


@pytest.fixture(scope="module")
def bmc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bmc]:
    folder = tmp_path_factory.mktemp("bmc")
    authority = certificate(folder)
    (folder / "login.json").write_text(json.dumps(LOGIN))
    power = folder / "power"
    power.write_text("true\n")
    words = (
        *("--address", ADDRESS, "--port", "0", "--serial", "SN-w1"),
        *("--certificate", str(folder / "bmc.crt"), "--key", str(folder / "bmc.key")),
        *("--login", str(folder / "login.json"), "--power", f"{shutil.which('cat')} {power}"),
    )
    process = subprocess.Popen(
        [sys.executable, str(FILE), *words], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        yield Bmc(int(process.stdout.readline()), authority, power)
    finally:
        process.kill()
        process.wait(10)
        process.stdout.close()


def test_on_and_off_are_reported_with_the_serial(bmc: Bmc) -> None:
    assert bmc.asks().report(W1) == BmcReport("SN-w1")
    bmc.power.write_text("false\n")
    try:
        found = bmc.asks().report(W1)
    finally:
        bmc.power.write_text("true\n")
    assert found == BmcReport("SN-w1", powered_off=True)
    assert found.confirms_off(identity("SN-w1"))
    assert not found.confirms_off(identity("SN-other"))
    assert not found.confirms_off(identity())


def test_a_node_without_bmc_is_not_asked() -> None:
    def no_secrets() -> Any:
        raise AssertionError

    assert RedfishBmcs(no_secrets).report(replace(W1, bmc_address=None)) is None


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"vault_bmc_password": "wrong"}, "401"),
        ({"vault_bmc_password": ""}, "vault.yml has no vault_bmc_password"),
        ({"vault_bmc_user": "", "vault_bmc_password": ""}, "vault_bmc_user and no vault_bmc_pass"),
        ({"vault_bmc_ca_certificate": "", "vault_site_ca_certificate": ""}, "ertificate"),
    ],
)
def test_what_is_in_the_way_is_said(bmc: Bmc, changes: dict[str, str], reason: str) -> None:
    found = bmc.asks(**changes).report(W1)
    assert found is not None
    assert reason in found.reason
    assert not found.confirms_off(identity("SN-w1"))
    assert LOGIN["password"] not in repr(found)


def test_credentials_go_to_no_bmc_that_another_ca_vouches_for(bmc: Bmc, tmp_path: Path) -> None:
    found = bmc.asks(vault_bmc_ca_certificate=certificate(tmp_path)).report(W1)
    assert found is not None
    assert "CERTIFICATE_VERIFY_FAILED" in found.reason


def test_a_bmc_that_is_away_is_named(bmc: Bmc) -> None:
    away: Node = replace(W1, bmc_address=IPv4Address("127.0.0.2"))
    found = bmc.asks().report(away)
    assert found is not None
    assert "127.0.0.2" in found.reason


def test_a_vault_that_does_not_open_is_said() -> None:
    def closed() -> Any:
        raise ConfigError("the vault does not open")

    assert RedfishBmcs(closed).report(W1) == BmcReport(reason="the vault does not open")
