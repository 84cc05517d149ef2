"""A BMC's Redfish documents as a report of hardware. A value of a wrong type counts as missing.

Names and meanings are those of DMTF's schemas (DSP8010). What a BMC does not tell is unknown.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

from appliance.model.checks.hardware.found import (
    CONTROLLER,
    KIND,
    MOST_PARTS,
    SCHEMA,
    Machine,
    check_machine,
    clean,
)
from appliance.model.checks.hardware.redfish_links import (
    Resources,
    linked,
    listed,
    members,
    part,
)

LONGEST: Final = 200
LARGEST: Final = (1 << 62) - 1
MIB: Final = 1024**2
# Transfer rates of the generations of PCI Express, in GT/s.
RATES: Final = {"Gen1": 2.5, "Gen2": 5.0, "Gen3": 8.0, "Gen4": 16.0, "Gen5": 32.0, "Gen6": 64.0}
UNTOLD: Final = "a BMC does not tell it"
ABSENT: Final = "the BMC has no such resource"
_NEVER: Final = {
    "memory.corrected": "a BMC keeps memory errors in its event log",
    "memory.uncorrected": "a BMC keeps memory errors in its event log",
    "settings": UNTOLD,
    "trials": "measured by the probe only: appliance hardware qualify",
}
_DISPLAY: Final = ("DisplayController", "ProcessingAccelerators")


class _Reader:
    """Values of documents, and why some are missing."""

    def __init__(self, resources: Resources, system: str, failed: Mapping[str, str]) -> None:
        self.resources, self.system = resources, resources.get(system, {})
        self.failed = failed
        self.unknown: dict[str, str] = dict(_NEVER)

    def collection(self, name: str, key: str) -> list[tuple[str, Mapping[str, Any]]] | None:
        """Members of one of the system's collections; None and a reason without it."""
        paths = linked(self.system, key)
        if not paths:
            self.unknown[name] = f"{ABSENT}: {key}"
            return None
        refused = [self.failed[path] for path in paths if path in self.failed]
        if refused:
            self.unknown[name] = refused[0][:LONGEST]
            return None
        found: list[tuple[str, Mapping[str, Any]]] = []
        for path in paths:
            document = self.resources.get(path, {})
            is_collection = "Members" in document
            found += members(self.resources, path) if is_collection else [(path, document)]
        missing = [
            self.failed[path]
            for collection in paths
            for path in linked(self.resources.get(collection, {}), "Members")
            if path in self.failed
        ]
        if missing:
            # A list with holes is no list: a missing entry would look like a missing part.
            self.unknown[name] = missing[0][:LONGEST]
            return None
        return found[:MOST_PARTS]


def machine_of(resources: Resources, system: str, failed: Mapping[str, str]) -> Machine:
    """The report of one machine.

    Args:
        resources: path -> document, of those that answered.
        system: path of the machine's ComputerSystem.
        failed: path -> why it did not answer.

    Raises:
        NotHardware: the documents exceed a limit.
    """
    objects = {path: one for path, one in resources.items() if isinstance(one, Mapping)}
    reader = _Reader(objects, system, failed)
    own = reader.system
    dimms, correction = _dimms(reader)
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "kind": KIND,
        "source": "redfish",
        "identity": {
            "vendor": text(own, "Manufacturer"),
            "product": text(own, "Model"),
            "serial": text(own, "SerialNumber"),
            "uuid": text(own, "UUID"),
        },
        "firmware": {"bios": text(own, "BiosVersion"), "bmc": _bmc(reader)},
        "cpus": _cpus(reader),
        "dimms": dimms,
        "memory": {"correction": correction},
        "gpus": _gpus(reader),
        "nics": _nics(reader),
        "disks": _disks(reader),
        "raid": _raid(reader),
        "settings": _settings(reader),
        "bios_attributes": _bios(reader),
    }
    document["unknown"] = reader.unknown
    return check_machine(document)


