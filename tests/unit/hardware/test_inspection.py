"""The probe's close look at a recorded machine: each fact, or the reason why it is unknown."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from appliance.adapters.ssh.probing.archive import probe_archive
from appliance.model.checks.hardware.found import Machine, NotHardware, check_machine, read_machine
from appliance.probe.inspection import trials
from appliance.probe.inspection.nvme import parse
from appliance.probe.inspection.report import inspect
from appliance.probe.source import Machine as Recorded
from appliance.probe.source import Request, Source
from tests.unit.hardware.made_up import DATA

CASE: dict[str, dict[str, str]] = yaml.safe_load((DATA / "probe.yml").read_text(encoding="utf-8"))
GIB = 1024**3


def look(folder: Path, changed: Mapping[str, str | None] | None = None) -> dict[str, Any]:
    """The report of the made-up machine, with other files and outputs; None: not there."""
    root, outputs = folder / "root", folder / "outputs"
    there = {f"root{name}": text for name, text in CASE["files"].items()}
    there |= {f"outputs/{name}": text for name, text in CASE["outputs"].items()}
    # The log has 512 bytes; those that are not written are zero.
    there["outputs/nvme-health-nvme0"] = (
        there["outputs/nvme-health-nvme0"].replace(" ", "").ljust(1024, "0")
    )
    for name, text in {**there, **(changed or {})}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if text is None:
            path.unlink(missing_ok=True)
        else:
            path.write_text(text, encoding="utf-8")
    for name, target in CASE["links"].items():
        path = root / name.lstrip("/")
        path.unlink(missing_ok=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target)
    return inspect(Source(Recorded(root, outputs, Request()), "probe"))


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    return check_machine(look(tmp_path_factory.mktemp("machine")))


def by_name(items: Any, name: str) -> Any:
    return next(
        item for item in items if name in (getattr(item, "name", ""), getattr(item, "slot", ""))
    )


def test_identity_and_firmware(found: Machine) -> None:
    assert found.identity.model_dump() == {
        "vendor": "Acme Inc.",
        "product": "X1-2U",
        "serial": "SN-1",
        "board": "X1-MB",
        "uuid": "4c4c4544-0042-3510-8051-b4c04f4d3732",
    }
    assert (found.firmware.bios, found.firmware.bmc) == ("2.12", None)
    assert found.why("firmware.bmc") == "only the BMC tells its version"


def test_every_slot_is_told_by_its_name(found: Machine) -> None:
    assert found.dimms is not None
    told = {dimm.slot: (dimm.size_bytes, dimm.speed_mts, dimm.rated_mts) for dimm in found.dimms}
    assert told == {
        "DIMM_A1": (32 * GIB, 2933, 3200),
        "DIMM_C1": (0, None, None),
        "DIMM_C1.2": (None, None, None),
    }
    assert found.why("dimms.DIMM_C1.2.size_bytes") == "dmidecode prints 'Unknown'"
    assert found.memory.model_dump() == {
        "correction": "Multi-bit ECC",
        "corrected": 4,
        "uncorrected": 0,
    }


def test_a_gpu_and_its_link(found: Machine) -> None:
    assert found.gpus is not None
    (gpu,) = found.gpus
    assert (gpu.address, gpu.pci_id, gpu.driver) == ("0000:17:00.0", "10de:2235", "nouveau")
    assert (gpu.link_width, gpu.max_link_width) == (8, 16)
    assert (gpu.link_gts, gpu.max_link_gts) == (2.5, 16.0)
    assert (gpu.above_4g, gpu.busy, gpu.numa_node) == (True, None, -1)
    assert found.why("gpus.0000:17:00.0.busy") == "no driver tells its load"


SMI = {
    "root/sys/module/nvidia/version": "580.159.04",
    "outputs/nvidia-smi-load": "00000000:17:00.0, 97, 0, Enabled, 94.02.5C.00.03\n",
}


@pytest.mark.parametrize(
    ("changed", "told", "why"),
    [
        (SMI, (True, 0, "94.02.5C.00.03"), None),
        ({**SMI, "outputs/nvidia-smi-load": "00000000:17:00.0, 0, [N/A], Disabled, [N/A]\n"},
         (False, None, None), "nvidia-smi prints none"),
        ({**SMI, "outputs/nvidia-smi-load": None,
          "outputs/nvidia-smi-load-container": "00000000:17:00.0, 0, 2, Enabled, 1.0\n"},
         (True, 2, "1.0"), None),
        ({**SMI, "outputs/nvidia-smi-load": None}, (None, None, None),
         "nvidia-smi did not answer, or does not list it"),
        ({}, (None, None, None), "NVIDIA's driver is not loaded"),
    ],
    ids=["on", "off", "driver in a container", "silent", "no driver"],
)  # fmt: skip
def test_what_nvidias_driver_tells_of_errors(
    tmp_path: Path, changed: dict[str, str | None], told: tuple[Any, ...], why: str | None
) -> None:
    found = check_machine(look(tmp_path, changed))
    (gpu,) = found.gpus or ()
    assert (gpu.ecc_on, gpu.ecc_uncorrected, gpu.firmware) == told
    assert why in (None, found.why("gpus.0000:17:00.0.ecc_uncorrected"))


@pytest.mark.parametrize(
    ("log", "errors"),
    [
        ({}, None),
        ({"ata_smart_attributes": {"table": [{"name": "Reported_Uncorrect",
                                              "raw": {"value": 3}}]}}, 3),
        ({"scsi_error_counter_log": {"read": {"total_uncorrected_errors": 1},
                                     "write": {"total_uncorrected_errors": 2}}}, 3),
        ({"scsi_error_counter_log": {"read": {}}}, None),
    ],
    ids=["none", "attribute", "SAS", "SAS without counters"],
)  # fmt: skip
def test_errors_of_a_disk_are_counted_or_unknown(
    tmp_path: Path, log: dict[str, Any], errors: int | None
) -> None:
    told = json.dumps({"smart_status": {"passed": True}, **log})
    found = check_machine(look(tmp_path, {"outputs/smartctl-sda": told}))
    disk = by_name(found.disks, "sda")
    assert disk.media_errors == errors
    if errors is None:
        why = "the disk keeps no count of uncorrectable errors"
        assert found.why("disks.sda.media_errors") == why


def test_ports_of_cards(found: Machine) -> None:
    assert [nic.name for nic in found.nics or ()] == ["ens1f0", "ens1f1"]
    first, second = found.nics or ()
    assert (first.driver, first.firmware, first.pci_id) == ("mlx5_core", "20.31.1014", "15b3:101b")
    assert (first.link, first.speed_mbps, first.most_mbps) == (True, 10000, 25000)
    assert second.link is None
    assert found.why("nics.ens1f1.link") == "the interface is not up, so it has no link state"
    assert found.why("nics.ens1f1.firmware") == "ethtool: not recorded"


def test_disks_and_what_they_say_of_themselves(found: Machine) -> None:
    assert [disk.name for disk in found.disks or ()] == ["nvme0n1", "sda", "sdb"]
    nvme, sda, sdb = found.disks or ()
    assert (nvme.healthy, nvme.wear_percent, nvme.firmware) == (False, 12, "1.0")
    assert (sda.healthy, sda.wear_percent, sda.power_on_hours) == (False, 3, 77)
    assert (sdb.healthy, sdb.wear_percent) == (None, None)
    assert found.why("disks.sdb.healthy") == "smartctl: not recorded"
    assert nvme.model == "MadeUp 960"
    assert [disk.behind for disk in (nvme, sda, sdb)] == [None, None, "0000:05:00.0"]


def test_arrays_of_linux_and_controllers(found: Machine) -> None:
    assert [(array.name, array.healthy) for array in found.raid or ()] == [
        ("md0", False),
        ("controller-0000:05:00.0", None),
    ]


def test_settings_are_read_from_firmware_and_kernel(found: Machine) -> None:
    assert found.settings.model_dump(exclude_none=True) == {
        "uefi": True,
        "secure_boot": True,
        "iommu": True,
        "numa_nodes": 2,
        "virtualisation": True,
        "hypervisor": "none",
        "nouveau": True,
        "power_profile": "performance",
        "clock_synchronised": False,
    }


def test_a_container_has_no_firmware_of_its_own(tmp_path: Path) -> None:
    inside = check_machine(look(tmp_path, {"root/run/systemd/container": "podman"}))
    assert inside.dimms is None
    assert inside.why("dimms") == inside.why("identity.serial")
    assert "in a container" in inside.why("dimms")
    assert inside.settings.hypervisor == "podman"


def test_an_empty_machine_knows_nothing_and_says_why(tmp_path: Path) -> None:
    source = Source(Recorded(tmp_path, tmp_path, Request()), "probe")
    empty = check_machine(inspect(source, ["fsync", "memory"]))
    assert (empty.dimms, empty.disks, empty.identity.serial) == (None, None, None)
    assert empty.why("dimms") == "dmidecode: not recorded"
    assert empty.why("trials.fsync_p99_ms") == "a recorded machine runs no trial"


NAMES = sorted(
    [*(f"root{name}" for name in CASE["files"]), *(f"outputs/{name}" for name in CASE["outputs"])]
)

HOSTILE = ["[]", "{}", '{"blockdevices": [1]}', "9" * 400, "-1", "0x" * 9, "[" * 999]


@settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.dictionaries(
        st.sampled_from(NAMES),
        st.none()
        | st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
        | st.sampled_from(
            ["[]", "{}", '{"blockdevices": [1]}', "9" * 400, "-1", "0x" * 9, "[" * 999]
        ),
        min_size=1,
        max_size=4,
    )
)
def test_any_answer_of_a_machine_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, changed: dict[str, str | None]
) -> None:
    document = look(tmp_path_factory.mktemp("hostile"), changed)
    try:
        read = read_machine(json.dumps(document))
    except NotHardware:
        return
    assert read.source == "probe"


def test_the_health_log_of_nvme_is_read_by_its_specified_places() -> None:
    log = bytearray(512)
    log[5] = 3
    log[128:144] = (4711).to_bytes(16, "little")
    log[160:176] = (1 << 100).to_bytes(16, "little")
    assert parse(bytes(log)) == {
        "healthy": True,
        "wear_percent": 3,
        "media_errors": (1 << 62) - 1,
        "power_on_hours": 4711,
    }
    log[0] = 0b00001000
    assert parse(bytes(log))["healthy"] is False


def test_99_of_100_writes_are_not_slower_than_the_percentile() -> None:
    assert trials.percentile_99([float(n) for n in range(1, 101)]) == 99.0
    assert trials.percentile_99([7.0]) == 7.0


def test_the_shipped_archive_inspects_this_machine(tmp_path: Path) -> None:
    archive = tmp_path / "probe.pyz"
    archive.write_bytes(probe_archive())
    done = subprocess.run(
        [sys.executable, "-I", str(archive), "--hardware", "none"],
        capture_output=True,
        timeout=60,
        check=True,
    )
    here = read_machine(done.stdout)
    assert here.source == "probe"
    assert here.cpus
    assert here.why("trials.fsync_p99_ms").startswith("not asked for")
