"""Hardware models as data, and whether a machine can be the model that the site names.

A model is never guessed from facts: the site names it, and this module compares the two. A fact
that was never recorded from a machine is None, and is reported as unverified.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from appliance.model.state.facts.hardware_shown import Shows, Wanted

if TYPE_CHECKING:
    from appliance.model.state.facts.facts import NodeFacts

GIB = 1024**3
MB = 1000**2
GB = 1000**3

GpuForm = Literal["double_width", "single_width", "sxm"]
Severity = Literal["error", "warning", "info"]
_VENDORS = {"intel": "GenuineIntel", "amd": "AuthenticAMD"}


class _Data(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Dmi(_Data):
    """The exact strings in the firmware; None until read from a machine."""

    vendor: str | None = None
    product: str | None = None


class GpuSlots(_Data):
    """How many GPUs of one form fit; forms exclude each other."""

    form: GpuForm
    count: int = Field(ge=1)
    models: tuple[str, ...] = ()
    """The cards of this form that the guide names."""


class DriveBays(_Data):
    """Bays for drives of one kind."""

    kind: Literal["U.2", "M.2", "2.5-inch", "3.5-inch"]
    count: int = Field(ge=1)


class Platform(_Data):
    """The capacity of chassis and board: a machine that exceeds it is another model."""

    cpu_vendor: Literal["intel", "amd"] | None = None
    cpu_family: str | None = None
    cpu_sockets: int | None = None
    cpu_max_tdp_watts: int | None = None
    cpu_cores: int | None = None
    """The most cores of one CPU."""
    rack_units: int | None = None
    dimm_slots: int | None = None
    gpus: tuple[GpuSlots, ...] = ()
    drives: tuple[DriveBays, ...] = ()


class Nic(_Data):
    """A network card as delivered."""

    model: str
    speed_mbps: int
    driver: str | None = None
    """The Linux driver; the probe reads this, not the model."""


class Reference(_Data):
    """The delivered and qualified equipment; a customer may have ordered a different one."""

    cpu_model: str | None = None
    cpus: int | None = None
    dimms: int | None = None
    dimm_gib: int | None = None
    dimm_speed_mts: int | None = None
    nics: tuple[Nic, ...] = ()
    gpu_models: tuple[str, ...] = ()
    gpus: int | None = None


class Citation(_Data):
    """Where a fact was read."""

    fact: str
    """The key that it documents, such as platform.dimm_slots."""
    where: str


class HardwareModel(_Data):
    """One file of hardware/: a machine model of the appliance."""

    vendor: str
    product: str
    also_called: tuple[str, ...] = ()
    purpose: str
    standin: bool = False
    """true: not a real machine; nothing is compared."""
    dmi: Dmi = Dmi()
    platform: Platform = Platform()
    reference: Reference = Reference()
    shows: Shows = Shows()
    wanted: Wanted = Wanted()
    sources: tuple[Citation, ...] = ()


class RoleMinimum(_Data):
    """The minimum of a node for one role."""

    cpus: int | None = None
    memory_mb: int | None = None
    """In MB of 1000 x 1000 bytes."""
    disk_gb: int | None = None
    """In GB of 1000 x 1000 x 1000 bytes."""
    source: str


@dataclass(frozen=True)
class HardwareFinding:
    """A deviation from the model: error, it is another machine; warning, it differs."""

    check: str
    severity: Severity
    seen: str
    expected: str


def match(hardware: HardwareModel, facts: NodeFacts) -> list[HardwareFinding]:
    """Compare a machine's facts with the model that the site names."""
    if hardware.standin:
        return []
    return [
        *_dmi(hardware, facts),
        *_cpu(hardware, facts),
        *_memory(hardware, facts),
        *_nics(hardware, facts),
        *_gpus(hardware, facts),
    ]


def below_minimum(group: str, minimum: RoleMinimum, facts: NodeFacts) -> list[HardwareFinding]:
    """Return what a machine lacks for a role."""
    memory = facts.at("memory.total_bytes")
    disks = facts.items("disks")
    rows = (
        ("cpus", facts.at("cpu.threads"), minimum.cpus, "CPUs", 1),
        ("memory", memory, minimum.memory_mb, "MB of memory", MB),
        ("disk", sum(d["size_bytes"] for d in disks) or None, minimum.disk_gb, "GB of disk", GB),
    )
    found = []
    for check, seen, least, unit, factor in rows:
        if least is not None and seen is not None and seen < least * factor:
            words = f"at least {least} {unit} for {group} ({minimum.source})"
            found.append(HardwareFinding(check, "warning", f"{seen / factor:.0f} {unit}", words))
    return found


def _finding(check: str, severity: Severity, seen: object, expected: object) -> HardwareFinding:
    return HardwareFinding(check, severity, str(seen), str(expected))