def text(document: Mapping[str, Any], *keys: str) -> str | None:
    """The first non-empty text at one of the keys, without control characters."""
    for key in keys:
        found = document.get(key)
        if isinstance(found, str) and found.strip():
            return clean(found.strip()[:LONGEST])
    return None


def whole(document: Mapping[str, Any], key: str) -> int | None:
    """The number at the key, if it is a whole one from 0 on."""
    found = document.get(key)
    if isinstance(found, float) and found.is_integer():
        found = int(found)
    good = isinstance(found, int) and not isinstance(found, bool) and 0 <= found <= LARGEST
    return found if good else None


def _state(document: Mapping[str, Any]) -> str | None:
    return text(part(document, "Status"), "State")


def _health(document: Mapping[str, Any]) -> bool | None:
    health = text(part(document, "Status"), "Health")
    return None if health is None else health == "OK"


def _bmc(reader: _Reader) -> str | None:
    managers = linked(part(reader.system, "Links"), "ManagedBy")
    for path in managers:
        if version := text(reader.resources.get(path, {}), "FirmwareVersion"):
            return version
    why = next((reader.failed[path] for path in managers if path in reader.failed), ABSENT)
    reader.unknown["firmware.bmc"] = why[:LONGEST]
    return None


def _cpus(reader: _Reader) -> list[dict[str, Any]] | None:
    found = reader.collection("cpus", "Processors")
    if found is None:
        return None
    return [
        {
            "socket": text(one, "Socket", "Id") or path,
            "model": text(one, "Model"),
            "cores": whole(one, "TotalCores"),
            "microcode": text(part(one, "ProcessorId"), "MicrocodeInfo"),
        }
        for path, one in found
        if one.get("ProcessorType", "CPU") == "CPU" and _state(one) != "Absent"
    ]


def _dimms(reader: _Reader) -> tuple[list[dict[str, Any]] | None, str | None]:
    """The slots, and the weakest error correction of the modules."""
    found = reader.collection("dimms", "Memory")
    if found is None:
        reader.unknown["memory.correction"] = reader.unknown["dimms"]
        return None, None
    dimms, kinds = [], []
    for path, one in found:
        slot = "_".join((text(one, "DeviceLocator", "Id") or path).split())
        mib = whole(one, "CapacityMiB")
        size = 0 if _state(one) == "Absent" else None if mib is None else mib * MIB
        if size is None:
            reader.unknown[f"dimms.{slot}.size_bytes"] = "the BMC tells no CapacityMiB"
        speeds = [n for n in listed(one, "AllowedSpeedsMHz") if isinstance(n, int) and n > 0]
        dimms.append(
            {
                "slot": slot,
                "size_bytes": size if size is None or size <= LARGEST else None,
                "kind": text(one, "MemoryDeviceType"),
                "speed_mts": whole(one, "OperatingSpeedMhz"),
                "rated_mts": max(speeds) if speeds and max(speeds) <= LARGEST else None,
                "part": text(one, "PartNumber"),
                "serial": text(one, "SerialNumber"),
            }
        )
        if size:
            kinds.append(text(one, "ErrorCorrection"))
    weakest = next((kind for kind in kinds if kind == "NoECC"), kinds[0] if kinds else None)
    if weakest is None or None in kinds:
        reader.unknown["memory.correction"] = "the BMC tells no ErrorCorrection"
        weakest = None
    return dimms, weakest


def _devices(reader: _Reader) -> Iterator[tuple[str, Mapping[str, Any], list[Mapping[str, Any]]]]:
    """PCIe devices with their functions."""
    paths = list(linked(reader.system, "PCIeDevices"))
    for chassis in linked(part(reader.system, "Links"), "Chassis"):
        for path in linked(reader.resources.get(chassis, {}), "PCIeDevices"):
            paths += [member for member, _ in members(reader.resources, path)] or [path]
    for path in dict.fromkeys(paths):
        one = reader.resources.get(path, {})
        functions = [
            reader.resources.get(function, {})
            for function in (
                *linked(one, "PCIeFunctions"),
                *linked(part(one, "Links"), "PCIeFunctions"),
            )
        ]
        for collection in linked(one, "PCIeFunctions"):
            functions += [function for _, function in members(reader.resources, collection)]
        if one and "Members" not in one:
            yield path, one, [function for function in functions if function]


