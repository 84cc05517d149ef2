"""Machines of one batch are compared with each other; two sources of one machine are joined."""

from __future__ import annotations

from typing import Any

import pytest

from appliance.model.checks.hardware.findings import Verdict, overall, worst_first
from appliance.model.checks.hardware.found import Machine, check_machine, together
from appliance.model.checks.hardware.outliers import outliers
from appliance.model.checks.hardware.parts.settings import version
from appliance.model.checks.hardware.qualification import qualify
from appliance.model.checks.hardware.reading import Reading, qualifications
from tests.unit.hardware.made_up import MODEL, document, expectation, machine


def batch(**changed: dict[str, Any]) -> dict[str, tuple[str, Machine]]:
    return {f"n{number}": (MODEL, machine(changed.get(f"n{number}"))) for number in range(1, 9)}


def test_one_node_of_eight_with_another_bios_is_named() -> None:
    found = outliers(batch(n3={"firmware.bios": "2.13"}))
    assert [one.fact for one in found["n3"]] == ["batch:bios"]
    assert found["n3"][0].verdict == Verdict.FAIL
    assert found["n3"][0].expected == "2.12, as 7 of 8 machines of the model"
    assert not any(findings for node, findings in found.items() if node != "n3")


@pytest.mark.parametrize(
    ("change", "facts"),
    [
        ({"dimms.C1.size_bytes": 16 << 30}, ["batch:dimm-sizes"]),
        ({"disks.nvme0n1.size_bytes": 480_103_981_056}, ["batch:disks"]),
        ({"disks": []}, ["batch:disks"]),
        ({"gone": ["gpus.0000:c1:00.0"]}, ["batch:gpus"]),
        ({"gpus.0000:c1:00.0.pci_id": None}, ["batch:gpus"]),
    ],
    ids=["size of a module", "size of a disk", "no disk", "missing GPU", "GPU of unknown kind"],
)
def test_one_node_of_eight_with_other_parts_is_named(
    change: dict[str, Any], facts: list[str]
) -> None:
    found = outliers(batch(n3=change))
    assert [one.fact for one in found["n3"]] == facts
    assert not any(findings for node, findings in found.items() if node != "n3")


def test_without_a_majority_nobody_is_wrong_and_everybody_is_told() -> None:
    other = {"firmware.bios": "2.13"}
    found = outliers(batch(n1=other, n2=other, n3=other, n4=other))
    assert {one.verdict for findings in found.values() for one in findings} == {Verdict.NOTE}
    assert all(len(findings) == 1 for findings in found.values())


def test_an_unread_fact_and_another_model_are_no_outliers() -> None:
    machines = batch(n5={"firmware": {}, "disks": None})
    machines["n9"] = ("acme/y9", machine({"firmware.bios": "9"}))
    assert not any(outliers(machines).values())


def test_two_machines_have_no_majority() -> None:
    pair = {"a": (MODEL, machine()), "b": (MODEL, machine({"firmware.bios": "3"}))}
    assert outliers(pair) == {"a": (), "b": ()}


def test_a_bmc_fills_what_the_probe_could_not_read() -> None:
    blind = machine(
        {
            **{"dimms": None, "firmware.bmc": None, "disks": None},
            "unknown": {"dimms": "needs root", "disks": "lsblk is not installed"},
        }
    )
    bmc = {**document({"disks": None, "unknown": {"disks": "no Storage"}}), "source": "redfish"}
    joined = together(blind, check_machine(bmc))
    assert joined.dimms == machine().dimms
    assert joined.firmware.bmc == "1.04"
    assert (joined.disks, joined.why("disks")) == (None, "lsblk is not installed")
    assert joined.source == "probe"


def by_raid(*told: bool | None, **more: Any) -> dict[str, Any]:
    """A BMC's report of RAID controllers with one array each, and of one drive behind them."""
    arrays = [
        {"name": f"{kind}{n}", "level": kind, "healthy": healthy}
        for n, healthy in enumerate(told)
        for kind in ("controller", "RAID1")
    ]
    drive = {"name": "Bay1", "serial": "B-1", "healthy": True, "wear_percent": 1, **more}
    return {**document({"raid": arrays, "disks": [drive]}), "source": "redfish"}