def _dmi(hardware: HardwareModel, facts: NodeFacts) -> Iterator[HardwareFinding]:
    name = f"{hardware.vendor} {hardware.product}"
    wanted = {key: value for key, value in hardware.dmi.model_dump().items() if value is not None}
    if not wanted:
        yield _finding(
            "model",
            "info",
            f"model not verified: no DMI strings are recorded for {name}",
            "DMI strings read from such a machine, in its file under hardware/",
        )
    for key, value in wanted.items():
        seen = facts.at(f"dmi.{key}")
        if seen is None:
            yield _finding(
                "model", "info", f"model not verified: no DMI {key} could be read", repr(value)
            )
        elif seen != value:
            yield _finding("model", "error", f"DMI {key} {seen!r}", f"{value!r}, that of {name}")


def _cpu(hardware: HardwareModel, facts: NodeFacts) -> Iterator[HardwareFinding]:
    platform, reference = hardware.platform, hardware.reference
    vendor, sockets = facts.at("cpu.vendor"), facts.at("cpu.sockets")
    model = facts.at("cpu.model")
    if platform.cpu_vendor and vendor and vendor != _VENDORS[platform.cpu_vendor]:
        yield _finding("cpu", "error", f"CPUs by {vendor}", _VENDORS[platform.cpu_vendor])
        return
    if sockets and platform.cpu_sockets and sockets > platform.cpu_sockets:
        yield _finding(
            "sockets", "error", f"{sockets} CPUs", f"at most {platform.cpu_sockets} sockets"
        )
    elif sockets and reference.cpus and sockets != reference.cpus:
        yield _finding("sockets", "warning", f"{sockets} CPUs", f"{reference.cpus} as delivered")
    if model and reference.cpu_model and not _named(reference.cpu_model, model):
        yield _finding("cpu", "warning", model, f"{reference.cpu_model} as delivered")


def _named(wanted: str, seen: str) -> bool:
    """Whether every word of the model's name is among the words the kernel prints."""
    words = seen.replace("(R)", " ").replace("(TM)", " ").lower().split()
    return all(word in words for word in wanted.lower().split())


def _memory(hardware: HardwareModel, facts: NodeFacts) -> Iterator[HardwareFinding]:
    platform, reference = hardware.platform, hardware.reference
    dimms = facts.items("memory.dimms")
    slots = facts.at("memory.dimm_slots")
    if not slots and not dimms:
        if platform.dimm_slots or reference.dimms:
            yield _finding("memory", "info", "DIMMs not verified: none could be read", "a list")
        return
    if slots and platform.dimm_slots and slots != platform.dimm_slots:
        yield _finding(
            "memory", "error", f"{slots} DIMM slots", f"{platform.dimm_slots} in this model"
        )
    if reference.dimms and len(dimms) != reference.dimms:
        yield _finding(
            "memory", "warning", f"{len(dimms)} DIMMs", f"{reference.dimms} as delivered"
        )
    for text, key, factor, wanted in (
        ("{} GiB", "size_bytes", GIB, reference.dimm_gib),
        ("{} MT/s", "speed_mts", 1, reference.dimm_speed_mts),
    ):
        odd = [d for d in dimms if wanted and d.get(key) and d[key] != wanted * factor]
        if odd:
            where = ", ".join(
                f"{d.get('locator') or '?'}: {text.format(f'{d[key] / factor:g}')}" for d in odd
            )
            yield _finding("memory", "warning", where, f"{text.format(wanted)} as delivered")


def _nics(hardware: HardwareModel, facts: NodeFacts) -> Iterator[HardwareFinding]:
    seen = [nic for nic in facts.items("nics") if nic.get("driver")]
    for nic in hardware.reference.nics:
        found = [one for one in seen if one["driver"] == nic.driver]
        if nic.driver and not found:
            drivers = ", ".join(sorted({str(one["driver"]) for one in seen})) or "none"
            yield _finding(
                "nics", "warning", f"NIC drivers: {drivers}", f"{nic.driver}, for {nic.model}"
            )
        speeds: list[Any] = [one.get("speed_mbps") for one in found if one.get("speed_mbps")]
        if speeds and max(speeds) < nic.speed_mbps:
            yield _finding(
                "nics",
                "warning",
                f"the fastest {nic.driver} link with {max(speeds)} Mb/s",
                f"{nic.speed_mbps} Mb/s, that of {nic.model}",
            )


def _gpus(hardware: HardwareModel, facts: NodeFacts) -> Iterator[HardwareFinding]:
    if facts.at("gpus") is None:
        return
    count = len(facts.items("gpus"))
    most = max((slots.count for slots in hardware.platform.gpus), default=None)
    forms = {slots.form for slots in hardware.platform.gpus}
    if most is not None and count > most:
        yield _finding("gpus", "error", f"{count} GPUs on PCI", f"at most {most} in this model")
    elif forms == {"sxm"} and count != most:
        yield _finding("gpus", "warning", f"{count} GPUs on PCI", f"{most}: one board carries all")
    elif hardware.reference.gpu_models and count == 0:
        names = " or ".join(hardware.reference.gpu_models)
        yield _finding("gpus", "warning", "no GPU on PCI", f"{names} as delivered")
