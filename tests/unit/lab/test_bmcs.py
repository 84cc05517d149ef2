"""``lab up --with bmc``: what the site gets, when its BMCs start, and when they end."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any

import pytest
import yaml

from appliance.errors import LabError, Refused
from appliance.lab.bmcs import LabBmc, LabBmcProgram, configuration, plan_bmcs
from appliance.lab.down import lab_down
from appliance.lab.layout import node_facts, plan_lab
from appliance.lab.site.site import LabExtras
from appliance.lab.site.sites import LabSiteFiles
from appliance.lab.up import lab_up
from appliance.model.node.bmc.report import Login
from appliance.model.site.settings import NodeSettings
from tests.standins.simulated_bmcs import bmc_standin
from tests.unit.lab.fake_bmcs import FINGERPRINT
from tests.unit.lab.test_workflows import REQUEST, FakeMachine, down_ports, ports

NETWORK = IPv4Network("198.18.7.0/24")
WITH = replace(REQUEST, extras=LabExtras(bmcs=True), bundle_is_there=True)
NODES = "lab-cp1 lab-w1 lab-w2"


def test_every_node_has_a_bmc_of_its_own_in_the_labs_network() -> None:
    lab = plan_lab("lab", NETWORK, control_planes=3, workers=20)
    found = plan_bmcs(lab)
    assert [bmc.node for bmc in found] == [node.name for node in lab.nodes]
    addresses = {bmc.address for bmc in found}
    assert len(addresses) == len(lab.nodes)
    assert all(address in NETWORK for address in addresses)
    # The network's own: its broadcast, the bridge, and the virtual address of the API.
    kept = {NETWORK.broadcast_address, *(NETWORK.network_address + n for n in (0, 1, 10))}
    assert not addresses & (kept | {node.address for node in lab.nodes})


def test_the_stand_in_takes_what_it_is_told_and_is_the_machine_of_the_nodes_facts() -> None:
    bmc = LabBmc("lab-w1", IPv4Address("198.18.7.221"))
    program = LabBmcProgram("/usr/bin/podman", "/site/keys", ("/usr/bin/podman", "ps"))
    told = configuration([bmc], {"lab-w1": Login("operator", "canary")}, program)
    (one,) = json.loads(json.dumps(told))["bmcs"]
    made = bmc_standin.bmc_of(one).machine
    system = made._resources["/redfish/v1/Systems/Self"]
    assert system["SerialNumber"] == node_facts("lab-w1")["dmi"]["serial"]
    assert "UUID" not in system
    assert made.accounts.lets_in("operator", "canary", made.quirks)


def test_bmcs_start_once_the_nodes_are_there_and_before_the_install() -> None:
    machine = FakeMachine()
    result = lab_up(WITH, ports(machine))
    assert machine.done == ["site", "key", "lab_up", f"site's BMCs {NODES}", "install"]
    assert machine.bmcs.done == ["BMCs of lab"]
    assert "BMCs" in result.seconds
    (state,) = machine.bmcs.running("lab")
    assert [*state.addresses] == NODES.split()


def test_without_the_option_a_lab_has_none() -> None:
    machine = FakeMachine()
    lab_up(REQUEST, ports(machine))
    assert machine.bmcs.running() == ()
    assert not any("BMCs" in line for line in machine.done)


def test_a_second_run_starts_bmcs_that_died_and_leaves_those_that_run() -> None:
    machine = FakeMachine()
    lab_up(WITH, ports(machine))
    notes: list[str] = []
    lab_up(WITH, ports(machine, notes=notes))
    assert "BMCs: they run" in notes
    assert machine.bmcs.done == ["BMCs of lab"]
    machine.bmcs.die("lab")
    lab_up(WITH, ports(machine, notes=notes))
    assert f"BMCs: started for {', '.join(NODES.split())} (stand-ins)" in notes
    (state,) = machine.bmcs.running("lab")
    assert state.pid is not None


def test_bmcs_that_outlived_their_network_do_not_move_the_lab() -> None:
    """Somebody removed the containers by hand: the BMCs' addresses are this machine's still."""
    machine = FakeMachine()
    first = lab_up(WITH, ports(machine))
    machine.running, machine.networks_of = [], {}
    (state,) = machine.bmcs.running("lab")
    machine.taken = frozenset(IPv4Network(address) for address in state.addresses.values())
    machine.bmcs.done.clear()
    second = lab_up(WITH, ports(machine))
    assert second.lab == first.lab
    # podman makes no network in which this machine has an address.
    assert machine.bmcs.done == ["no BMCs of lab", "BMCs of lab"]


def test_a_dry_run_starts_none() -> None:
    machine = FakeMachine()
    lab_up(replace(WITH, dry_run=True), ports(machine))
    assert (machine.done, machine.bmcs.done) == ([], [])


def test_down_ends_the_bmcs_of_this_lab_first() -> None:
    machine = FakeMachine()
    lab_up(WITH, ports(machine))
    lab_up(replace(WITH, name="other", site_directory=Path("/sites/other")), ports(machine))
    notes: list[str] = []
    down = replace(down_ports(machine, notes), stop_bmcs=machine.bmcs.stop)
    lab_down("lab", down, dry_run=True)
    assert len(machine.bmcs.running()) == 2
    lab_down("lab", down)
    assert [one.lab for one in machine.bmcs.running()] == ["other"]
    assert notes == ["ended: the BMCs of lab lab (stand-ins)"]


def test_nodes_stay_where_their_bmcs_do_not_end() -> None:
    machine = FakeMachine()
    lab_up(WITH, ports(machine))

    def stuck(_lab: str) -> bool:
        raise LabError("process 4711")

    with pytest.raises(LabError):
        lab_down("lab", replace(down_ports(machine, []), stop_bmcs=stuck))
    assert len(machine.nodes("lab")) == len(NODES.split())


@dataclass
class OpenVault:
    """A vault without a password, in place of the site's."""

    secrets: dict[str, str] = field(default_factory=dict)
    changes: int = 0

    def read(self) -> Mapping[str, str]:
        return dict(self.secrets)

    def change(self, changes: Mapping[str, str]) -> None:
        self.changes += 1
        self.secrets |= changes


