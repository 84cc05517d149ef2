"""What a machine reported of its hardware, in one form for the probe and for Redfish.

A fact that was not read is None, and ``unknown`` has the reason. Nothing is filled in.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from appliance.model.documents.strict_json import Unreadable, read_json

SCHEMA: Final = 1
KIND: Final = "hardware"
MOST_BYTES: Final = 4 << 20
DEEPEST: Final = 12
MOST_VALUES: Final = 60_000
MOST_PARTS: Final = 512
NOT_REPORTED: Final = "not reported"
# C0 and C1, and characters that change the direction of a line.
_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_SHOWN: Final = 3
# Level of an entry of ``raid`` that is a controller, not one of its arrays.
CONTROLLER: Final = "controller"

Text = Annotated[str, StringConstraints(max_length=300)]
PciId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{4}:[0-9a-f]{4}$")]
Count = Annotated[int, Field(ge=0, lt=1 << 62)]
Number = Annotated[float, Field(ge=-1e15, le=1e15)]
Positive = Annotated[float, Field(ge=0, le=1e15)]
Scalar = Text | bool | int | float | None
Source = Literal["probe", "redfish"]


class NotHardware(ValueError):
    """The document is not a report of hardware; the text names the reason."""


class Part(BaseModel):
    """A strict object of a report; what it has besides is left out."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)


class Identity(Part):
    """Which machine; strings of its firmware, exactly."""

    vendor: Text | None = None
    product: Text | None = None
    serial: Text | None = None
    board: Text | None = None
    uuid: Text | None = None


class Firmware(Part):
    """Versions of what the machine boots; ``bmc`` is told by Redfish alone."""

    bios: Text | None = None
    bios_date: Text | None = None
    bmc: Text | None = None


class Cpu(Part):
    """One populated socket."""

    socket: Text
    model: Text | None = None
    cores: Count | None = None
    microcode: Text | None = None


class Dimm(Part):
    """One slot for a memory module; size 0: empty. Speeds in MT/s."""

    slot: Text
    size_bytes: Count | None = None
    kind: Text | None = None
    speed_mts: Count | None = None
    """The speed it runs at."""
    rated_mts: Count | None = None
    """The speed that it is built for."""
    part: Text | None = None
    serial: Text | None = None


class MemoryErrors(Part):
    """Error correction: the kind by firmware, and the counters of the kernel (EDAC)."""

    correction: Text | None = None
    corrected: Count | None = None
    uncorrected: Count | None = None


class Gpu(Part):
    """One GPU; link speeds in GT/s. An idle GPU may slow its link, so ``busy`` matters."""

    address: Text
    pci_id: PciId | None = None
    link_width: Count | None = None
    max_link_width: Count | None = None
    link_gts: Number | None = None
    max_link_gts: Number | None = None
    numa_node: int | None = None
    driver: Text | None = None
    busy: bool | None = None
    above_4g: bool | None = None
    """Whether its memory window lies above 4 GiB."""
    ecc_on: bool | None = None
    ecc_uncorrected: Count | None = None
    firmware: Text | None = None
    """Version of its VBIOS."""
    nvlinks: Count | None = None


class Nic(Part):
    """One port of a network card; speeds in Mb/s."""

    name: Text
    mac: Text | None = None
    pci_id: PciId | None = None
    driver: Text | None = None
    firmware: Text | None = None
    link: bool | None = None
    speed_mbps: Count | None = None
    most_mbps: Count | None = None
    """The fastest speed that the port can do."""
    numa_node: int | None = None


class Disk(Part):
    """One whole disk; wear in percent of its rated life."""

    name: Text
    serial: Text | None = None
    model: Text | None = None
    size_bytes: Count | None = None
    transport: Text | None = None
    """As Linux or Redfish call it; "raid": an array of a controller, which ``raid`` judges."""
    behind: Text | None = None
    """PCI address of the RAID controller that shows it."""
    member: bool | None = None
    """Whether it is a drive of a RAID controller, which Linux does not see."""
    rotational: bool | None = None
    firmware: Text | None = None
    healthy: bool | None = None
    wear_percent: Count | None = None
    media_errors: Count | None = None
    power_on_hours: Count | None = None