CONTROLLER = {
    "raid": [{"name": "controller-0000:05:00.0", "level": "controller", "healthy": None}],
    "disks": [{"name": "sda", "serial": "V-1", "size_bytes": 960 * 10**9,
               "behind": "0000:05:00.0"}],
}  # fmt: skip


@pytest.mark.parametrize(
    ("bmc", "verdict", "facts"),
    [
        (by_raid(True), Verdict.PASS, set()),
        (by_raid(False), Verdict.FAIL, {"raid:controller0", "raid:RAID10"}),
        (by_raid(None), Verdict.UNKNOWN, {"raid:controller0", "raid:RAID10"}),
        (by_raid(True, healthy=False), Verdict.FAIL, {"disk:B-1:health"}),
        (by_raid(True, wear_percent=None), Verdict.UNKNOWN, {"disk:B-1:wear"}),
        (by_raid(), Verdict.UNKNOWN,
         {"raid:controller-0000:05:00.0", "disk:V-1:health", "disk:V-1:wear", "disk:V-1:errors"}),
    ],
    ids=["healthy", "degraded", "untold", "failing drive", "unread wear", "no controller told"],
)  # fmt: skip
def test_a_raid_controller_is_judged_by_its_bmc(
    bmc: dict[str, Any], verdict: Verdict, facts: set[str]
) -> None:
    reading = Reading(machine(CONTROLLER), check_machine(bmc))
    (found,) = qualifications({"w1": reading}, {"w1": expectation()})
    assert found.verdict == verdict
    bad = (Verdict.FAIL, Verdict.UNKNOWN)
    assert {one.fact for one in found.findings if one.verdict in bad} == facts


def test_a_bmc_tells_the_health_of_a_disk_by_its_serial_number() -> None:
    silent = {"healthy": None, "wear_percent": None}
    blind = machine({f"disks.nvme0n1.{key}": value for key, value in silent.items()})
    bmc = {**document({"disks.nvme0n1.wear_percent": 3}), "source": "redfish"}
    (disk,) = together(blind, check_machine(bmc)).disks or ()
    assert (disk.healthy, disk.wear_percent) == (True, 3)
    other = {**document({"disks.nvme0n1.serial": "D-9"}), "source": "redfish"}
    (disk,) = together(blind, check_machine(other)).disks or ()
    assert (disk.healthy, disk.wear_percent) == (None, None)
    twice = document()["disks"] * 2
    bmc = {**document({"disks": twice}), "source": "redfish"}
    (disk,) = together(blind, check_machine(bmc)).disks or ()
    assert disk.healthy is None


def test_a_bmc_of_another_machine_is_named() -> None:
    other = check_machine(
        {**document({"identity.serial": "SN-9", "dimms": None}), "source": "redfish"}
    )
    wanted = {"w1": expectation()}
    (wrong,) = qualifications({"w1": Reading(machine(), other)}, wanted)
    assert [(one.fact, one.expected, one.found) for one in wrong.findings][:1] == [
        ("bmc:serial", "SN-1", "SN-9")
    ]
    (right,) = qualifications({"w1": Reading(machine(), machine())}, wanted)
    assert right.verdict == Verdict.PASS
    (silent,) = qualifications({"w1": Reading("no answer", "HTTP 503")}, wanted)
    assert (silent.verdict, silent.findings) == (Verdict.UNKNOWN, ())
    assert silent.reading.reasons == ("no answer", "HTTP 503")


def test_a_stand_in_has_no_hardware_to_judge() -> None:
    wanted = expectation()
    standin = type(wanted)(MODEL, wanted.model.model_copy(update={"standin": True}))
    assert qualify(standin, machine()) == ()
    assert overall(()) == Verdict.UNKNOWN


def test_what_fails_comes_first() -> None:
    found = worst_first(qualify(expectation(), machine({"trials.fsync_p99_ms": 99.0})))
    assert [one.fact for one in found][:2] == ["etcd-disk", "firmware:bmc"]


@pytest.mark.parametrize(
    ("older", "newer"),
    [("2.9", "2.10"), ("1.0a", "1.0b"), ("F07", "F12"), ("2.4", "2.4.1"), ("R1", "R" + "9" * 5000)],
)
def test_versions_are_compared_by_number(older: str, newer: str) -> None:
    assert version(older) < version(newer)
