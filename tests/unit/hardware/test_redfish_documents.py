"""Redfish documents become a report: what they tell, what they do not, and what is hostile."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import appliance
from appliance.model.checks.hardware.found import Machine, NotHardware
from appliance.model.checks.hardware.redfish import machine_of
from appliance.model.checks.hardware.redfish_links import path_of, wanted
from tests.unit.hardware.test_hostile_reports import JSON, leaves, use

TREES = Path(appliance.__file__).parent / "lab/standins/bmc_standin/trees"
GIB = 1024**3


def tree(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((TREES / f"{name}.json").read_text())["resources"]
    return found


def read(resources: dict[str, Any], system: str, failed: dict[str, str] | None = None) -> Machine:
    """What is made of the resources that the links lead to."""
    seen = {system: resources[system]}
    for _ in range(8):
        for path in list(wanted(seen, system)):
            if path in resources and path not in (failed or {}):
                seen[path] = resources[path]
    return machine_of(seen, system, failed or {})


QUANTA, OWN = tree("quanta-d43n-3u"), "/redfish/v1/Systems/1"


def test_a_made_tree_of_a_worker_is_read_whole() -> None:
    found = read(QUANTA, OWN)
    assert (found.identity.vendor, found.identity.product) == ("Quanta", "QuantaGrid D43N-3U")
    assert found.firmware.bmc == "STANDIN-BMC-2.0"
    assert [cpu.model for cpu in found.cpus or ()] == ["AMD EPYC 7543 32-Core Processor"] * 2
    filled = [dimm for dimm in found.dimms or () if dimm.size_bytes]
    assert (len(found.dimms or ()), len(filled)) == (32, 8)
    assert {(dimm.size_bytes, dimm.speed_mts) for dimm in filled} == {(32 * GIB, 3200)}
    assert found.memory.correction == "MultiBitECC"
    assert [(gpu.address, gpu.link_width, gpu.link_gts) for gpu in found.gpus or ()] == [
        (f"GPU{n}", 16, 16.0) for n in range(1, 5)
    ]
    assert [(nic.name, nic.link, nic.speed_mbps) for nic in found.nics or ()] == [
        ("eth0", True, 25000)
    ]
    assert [(disk.serial, disk.healthy, disk.wear_percent) for disk in found.disks or ()] == [
        ("STANDIN-S1", True, 2),
        ("STANDIN-S2", True, 2),
    ]
    assert (found.settings.secure_boot, found.settings.hypervisor) == (False, "none")


def test_what_a_bmc_does_not_tell_is_unknown() -> None:
    found = read(QUANTA, OWN)
    assert found.settings.iommu is None
    assert found.why("settings.iommu") == "a BMC does not tell it"
    assert found.why("gpus.GPU1.above_4g") == "a BMC does not tell it"
    assert found.why("memory.uncorrected").startswith("a BMC keeps memory errors")


@pytest.mark.parametrize(
    ("link", "part"),
    [
        ("Memory", "dimms"),
        ("Processors", "cpus"),
        ("Storage", "disks"),
        ("Bios", "bios_attributes"),
    ],
)
def test_a_missing_collection_is_unknown_not_empty(link: str, part: str) -> None:
    changed = copy.deepcopy(QUANTA)
    del changed[OWN][link]
    found = read(changed, OWN)
    assert getattr(found, part) is None
    assert found.why(part) == f"the BMC has no such resource: {link}"


def test_a_module_that_does_not_answer_is_not_a_missing_module() -> None:
    path = f"{OWN}/Memory/DIMM1"
    found = read(QUANTA, OWN, {path: "HTTP 503"})
    assert found.dimms is None
    assert found.why("dimms") == "HTTP 503"
    use(found)


def raid_tree() -> dict[str, Any]:
    """The worker's tree with a RAID controller and one array."""
    changed, own = copy.deepcopy(QUANTA), f"{OWN}/Storage/1"
    storage = changed[own]
    storage["StorageControllers"] = [{"SupportedRAIDTypes": ["RAID1"], "Status": {"Health": "OK"}}]
    storage["Volumes"] = {"@odata.id": f"{own}/Volumes"}
    changed[f"{own}/Volumes"] = {"Members": [{"@odata.id": f"{own}/Volumes/1"}]}
    changed[f"{own}/Volumes/1"] = {"Id": "1", "RAIDType": "RAID1", "Status": {"Health": "Warning"}}
    return changed


