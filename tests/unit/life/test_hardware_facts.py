"""What of a machine differs between two facts, by names that a person can type."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from appliance.model.state.facts.facts import NodeFacts
from appliance.model.state.facts.hardware import IDENTITY, Difference, compare, hardware_facts
from tests import samples

NODE = samples.site(gpu={}).workers[0]
GIB = 1024**3


def machine() -> dict[str, Any]:
    """A worker with two of everything."""
    document = samples.bare(NODE)
    document["os"]["kernel"] = "5.4.0-150-generic"
    document["modules"]["nvidia_version"] = "525.60.13"
    document["memory"] = {
        "dimms": [
            {"locator": slot, "size_bytes": 32 * GIB, "speed_mts": 3200, "serial": f"D-{slot}"}
            for slot in ("A1", "B1")
        ]
    }
    document["disks"] = [
        {"name": "sda", "serial": "S-1", "size_bytes": 894 * GIB, "model": "SSD"},
        {"name": "sdb", "serial": "STICK", "size_bytes": 16 * GIB, "transport": "usb"},
    ]
    document["gpus"] = [
        {
            "address": f"0000:{bus}:00.0",
            "vendor_id": "0x10de",
            "device_id": "0x20b5",
            "uuid": f"GPU-{bus}",
            "link_width": 16,
            "ecc_uncorrected": 0,
        }
        for bus in ("17", "65")
    ]
    document["nics"] = [
        {"name": "ens1", "mac": "52:00", "state": "up", "speed_mbps": 25000},
        {"name": "nic.7", "kind": "vlan", "mac": "52:00"},
    ]
    document["filesystems"] = [
        {"mount": "/", "device": "/dev/sda2", "fstype": "ext4", "for": ["/"]}
    ]
    return document


def facts(document: dict[str, Any], *, off: float = 0) -> dict[str, str]:
    epoch = document["clock"]["epoch"]
    return dict(hardware_facts(NodeFacts(document, received_at=epoch - off)))


def _put(document: dict[str, Any], path: str, value: Any) -> None:
    keys: list[Any] = [int(k) if k.isdigit() else k for k in path.split("/")]
    target: Any = document
    for key in keys[:-1]:
        target = target[key]
    if value is None and isinstance(target, list):
        del target[keys[-1]]
    else:
        target[keys[-1]] = value


# (what happens, path, value, the findings' words)
CASES: list[tuple[str, str, Any, list[str]]] = [
    (
        *("a DIMM is gone", "memory/dimms/0", None),
        ["dimm:A1: found none, expected 32 GiB 3200 MT/s serial D-A1"],
    ),
    (
        *("a DIMM runs slower", "memory/dimms/1/speed_mts", 2400),
        ["dimm:B1: found 32 GiB 2400 MT/s serial D-B1, expected 32 GiB 3200 MT/s serial D-B1"],
    ),
    ("a disk is gone", "disks/0", None, ["disk:S-1: found none, expected 894 GiB SSD"]),
    ("a USB stick is gone", "disks/1", None, []),
    (
        *("a GPU is gone, with its lanes and its counter", "gpus/1", None),
        ["gpu:0000:65:00.0: found none, expected 0x10de:0x20b5"],
    ),
    (
        *("another GPU in the slot", "gpus/0/uuid", "GPU-99"),
        ["uuid:0000:17:00.0: found GPU-99, expected GPU-17"],
    ),
    (
        *("a riser is not seated", "gpus/0/link_width", 8),
        ["pcie:0000:17:00.0: found x8, expected x16"],
    ),
    ("a link got wider", "gpus/0/link_width", 32, []),
    (
        *("memory errors", "gpus/0/ecc_uncorrected", 2),
        ["ecc:0000:17:00.0: found 2 uncorrected errors, expected 0 uncorrected errors"],
    ),
    (
        *("a cable is out", "nics/0/state", "down"),
        ["link:ens1: found down 25000 Mb/s, expected up 25000 Mb/s"],
    ),
    (
        *("a link is slower", "nics/0/speed_mbps", 10000),
        ["link:ens1: found up 10000 Mb/s, expected up 25000 Mb/s"],
    ),
    ("a card is gone, with its link", "nics/0", None, ["nic:ens1: found none, expected 52:00"]),
    (
        *("another kernel", "os/kernel", "5.4.0-99-generic"),
        ["kernel: found 5.4.0-99-generic, expected 5.4.0-150-generic"],
    ),
    ("no driver", "modules/nvidia_version", "", ["driver: found none, expected 525.60.13"]),
    (
        *("a file system is elsewhere", "filesystems/0/device", "/dev/sdc1"),
        ["mount:/: found /dev/sdc1 ext4, expected /dev/sda2 ext4"],
    ),
    ("another machine", "dmi/serial", "SN-9", ["machine: found SN-9, expected SN-w1"]),
]


@pytest.mark.parametrize(
    ("path", "value", "said"), [pytest.param(*case[1:], id=case[0]) for case in CASES]
)
def test_each_loss_is_one_finding(path: str, value: Any, said: list[str]) -> None:
    after = copy.deepcopy(machine())
    _put(after, path, value)
    if path == "modules/nvidia_version":
        for gpu in after["gpus"]:
            gpu.update(uuid=None, ecc_uncorrected=None)
    found = compare(facts(machine()), facts(after))
    assert [difference.sentence() for difference in found] == said
    assert all(difference.is_loss for difference in found)


def test_the_same_machine_has_no_difference_and_a_new_part_is_no_loss() -> None:
    after = machine()
    assert compare(facts(machine()), facts(after)) == ()
    after["memory"]["dimms"].append({"locator": "C1", "size_bytes": 32 * GIB})
    (found,) = compare(facts(machine()), facts(after))
    assert (found.name, found.is_loss) == ("dimm:C1", False)


@pytest.mark.parametrize(
    ("off", "said"), [(2, []), (600, ["clock: found +600 s off, expected right"])]
)
def test_a_clock_is_compared_with_ours(off: float, said: list[str]) -> None:
    found = compare(facts(machine()), facts(machine(), off=off))
    assert [difference.sentence() for difference in found] == said


@pytest.mark.parametrize(("off", "is_right"), [(-20, True), (-40, False), (20, False)])
def test_a_probe_that_took_long_explains_a_lag_but_no_lead(off: float, is_right: bool) -> None:
    document = {**machine(), "took_seconds": 30.0}
    assert (facts(document, off=off)["clock"] == "right") is is_right


def test_a_link_whose_address_is_made_up_counts_only_by_being_there() -> None:
    before, after = machine(), machine()
    before["nics"].append({"name": "eth0", "mac": "1e:fe", "kind": "veth", "state": "up"})
    after["nics"].append({"name": "eth0", "mac": "76:43", "kind": "veth", "state": "up"})
    assert compare(facts(before), facts(after)) == ()
    after["nics"].pop()
    assert [found.name for found in compare(facts(before), facts(after))] == ["nic:eth0"]


def test_identity_is_what_belongs_to_the_machine() -> None:
    kinds = {name.partition(":")[0] for name in hardware_facts(NodeFacts(machine()), IDENTITY)}
    assert kinds == {"machine", "dimm", "disk", "nic", "gpu", "uuid"}


@pytest.mark.parametrize("locator", ["DIMM 0", None])
def test_slots_that_firmware_calls_alike_are_distinguished(locator: str | None) -> None:
    """With one name for two modules, the loss of one of them would go unseen."""
    document = machine()
    for dimm in document["memory"]["dimms"]:
        dimm["locator"] = locator
    fewer = copy.deepcopy(document)
    del fewer["memory"]["dimms"][1]
    slot = "DIMM_0" if locator else "unnamed"
    assert [d.sentence() for d in compare(facts(document), facts(fewer))] == [
        f"dimm:{slot}.2: found none, expected 32 GiB 3200 MT/s serial D-B1"
    ]


@pytest.mark.parametrize("kept", ["", "x", "many", " ", "\u0665"])
@pytest.mark.parametrize("name", ["pcie:0000:17:00.0", "ecc:0000:17:00.0"])
def test_a_kept_number_that_is_none_differs(name: str, kept: str) -> None:
    assert compare({name: kept}, {name: "x16"}) == (Difference(name, kept, "x16"),)
