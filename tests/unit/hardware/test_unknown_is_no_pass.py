"""What was asked for and not read, or tells nothing, does not pass."""

from __future__ import annotations

from typing import Any

import pytest

from appliance.model.checks.hardware.findings import Verdict
from appliance.model.checks.hardware.found import Machine, NotHardware, check_machine
from appliance.model.checks.hardware.outliers import outliers
from appliance.model.checks.hardware.qualification import qualify
from appliance.model.checks.hardware.reading import Qualification, Reading, qualifications
from tests.unit.hardware.made_up import MODEL, document, expectation, machine


def judged(probe: Machine | str | None, bmc: Machine | str | None) -> Qualification:
    return qualifications({"w1": Reading(probe, bmc)}, {"w1": expectation()})[0]


def bmc(change: dict[str, Any]) -> Machine:
    return check_machine({**document(change), "source": "redfish"})


@pytest.mark.parametrize(
    ("probe", "outside", "fact"),
    [
        (machine(), "HTTP 503", "bmc"),
        ("no answer on port 22", bmc({}), "probe"),
        (machine(), bmc({"identity.serial": None, "identity.uuid": None}), "bmc:serial"),
        (
            machine(),
            bmc({"identity.serial": "Default string", "identity.uuid": None}),
            "bmc:serial",
        ),
    ],
    ids=["bmc", "probe", "no serial", "placeholder"],
)
def test_who_was_asked_and_does_not_tell_is_no_pass(
    probe: Machine | str, outside: Machine | str, fact: str
) -> None:
    found = judged(probe, outside)
    assert found.verdict == Verdict.UNKNOWN
    assert found.findings[0].fact == fact
    assert found.findings[0].action


def test_who_was_not_asked_is_not_missed() -> None:
    assert judged(machine(), None).verdict == Verdict.PASS


def test_a_uuid_shows_that_it_is_the_bmc_of_the_machine() -> None:
    told = {"identity.uuid": "4c4c4544-0031-3010-8042-b4c04f423358", "identity.serial": None}
    (inside,) = [machine({**told, "identity.serial": "SN-1"})]
    found = judged(inside, bmc(told))
    assert [one.verdict for one in found.findings if one.fact == "bmc:serial"] == [Verdict.PASS]


@pytest.mark.parametrize(
    ("change", "fact"),
    [
        (
            {"trials.memory_errors": None, "unknown": {"trials.memory_errors": "MemoryError: "}},
            "memory-test",
        ),
        ({"gpus": [{"address": "0000:01:00.0", "pci_id": "10de:20f1", "link_width": 16,
                    "link_gts": 0.0, "max_link_gts": 0.0, "above_4g": True}]},
         "gpu:0000:01:00.0:speed"),
    ],
    ids=["memory test", "link of no speed"],
)  # fmt: skip
def test_what_tells_nothing_is_unknown(change: dict[str, Any], fact: str) -> None:
    verdicts = {one.fact: one.verdict for one in qualify(expectation(), machine(change))}
    assert verdicts[fact] == Verdict.UNKNOWN


def test_a_machine_without_any_cpu_or_module_does_not_pass() -> None:
    model = expectation().model
    bare = model.model_copy(
        update={
            "platform": model.platform.model_copy(update={"cpu_sockets": None, "dimm_slots": None}),
            "reference": model.reference.model_copy(update={"cpus": None, "dimms": None}),
            "shows": model.shows.model_copy(update={"dimms_in": None, "dimm_slots": None}),
        }
    )
    wanted = type(expectation())(MODEL, bare, expectation().gpus)
    found = qualify(wanted, machine({"cpus": [], "dimms": []}))
    verdicts = {one.fact: one.verdict for one in found}
    assert (verdicts["cpus"], verdicts["memory:modules"]) == (Verdict.UNKNOWN, Verdict.UNKNOWN)


def test_a_negative_time_is_no_measurement() -> None:
    with pytest.raises(NotHardware, match="fsync_p99_ms"):
        machine({"trials.fsync_p99_ms": -1.0})


def test_a_second_disk_of_a_model_does_not_hide_the_firmware_of_the_first() -> None:
    def disks(*firmware: str) -> dict[str, Any]:
        of = [{"name": f"nvme{n}n1", "model": "M", "firmware": f} for n, f in enumerate(firmware)]
        return {"disks": of}

    batch = {f"n{n}": (MODEL, machine(disks("A", "A"))) for n in range(4)}
    batch["odd"] = (MODEL, machine(disks("OLD", "A")))
    assert [one.found for one in outliers(batch)["odd"]] == ["A, OLD"]