class RaidArray(Part):
    """One array of Linux or of a controller."""

    name: Text
    level: Text | None = None
    healthy: bool | None = None


class Settings(Part):
    """What firmware and kernel were set to."""

    uefi: bool | None = None
    secure_boot: bool | None = None
    iommu: bool | None = None
    """Whether the kernel made IOMMU groups."""
    numa_nodes: Count | None = None
    virtualisation: bool | None = None
    """Whether the CPUs offer SVM or VMX."""
    hypervisor: Text | None = None
    """Under which one it runs; "none" on a physical machine."""
    nouveau: bool | None = None
    power_profile: Text | None = None
    clock_synchronised: bool | None = None
    clock_offset_seconds: Number | None = None


class Trials(Part):
    """What ``appliance hardware qualify`` measured, within limits of size and time."""

    fsync_folder: Text | None = None
    fsync_p99_ms: Positive | None = None
    fsync_writes: Count | None = None
    memory_bytes: Count | None = None
    memory_errors: Count | None = None
    memory_corrected: Count | None = None
    """By how much EDAC's counters grew meanwhile."""
    memory_uncorrected: Count | None = None


class Machine(Part):
    """One report.

    Attributes:
        unknown: path of a fact (``dimms``, ``disks.nvme0n1.wear_percent``) -> why it is None.
        bios_attributes: of Redfish, by their names in the registry of that firmware.
    """

    schema_: Annotated[int, Field(alias="schema")]
    kind: Literal["hardware"]
    source: Source
    identity: Identity = Identity()
    firmware: Firmware = Firmware()
    cpus: Annotated[tuple[Cpu, ...], Field(max_length=MOST_PARTS)] | None = None
    dimms: Annotated[tuple[Dimm, ...], Field(max_length=MOST_PARTS)] | None = None
    memory: MemoryErrors = MemoryErrors()
    gpus: Annotated[tuple[Gpu, ...], Field(max_length=MOST_PARTS)] | None = None
    nics: Annotated[tuple[Nic, ...], Field(max_length=MOST_PARTS)] | None = None
    disks: Annotated[tuple[Disk, ...], Field(max_length=MOST_PARTS)] | None = None
    raid: Annotated[tuple[RaidArray, ...], Field(max_length=MOST_PARTS)] | None = None
    settings: Settings = Settings()
    bios_attributes: Mapping[Text, Scalar] | None = None
    trials: Trials = Trials()
    taken_at: Number | None = None
    """The machine's own clock at the end of the look, UTC epoch seconds."""
    unknown: Mapping[Text, Text] = {}

    def received(self, at: float) -> Machine:
        """The same, with the clock compared with this machine's at the moment it arrived."""
        if self.taken_at is None:
            return self
        offset = {"clock_offset_seconds": round(self.taken_at - at, 1)}
        return self.model_copy(update={"settings": self.settings.model_copy(update=offset)})

    def why(self, path: str) -> str:
        """Why a fact is None: the reason of the longest recorded path at or above it."""
        while path:
            if path in self.unknown:
                return self.unknown[path]
            path = path.rpartition(".")[0]
        return NOT_REPORTED


def read_machine(content: str | bytes) -> Machine:
    """Read the text of one report, strictly.

    Raises:
        NotHardware: it exceeds a limit, or a field has the wrong type.
    """
    try:
        document = read_json(
            content, most_bytes=MOST_BYTES, deepest=DEEPEST, most_values=MOST_VALUES
        )
    except Unreadable as error:
        raise NotHardware(str(error)) from error
    return check_machine(document)


def check_machine(document: Any) -> Machine:
    """The same for a document that is already parsed within limits.

    Raises:
        NotHardware: as above.
    """
    if not isinstance(document, Mapping):
        raise NotHardware("it is not a JSON object")
    if document.get("schema") != SCHEMA or document.get("kind") != KIND:
        raise NotHardware(f"it is not a report of hardware of schema {SCHEMA}")
    try:
        return Machine.model_validate(as_written(document))
    except ValidationError as error:
        raise NotHardware(sentence_of(error)) from error