def test_a_raid_controller_and_its_arrays_are_read() -> None:
    found = read(raid_tree(), OWN)
    assert [(one.name, one.level, one.healthy) for one in found.raid or ()] == [
        ("controller-1", "controller", True),
        ("1", "RAID1", False),
    ]
    silent = read(raid_tree(), OWN, {f"{OWN}/Storage/1/Volumes/1": "HTTP 503"})
    assert (silent.raid, silent.why("raid")) == (None, "HTTP 503")
    assert read(QUANTA, OWN).raid == ()


def test_functions_tell_what_a_card_is() -> None:
    changed = copy.deepcopy(QUANTA)
    for number in range(1, 5):
        device = changed[f"/redfish/v1/Chassis/1/PCIeDevices/GPU{number}"]
        path = f"{device['@odata.id']}/PCIeFunctions"
        device["PCIeFunctions"] = {"@odata.id": path}
        kind = "DisplayController" if number < 4 else "Bridge"
        changed[path] = {"Members": [{"@odata.id": f"{path}/1"}]}
        changed[f"{path}/1"] = {"DeviceClass": kind, "VendorId": "0x10DE", "DeviceId": "0x2235"}
    found = read(changed, OWN)
    assert [(gpu.address, gpu.pci_id) for gpu in found.gpus or ()] == [
        (f"GPU{n}", "10de:2235") for n in range(1, 4)
    ]


def test_a_collection_of_several_pages_is_read_whole() -> None:
    changed = copy.deepcopy(QUANTA)
    first = changed[f"{OWN}/Memory"]
    second = f"{OWN}/Memory/page2"
    changed[second] = {"Members": first["Members"][20:], "Members@odata.nextLink": f"{OWN}/Memory"}
    first["Members"] = first["Members"][:20]
    first["Members@odata.nextLink"] = second
    assert len(read(changed, OWN).dimms or ()) == 32


@pytest.mark.parametrize(
    "link",
    ["https://evil.example/x", "/redfish/v1/../../etc", "/etc/passwd", "/redfish/v1/a b",
     "/redfish/v1/\x1b", "/redfish/v1/" + "x" * 600, None, 7, [], {}],
)  # fmt: skip
def test_a_link_out_of_the_service_is_not_followed(link: Any) -> None:
    assert path_of({"@odata.id": link}) is None


LEAVES = [one for one in leaves(QUANTA) if not one[0].startswith(f"{OWN}/Memory/DIMM1")]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(LEAVES), min_size=1, max_size=3), JSON)
def test_any_value_in_any_resource_is_refused_or_judged(
    places: list[tuple[Any, ...]], value: Any
) -> None:
    changed = copy.deepcopy(QUANTA)
    for path in places:
        put(changed, path, value)
    words = ""
    try:
        found = read(changed, OWN)
    except NotHardware as error:
        words = str(error)
    else:
        use(found)
    assert words.isprintable()


def put(document: Any, path: tuple[Any, ...], value: Any) -> None:
    for key in path[:-1]:
        try:
            document = document[key]
        except (KeyError, IndexError, TypeError):
            return
    try:
        document[path[-1]] = value
    except (IndexError, TypeError):
        return


@pytest.mark.parametrize(
    "resources", [{}, {OWN: {}}, {OWN: {"Memory": 7, "Links": [], "Bios": None}}]
)
def test_empty_documents_know_nothing(resources: dict[str, Any]) -> None:
    found = machine_of(resources, OWN, {})
    assert (found.dimms, found.gpus, found.identity.serial) == (None, None, None)
    use(found)