def _gpus(reader: _Reader) -> list[dict[str, Any]] | None:
    if not linked(reader.system, "PCIeDevices") and not any(_devices(reader)):
        reader.unknown["gpus"] = f"{ABSENT}: PCIeDevices"
        return None
    failed = [why for path, why in reader.failed.items() if "/PCIeDevices" in path]
    if failed:
        reader.unknown["gpus"] = failed[0][:LONGEST]
        return None
    gpus = []
    for path, one, functions in _devices(reader):
        if not _is_gpu(one, functions):
            continue
        name = text(one, "Id") or path
        link = part(one, "PCIeInterface")
        for field in ("busy", "above_4g", "ecc_uncorrected"):
            reader.unknown[f"gpus.{name}.{field}"] = UNTOLD
        gpus.append(
            {
                "address": name,
                "pci_id": _pci_id(functions),
                "link_width": whole(link, "LanesInUse"),
                "max_link_width": whole(link, "MaxLanes"),
                "link_gts": RATES.get(text(link, "PCIeType") or ""),
                "max_link_gts": RATES.get(text(link, "MaxPCIeType") or ""),
                "firmware": text(one, "FirmwareVersion"),
            }
        )
    return gpus[:MOST_PARTS]


def _is_gpu(device: Mapping[str, Any], functions: list[Mapping[str, Any]]) -> bool:
    """By the class of a function; without functions by the manufacturer."""
    classes = [text(one, "DeviceClass") for one in functions]
    nvidia = "nvidia" in (text(device, "Manufacturer") or "").lower()
    if any(classes):
        vendors = {(text(one, "VendorId") or "").lower() for one in functions}
        return bool(set(classes) & set(_DISPLAY)) and (nvidia or "0x10de" in vendors)
    return nvidia and "switch" not in (text(device, "Model", "Name") or "").lower()


def _pci_id(functions: list[Mapping[str, Any]]) -> str | None:
    for one in functions:
        words = [(text(one, key) or "").lower() for key in ("VendorId", "DeviceId")]
        digits = [word.removeprefix("0x") for word in words]
        if all(len(word) == 4 and set(word) <= set("0123456789abcdef") for word in digits):
            return ":".join(digits)
    return None


def _nics(reader: _Reader) -> list[dict[str, Any]] | None:
    found = reader.collection("nics", "EthernetInterfaces")
    if found is None:
        return None
    nics = []
    for path, one in found:
        name, status = text(one, "Id") or path, text(one, "LinkStatus")
        if status is None:
            reader.unknown[f"nics.{name}.link"] = "the BMC tells no LinkStatus"
        nics.append(
            {
                "name": name,
                "mac": text(one, "PermanentMACAddress", "MACAddress"),
                "link": None if status is None else status == "LinkUp",
                "speed_mbps": whole(one, "SpeedMbps"),
            }
        )
    return nics


def _disks(reader: _Reader) -> list[dict[str, Any]] | None:
    found = reader.collection("disks", "Storage")
    if found is None:
        return None
    drives = [path for _, storage in found for path in linked(storage, "Drives")]
    failed = [reader.failed[path] for path in drives if path in reader.failed]
    if failed:
        reader.unknown["disks"] = failed[0][:LONGEST]
        return None
    there = [(path, reader.resources[path]) for path in drives if path in reader.resources]
    return [_disk(reader, path, one) for path, one in there[:MOST_PARTS] if _state(one) != "Absent"]


