"""The BMC adapter against the stand-in, over TLS: trusted by fingerprint or CA alone."""

from __future__ import annotations

import hashlib
import json
import shutil
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.hardware.redfish import RedfishBmcs
from appliance.errors import ConfigError
from appliance.model.node.bmc.report import BmcReport
from appliance.model.site.settings import Node
from appliance.model.state.facts.identity import identity
from tests.standins import simulated_bmcs
from tests.standins.simulated_bmcs import (
    ADDRESS,
    FILE,
    LOGIN,
    SERIAL,
    SYSTEM,
    certificate,
    configuration,
    configured,
)

W1 = simulated_bmcs.node()


@dataclass(frozen=True)
class Bmc:
    """A BMC that runs: its port, the CA of its certificate, and the file that says its power."""

    port: int
    authority: str
    power: Path

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(ssl.PEM_cert_to_DER_cert(self.authority)).hexdigest()

    def asks(self, **changes: str) -> RedfishBmcs:
        secrets = {
            "vault_bmc_user": LOGIN["user"],
            "vault_bmc_password": LOGIN["password"],
            "vault_bmc_ca_certificate": self.authority,
        }
        return RedfishBmcs(lambda: {**secrets, **changes}, self.port)


@contextmanager
def running(folder: Path, address: str = ADDRESS, **more: Any) -> Iterator[Bmc]:
    """A BMC in a process of its own, with a certificate for the address."""
    authority = certificate(folder, address)
    power = folder / "power"
    power.write_text("true\n")
    bmc = configured(power=f"{shutil.which('cat')} {power}", **more)
    (folder / "config.json").write_text(json.dumps(configuration(bmc)))
    process = subprocess.Popen(
        [sys.executable, str(FILE), str(folder / "config.json")], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        yield Bmc(int(process.stdout.readline()), authority, power)
    finally:
        process.kill()
        process.wait(10)
        process.stdout.close()


@pytest.fixture(scope="module")
def bmc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bmc]:
    with running(tmp_path_factory.mktemp("bmc")) as found:
        yield found


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bmc]:
    """A BMC that lists two systems, with a certificate for another address, as they are shipped."""
    systems = "/redfish/v1/Systems"
    members = [{"@odata.id": f"{systems}/Board_0"}, {"@odata.id": SYSTEM}]
    changes = {
        **SERIAL,
        systems: {"Members": members, "Members@odata.count": 2},
        f"{systems}/Board_0": {"Id": "Board_0", "Name": "STANDIN board", "PowerState": "On"},
    }
    folder = tmp_path_factory.mktemp("board")
    with running(folder, address="192.0.2.1", changes=changes) as found:
        yield found


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
    assert "no CA of the site signed its certificate" in found.reason


def test_a_bmc_that_is_away_is_named(bmc: Bmc) -> None:
    away: Node = replace(W1, bmc_address=IPv4Address("127.0.0.2"))
    found = bmc.asks().report(away)
    assert found is not None
    assert "127.0.0.2" in found.reason


def test_a_vault_that_does_not_open_is_said() -> None:
    def closed() -> Any:
        raise ConfigError("the vault does not open")

    assert RedfishBmcs(closed).report(W1) == BmcReport(reason="the vault does not open")


def test_a_pinned_certificate_is_trusted_whatever_its_names_say(board: Bmc) -> None:
    pinned = replace(W1, bmc_fingerprint=board.fingerprint, bmc_system="Self")
    assert board.asks(vault_bmc_ca_certificate="").report(pinned) == BmcReport("SN-w1")


def test_the_fingerprint_to_compare_is_said_before_a_password_is_sent(board: Bmc) -> None:
    found = board.asks(vault_bmc_password="wrong").report(W1)  # noqa: S106
    assert found is not None
    assert f"host_vars/w1.yml: bmc_fingerprint: {board.fingerprint}" in found.reason


def test_a_certificate_that_is_not_the_pinned_one_gets_no_password(bmc: Bmc) -> None:
    pinned = replace(W1, bmc_fingerprint="0" * 64)
    found = bmc.asks(vault_bmc_password="wrong").report(pinned)  # noqa: S106
    assert found is not None
    assert f"fingerprint {bmc.fingerprint}, not the bmc_fingerprint" in found.reason


@pytest.mark.parametrize(
    ("system", "reason"),
    [
        (None, "lists 2 systems (Board_0, Self), expected one; name this node's"),
        ("Other", "lists 2 systems (Board_0, Self), not the bmc_system Other"),
    ],
)
def test_of_several_systems_one_is_named(board: Bmc, system: str | None, reason: str) -> None:
    pinned = replace(W1, bmc_fingerprint=board.fingerprint, bmc_system=system)
    found = board.asks().report(pinned)
    assert found is not None
    assert reason in found.reason


def test_a_board_without_serial_proves_nothing(board: Bmc) -> None:
    pinned = replace(W1, bmc_fingerprint=board.fingerprint, bmc_system="Board_0")
    found = board.asks().report(pinned)
    assert found == BmcReport()
    assert not found.confirms_off(identity("SN-w1"))


@pytest.mark.parametrize(
    ("secrets", "reason"),
    [
        ({"vault_bmc_user_w1": LOGIN["user"], "vault_bmc_password_w1": LOGIN["password"]}, ""),
        ({"vault_bmc_user_w1": LOGIN["user"]}, "vault.yml has no vault_bmc_password_w1"),
        ({"vault_bmc_user_w2": "x", "vault_bmc_password_w2": "x"}, "401"),
    ],
)
def test_a_login_of_one_bmc_goes_before_the_common_one(
    bmc: Bmc, secrets: dict[str, str], reason: str
) -> None:
    found = bmc.asks(vault_bmc_user="common", vault_bmc_password="common", **secrets).report(W1)  # noqa: S106
    assert found is not None
    assert reason in found.reason
    assert bool(reason) == bool(found.reason)
