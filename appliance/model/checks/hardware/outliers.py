"""Machines of one model that differ from most of the others: one of eight with another BIOS."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from appliance.model.checks.hardware.findings import Finding, failed, noted
from appliance.model.checks.hardware.found import Dimm, Gpu, Machine
from appliance.model.checks.hardware.learning import disks_gb
from appliance.model.checks.hardware.parts.storage import disks_told
from appliance.model.state.facts.hardware_models import GIB

# With two machines there is no majority.
LEAST: Final = 3
_ACTION: Final = "make it like the others, or say in its file why it differs"


def outliers(batch: Mapping[str, tuple[str, Machine]]) -> Mapping[str, tuple[Finding, ...]]:
    """Compare machines of one model with each other.

    Args:
        batch: node -> its model, and what was found.

    Returns:
        Node -> what differs from the majority; without a majority every node gets a note. A fact
        that a machine did not report is no difference.
    """
    by_model: dict[str, dict[str, Machine]] = defaultdict(dict)
    for node, (model, machine) in batch.items():
        by_model[model][node] = machine
    found: dict[str, list[Finding]] = {node: [] for node in batch}
    for machines in by_model.values():
        values: dict[str, dict[str, str]] = defaultdict(dict)
        for node, machine in machines.items():
            for fact, value in _comparable(machine):
                values[fact][node] = value
        for fact, told in values.items():
            for node, finding in _judged(fact, told):
                found[node].append(finding)
    return {node: tuple(findings) for node, findings in found.items()}


def _judged(fact: str, told: Mapping[str, str]) -> Iterator[tuple[str, Finding]]:
    if len(told) < LEAST or len(set(told.values())) == 1:
        return
    (value, many), *_ = Counter(told.values()).most_common()
    for node, own in told.items():
        if 2 * many <= len(told):
            words = f"{own}; {len(set(told.values()))} values among {len(told)} machines"
            yield node, noted(f"batch:{fact}", words, "make the machines of the batch alike")
        elif own != value:
            expected = f"{value}, as {many} of {len(told)} machines of the model"
            yield node, failed(f"batch:{fact}", expected, own, _ACTION)


def _comparable(machine: Machine) -> Iterator[tuple[str, str]]:
    """Facts that are alike on machines of one batch: name, value."""
    settings = machine.settings
    told: dict[str, object] = {
        "bios": machine.firmware.bios,
        "bmc": machine.firmware.bmc,
        "uefi": settings.uefi,
        "secure-boot": settings.secure_boot,
        "iommu": settings.iommu,
        "numa": settings.numa_nodes,
        "virtualisation": settings.virtualisation,
        "power-profile": settings.power_profile,
        "cpus": _counted(cpu.model for cpu in machine.cpus or ()),
        "microcode": _counted(cpu.microcode for cpu in machine.cpus or ()),
        "dimms": _slots(machine.dimms),
        "dimm-sizes": _sizes(machine.dimms),
        "disks": _disks(machine),
        "gpus": _of_gpus(machine.gpus),
        "nic-firmware": _counted(nic.firmware for nic in machine.nics or ()),
    }
    disks: dict[str, set[str]] = defaultdict(set)
    for disk in machine.disks or ():
        if disk.model and disk.firmware:
            disks[disk.model].add(disk.firmware)
    told |= {f"disk-firmware:{model}": ", ".join(sorted(of)) for model, of in disks.items()}
    told |= {f"bios:{name}": value for name, value in (machine.bios_attributes or {}).items()}
    yield from ((fact, str(value)) for fact, value in told.items() if value not in (None, ""))


def _slots(dimms: Sequence[Dimm] | None) -> str | None:
    if dimms is None:
        return None
    return " ".join(sorted(dimm.slot for dimm in dimms if dimm.size_bytes)) or "none"


def _of_gpus(gpus: Sequence[Gpu] | None) -> str | None:
    """One whose id is not known counts: a GPU more or less is a difference."""
    return None if gpus is None else _counted(gpu.pci_id or "?" for gpu in gpus) or "none"


def _disks(machine: Machine) -> str | None:
    sizes = disks_gb(machine)
    return None if sizes is None else disks_told(sizes)


def _sizes(dimms: Sequence[Dimm] | None) -> str | None:
    """The modules by size; None where one of them is not known."""
    if dimms is None or any(dimm.size_bytes is None for dimm in dimms):
        return None
    return _counted(f"{dimm.size_bytes / GIB:g} GiB" for dimm in dimms if dimm.size_bytes)


def _counted(values: Iterable[str | None]) -> str:
    known = Counter(value for value in values if value)
    return ", ".join(f"{many} x {value}" for value, many in sorted(known.items()))
