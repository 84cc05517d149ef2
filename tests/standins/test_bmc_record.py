"""A recorded tree: what is in it, what is not, and that a BMC made of it behaves the same."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.hardware import redfish_record
from appliance.adapters.hardware.redfish import RedfishBmcs
from appliance.adapters.hardware.redfish_driver import RedfishDriver
from appliance.adapters.hardware.redfish_record import RecordedTree, RedfishRecorder, links
from appliance.errors import NodeUnreachable
from appliance.model.state.facts.identity import MachineIdentity, identity
from appliance.model.support.redfish_tree import recording
from tests.standins import simulated_bmcs
from tests.standins.simulated_bmcs import (
    LOGIN,
    SYSTEM,
    TREES,
    configured,
    own_system,
    secrets,
    simulated,
)

KEY = b"k" * 32
IMAGE = "http://192.0.2.9:8080/inst.iso"
SECRETS = {
    SYSTEM: {
        "SerialNumber": "QTFCA7-SECRET-1",
        "UUID": "4c4c4544-0042-3510-8051-b4c04f4d3732",
        "HostName": "gpu1.customer.test",
        "AssetTag": "customer rack 7",
        "Description": "QTFCA7-SECRET-1 in rack 7 at 10.20.30.40",
        "BiosVersion": "1.73.12.0",
        "Oem": {
            "Vendor": {
                "AdminPassword": "hunter22",
                "LicenseKey": "AAAA-BBBB-CCCC",
                "Mac": "0C:C4:7A:12:34:56",
                "MACAddress": "0CC47A123456",
                "Notes": f"log in as {LOGIN['user']} with {LOGIN['password']}",
            }
        },
    },
    "/redfish/v1/Chassis/Self": {"SerialNumber": "QTFCA7-SECRET-1"},
    "/redfish/v1/Systems/Self/Bios": {"Attributes": {"SETUP_PASSWORD": "hunter22", "SMT": "On"}},
}
CANARIES = (
    *("QTFCA7", "b4c04f4d3732", "customer", "10.20.30.40", "hunter22", "AAAA-BBBB", "123456"),
    *("0cc47a", "12:34:56", LOGIN["password"], LOGIN["user"]),
)


@contextmanager
def recorded(folder: Path, **more: Any) -> Iterator[tuple[RecordedTree, RedfishRecorder]]:
    system = more.pop("system", None)
    with simulated(folder, configured(**more)) as (server,):
        known = secrets(folder)
        recorder = RedfishRecorder(lambda: known, server.server_address[1])
        yield recorder.record(simulated_bmcs.node(bmc_system=system)), recorder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bmcs")


def test_a_recording_holds_no_secret_and_no_identity(folder: Path) -> None:
    with recorded(folder, changes=SECRETS) as (tree, recorder):
        raw = json.dumps(tree.resources)
        text = recording(tree.resources, tree.missing, "a test", KEY, recorder.logins())
    for canary in CANARIES:
        assert canary.lower() in raw.lower(), f"the premise: {canary} was there"
        assert canary.lower() not in text.lower(), canary
    found = json.loads(text)["resources"]
    system = found[SYSTEM]
    assert system["BiosVersion"] == "1.73.12.0"
    assert system["SerialNumber"] == found["/redfish/v1/Chassis/Self"]["SerialNumber"]
    assert system["SerialNumber"] in system["Description"]
    assert system["Oem"]["Vendor"]["AdminPassword"] is None
    assert found["/redfish/v1/Systems/Self/Bios"]["Attributes"] == {
        "SETUP_PASSWORD": None,
        "SMT": "On",
    }


def test_a_placeholder_of_the_firmware_stays(folder: Path) -> None:
    with recorded(folder, changes={SYSTEM: {"SerialNumber": "To be filled by O.E.M."}}) as (
        tree,
        _,
    ):
        text = recording(tree.resources, tree.missing, "a test", KEY)
    assert json.loads(text)["resources"][SYSTEM]["SerialNumber"] == "To be filled by O.E.M."


def test_logs_accounts_and_other_hosts_are_not_walked() -> None:
    root = "/redfish/v1"
    resource = {
        "Systems": {"@odata.id": f"{root}/Systems/"},
        "Power": [{"@odata.id": f"{root}/Chassis/1/Power#/PowerSupplies/0"}],
        "AccountService": {"@odata.id": f"{root}/AccountService"},
        "LogServices": {"@odata.id": f"{root}/Systems/1/LogServices/SEL"},
        "Away": [{"@odata.id": link} for link in (
            "https://evil.test/redfish/v1/x", "//evil.test/x", "/etc/passwd", "/redfish/v1x",
            f"{root}/../../x", f"{root}/x?only=y", 7, None, f"{root}/" + "x" * 400,
        )],
    }  # fmt: skip
    assert list(links(resource)) == [f"{root}/Systems", f"{root}/Chassis/1/Power"]


def test_a_tree_without_an_end_is_cut(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redfish_record, "MOST_RESOURCES", 5)
    with recorded(folder) as (tree, _):
        assert len(tree.resources) == 5
        assert tree.cut == "5 resources were read"


def test_what_does_not_answer_is_named_and_holds_up_nothing(folder: Path) -> None:
    faults = [
        {"path": ".*/Memory", "status": 500},
        {"path": ".*/Bios", "status": 200, "body": "[]"},
    ]
    with recorded(folder, faults=faults) as (tree, _):
        assert tree.missing == {
            "/redfish/v1/Systems/Self/Memory": "500",
            "/redfish/v1/Systems/Self/Bios": "no answer that is Redfish",
        }
        assert "/redfish/v1/Chassis/Self" in tree.resources


def test_a_bmc_that_lets_nobody_in_is_not_recorded(folder: Path) -> None:
    with pytest.raises(NodeUnreachable, match="401"), recorded(folder, password="other"):  # noqa: S106
        pass


@pytest.mark.parametrize("path", TREES, ids=lambda path: path.stem)
def test_a_recording_of_a_tree_is_read_and_driven_as_the_tree_is(path: Path, folder: Path) -> None:
    """Every fixture, through the readers and the driver; and what was recorded of it as well."""
    document = json.loads(path.read_text())
    assert document["origin"] in ("made", "recorded")
    system = own_system(document)
    with recorded(folder, tree=str(path), changes={}, system=Path(system).name) as (tree, _):
        whole = recording(tree.resources, tree.missing, "a test", KEY)
    copy = folder / f"{path.stem}.json"
    copy.write_text(whole)
    found = [driven(folder, one) for one in (path, copy)]
    made = document["resources"][system]
    assert found[0] == identity(made.get("SerialNumber"), made["UUID"])
    assert found[0].uuid != found[1].uuid is not None


def driven(folder: Path, tree: Path) -> MachineIdentity:
    """Image the machine, and say which it is as fencing reads it."""
    node = simulated_bmcs.node(bmc_system=Path(own_system(json.loads(tree.read_text()))).name)
    known = secrets(folder)
    with simulated(folder, configured(tree=str(tree), changes={})) as (server,):
        port = server.server_address[1]
        with RedfishDriver(lambda: known, port).open(node) as bmc:
            bmc.require(bmc.machine().identity)
            bmc.power("cut")
            assert bmc.insert(IMAGE).image == IMAGE
            assert bmc.boot_once("cd").source == "Cd"
            bmc.power("on")
            bmc.eject()
        report = RedfishBmcs(lambda: known, port).report(node)
        assert [one[1:] for one in server.bmc.machine.boots] == [("Cd", IMAGE)]
    assert report is not None
    assert not report.reason
    return report.machine