@pytest.fixture
def vault(monkeypatch: pytest.MonkeyPatch) -> OpenVault:
    made = OpenVault()
    monkeypatch.setattr("appliance.adapters.site.files.load_site", lambda directory: directory)
    monkeypatch.setattr("appliance.adapters.site.vault.SiteVault", lambda _site: made)
    return made


@pytest.fixture
def site(tmp_path: Path) -> Path:
    for bmc in BMCS:
        path = tmp_path / "host_vars" / f"{bmc.node}.yml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"# by hand\naddress: {bmc.address - 200}/24\nhardware: lab/container\n")
    return tmp_path


BMCS = plan_bmcs(plan_lab("lab", NETWORK, control_planes=1, workers=1))
PINS = {bmc.node: FINGERPRINT for bmc in BMCS}


def give(directory: Path, pins: Mapping[str, str] = PINS) -> Mapping[str, Login]:
    def unused(*_: Any) -> None:
        raise AssertionError("there is a site")

    return LabSiteFiles(unused).give_bmcs(directory, BMCS, pins)


def host_vars(directory: Path) -> dict[str, Any]:
    return {
        path.stem: yaml.safe_load(path.read_text())
        for path in sorted((directory / "host_vars").iterdir())
    }


def test_a_site_gets_address_fingerprint_and_one_login_in_the_vault(
    site: Path, vault: OpenVault
) -> None:
    logins = give(site)
    assert host_vars(site) == {
        bmc.node: {
            "address": f"{bmc.address - 200}/24",
            "hardware": "lab/container",
            "bmc_address": str(bmc.address),
            "bmc_fingerprint": FINGERPRINT,
        }
        for bmc in BMCS
    }
    for values in host_vars(site).values():
        assert NodeSettings.model_validate(values).bmc_address is not None
    password = vault.secrets["vault_bmc_password"]
    assert len(password) > 20
    assert logins == {bmc.node: Login("operator", password) for bmc in BMCS}
    assert not any(password in path.read_text() for path in (site / "host_vars").iterdir())


def test_a_second_time_nothing_is_written_and_the_login_is_the_same(
    site: Path, vault: OpenVault
) -> None:
    first = give(site)
    before = {path: path.stat().st_mtime_ns for path in (site / "host_vars").iterdir()}
    assert give(site) == first
    assert vault.changes == 1
    assert {path: path.stat().st_mtime_ns for path in (site / "host_vars").iterdir()} == before


def test_a_password_that_was_changed_since_is_that_of_the_bmcs(
    site: Path, vault: OpenVault
) -> None:
    give(site)
    vault.change({"vault_bmc_password": "another"})
    assert {login.password for login in give(site).values()} == {"another"}


def test_new_certificates_are_pinned_in_place_of_those_that_were_lost(
    site: Path, vault: OpenVault
) -> None:
    give(site)
    new = dict.fromkeys(PINS, "11" * 32)
    give(site, new)
    assert {v["bmc_fingerprint"] for v in host_vars(site).values()} == {"11" * 32}
    assert vault.changes == 1


def test_a_bmc_that_is_not_the_labs_is_left_and_named(site: Path, vault: OpenVault) -> None:
    path = site / "host_vars/lab-w1.yml"
    path.write_text(path.read_text() + "bmc_address: 192.0.2.7\n")
    before = host_vars(site)
    with pytest.raises(Refused) as refused:
        give(site)
    assert "lab-w1.yml: bmc_address is 192.0.2.7, the lab's is 198.18.7.221" in str(
        refused.value.details[0]
    )
    assert (host_vars(site), vault.changes) == (before, 0)