def as_written(value: Any) -> Any:
    """The same without control characters, and with tuples for lists, which strict mode wants."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, Mapping):
        return {clean(str(key)): as_written(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return tuple(as_written(item) for item in value)
    return value


def clean(text: str) -> str:
    """A text that a terminal may show on one line."""
    return _CONTROL.sub("\ufffd", text)


def sentence_of(error: ValidationError) -> str:
    """The first invalid fields, without their values, which are not trusted."""
    found = error.errors(include_url=False, include_input=False, include_context=False)
    places = {clean(".".join(map(str, one["loc"]))[:120]): one["msg"] for one in reversed(found)}
    words = [f"{where}: {why[0].lower()}{why[1:]}" for where, why in reversed(places.items())]
    more = f", and {len(words) - _SHOWN} more" if words[_SHOWN:] else ""
    return "; ".join(words[:_SHOWN]) + more


def together(first: Machine, second: Machine) -> Machine:
    """One machine by two sources: the first's facts, and the second's where it has none.

    Lists are taken whole: slots and ports have other names in each source. Disks are joined by
    serial number, and RAID controllers that the probe cannot judge by what the BMC tells.
    """
    filled: dict[str, Any] = {}
    reasons = dict(first.unknown)
    for name in Machine.model_fields:
        mine, other = getattr(first, name), getattr(second, name)
        if isinstance(mine, Part):
            update = {
                key: getattr(other, key)
                for key in type(mine).model_fields
                if getattr(mine, key) is None and getattr(other, key) is not None
            }
            filled[name] = mine.model_copy(update=update)
            for key in update:
                reasons.pop(f"{name}.{key}", None)
        elif mine is None and other is not None:
            filled[name] = other
            reasons = {k: v for k, v in reasons.items() if k.partition(".")[0] != name}
            reasons |= {k: v for k, v in second.unknown.items() if k.partition(".")[0] == name}
    joined = first.model_copy(update={**filled, "unknown": reasons})
    return _by_controllers(_by_serial(joined, second), second)


def _by_serial(one: Machine, bmc: Machine) -> Machine:
    """Disks with what the BMC tells of the same serial number, where the probe told nothing."""
    if not one.disks or not bmc.disks:
        return one
    many = Counter(disk.serial for disk in bmc.disks)
    known = {disk.serial: disk for disk in bmc.disks if disk.serial and many[disk.serial] == 1}
    disks = []
    for disk in one.disks:
        other = known.get(disk.serial or "")
        update = {
            key: getattr(other, key)
            for key in ("healthy", "wear_percent", "media_errors", "power_on_hours")
            if other is not None and getattr(disk, key) is None
        }
        disks.append(disk.model_copy(update=update))
    return one.model_copy(update={"disks": tuple(disks)})


def _by_controllers(one: Machine, bmc: Machine) -> Machine:
    """RAID controllers that only the BMC can judge: its arrays, and the drives behind them.

    A BMC that tells of fewer controllers than there are on PCI leaves them unknown.
    """
    silent = [array for array in one.raid or () if _is_silent(array)]
    told = [array for array in bmc.raid or () if array.level == CONTROLLER]
    if not silent or len(told) < len(silent):
        return one
    kept = tuple(array for array in one.raid or () if array not in silent)
    paths = {f"raid.{array.name}.healthy" for array in silent}
    reasons = {path: why for path, why in one.unknown.items() if path not in paths}
    reasons |= {path: why for path, why in bmc.unknown.items() if path.startswith("raid.")}
    update: dict[str, Any] = {"raid": (*kept, *(bmc.raid or ())), "unknown": reasons}
    disks = one.disks or ()
    if bmc.disks and any(disk.behind and disk.healthy is None for disk in disks):
        serials = {disk.serial for disk in disks if disk.serial}
        arrays = [
            disk.model_copy(update={"transport": "raid"})
            if disk.behind and disk.healthy is None
            else disk
            for disk in disks
        ]
        members = [
            disk.model_copy(update={"member": True, "name": f"bmc:{disk.name}"})
            for disk in bmc.disks
            if disk.serial not in serials
        ]
        update["disks"] = (*arrays, *members)
        reasons |= {
            f"disks.bmc:{path.removeprefix('disks.')}": why
            for path, why in bmc.unknown.items()
            if path.startswith("disks.")
        }
    return one.model_copy(update=update)


def _is_silent(array: RaidArray) -> bool:
    return array.level == CONTROLLER and array.healthy is None