def _disk(reader: _Reader, path: str, one: Mapping[str, Any]) -> dict[str, Any]:
    name = text(one, "Id", "Name") or path
    left, predicted = whole(one, "PredictedMediaLifeLeftPercent"), one.get("FailurePredicted")
    healthy = _health(one)
    if predicted is True:
        healthy = False
    if healthy is None:
        reader.unknown[f"disks.{name}.healthy"] = "the BMC tells no health"
    if left is None:
        reader.unknown[f"disks.{name}.wear_percent"] = "the BMC tells no media life"
    reader.unknown[f"disks.{name}.media_errors"] = UNTOLD
    media, protocol = text(one, "MediaType"), text(one, "Protocol")
    return {
        "name": name,
        "serial": text(one, "SerialNumber"),
        "model": text(one, "Model"),
        "size_bytes": whole(one, "CapacityBytes"),
        "transport": None if protocol is None else protocol.lower(),
        "rotational": None if media is None else media == "HDD",
        "firmware": text(one, "FirmwareVersion", "Revision"),
        "healthy": healthy,
        "wear_percent": None if left is None else max(0, 100 - left),
    }


def _raid(reader: _Reader) -> list[dict[str, Any]] | None:
    found = reader.collection("raid", "Storage")
    if found is None:
        return None
    arrays: list[dict[str, Any]] = []
    for path, storage in found:
        volumes = list(_volumes(reader, storage))
        if reader.unknown.get("raid"):
            return None
        parts = [one for one in listed(storage, "StorageControllers") if isinstance(one, Mapping)]
        for collection in linked(storage, "Controllers"):
            parts += [one for _, one in members(reader.resources, collection)]
        if volumes or any(listed(one, "SupportedRAIDTypes") for one in parts):
            told = [good for one in (storage, *parts) if (good := _health(one)) is not None]
            name = f"{CONTROLLER}-{text(storage, 'Id') or path}"
            volumes.insert(0, (name, CONTROLLER, all(told) if told else None))
        for name, level, healthy in volumes:
            if healthy is None:
                reader.unknown[f"raid.{name}.healthy"] = "the BMC tells no health"
            arrays.append({"name": name, "level": level, "healthy": healthy})
    return arrays[:MOST_PARTS]


def _volumes(reader: _Reader, storage: Mapping[str, Any]) -> Iterator[tuple[str, str, bool | None]]:
    """Arrays of one controller; one that did not answer makes all of them unknown."""
    for collection in linked(storage, "Volumes"):
        inside = linked(reader.resources.get(collection, {}), "Members")
        for path in (collection, *inside):
            if path in reader.failed:
                reader.unknown["raid"] = reader.failed[path][:LONGEST]
        for path, one in members(reader.resources, collection):
            if (level := text(one, "RAIDType")) not in (None, "None"):
                yield text(one, "Id", "Name") or path, level or "", _health(one)


def _settings(reader: _Reader) -> dict[str, Any]:
    kind = text(reader.system, "SystemType")
    hypervisor = {"Physical": "none", "Virtual": "a virtual machine"}.get(kind or "")
    boot = None
    for path in linked(reader.system, "SecureBoot"):
        if path in reader.failed:
            reader.unknown["settings.secure_boot"] = reader.failed[path][:LONGEST]
        now = text(reader.resources.get(path, {}), "SecureBootCurrentBoot")
        boot = {"Enabled": True, "Disabled": False}.get(now or "")
    return {"secure_boot": boot, "hypervisor": hypervisor}


def _bios(reader: _Reader) -> dict[str, Any] | None:
    for path in linked(reader.system, "Bios"):
        found = reader.resources.get(path, {}).get("Attributes")
        if isinstance(found, Mapping):
            return {
                clean(str(name)[:LONGEST]): value[:LONGEST] if isinstance(value, str) else value
                for name, value in found.items()
                if value is None or isinstance(value, str | bool | int) or _is_finite(value)
            }
        if path in reader.failed:
            reader.unknown["bios_attributes"] = reader.failed[path][:LONGEST]
            return None
    reader.unknown["bios_attributes"] = f"{ABSENT}: Bios"
    return None


def _is_finite(value: object) -> bool:
    return isinstance(value, float) and math.isfinite(value)
