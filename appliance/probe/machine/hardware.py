"""The machine's hardware: dmi, cpu, memory, disks, gpus."""

from __future__ import annotations

import re
from typing import Any, Dict, List, Optional, Sequence

from ..source import Source
from .system import container

DMI_FIELDS = {
    "vendor": "sys_vendor",
    "product": "product_name",
    "serial": "product_serial",
    "board": "board_name",
    "bios_version": "bios_version",
    "bios_date": "bios_date",
    "board_serial": "board_serial",
    "chassis_serial": "chassis_serial",
}
# Placeholder values in firmware fields without content.
DMI_PLACEHOLDERS = {"", "none", "default string", "to be filled by o.e.m.", "not specified", "0"}
# Without persistence mode the driver starts every GPU anew: seconds each.
SMI_SECONDS = 15.0
SMI_FIELDS = ("pci.bus_id", "uuid", "ecc.errors.uncorrected.volatile.total")
UNITS = {"kB": 1024, "KB": 1024, "MB": 1024**2, "GB": 1024**3, "TB": 1024**4}
# NVIDIA's switches between GPUs on SXM boards: class and vendor, as go-nvlib (pkg/nvpci) has them.
NVSWITCH_CLASS, NVIDIA = "0x0680", "0x10de"
# Display controllers of a BMC or a hypervisor, which are not GPUs.
NOT_GPU_VENDORS = {"0x1a03", "0x102b", "0x1234", "0x1013", "0x15ad", "0x1af4", "0x1b36", "0x1414"}


def dmi(source: Source) -> Dict[str, Any]:
    """Return the identity from firmware; nothing in a container, where it is the host's."""
    if container(source):
        source.note("in a container the DMI is the host's")
        return dict.fromkeys(DMI_FIELDS)
    found: Dict[str, Any] = {}
    for field, file in DMI_FIELDS.items():
        value = source.word("/sys/class/dmi/id/" + file)
        found[field] = None if (value or "").lower() in DMI_PLACEHOLDERS else value
    return found


def cpu(source: Source) -> Dict[str, Any]:
    """Model, vendor, sockets, cores and threads from /proc/cpuinfo."""
    threads = 0
    packages = set()
    cores = set()
    first: Dict[str, str] = {}
    for block in (source.text("/proc/cpuinfo") or "").split("\n\n"):
        entry = {}
        for line in block.splitlines():
            key, _, value = line.partition(":")
            entry[key.strip()] = value.strip()
        if "processor" not in entry:
            continue
        threads += 1
        first = first or entry
        package = entry.get("physical id", "0")
        packages.add(package)
        cores.add((package, entry.get("core id", entry["processor"])))
    return {
        "model": first.get("model name"),
        "vendor": first.get("vendor_id"),
        "sockets": len(packages),
        "cores": len(cores),
        "threads": threads,
    }


def memory(source: Source) -> Dict[str, Any]:
    """Return the kernel's memory size, and the modules listed by firmware."""
    found: Dict[str, Any] = {"total_bytes": None, "available_bytes": None}
    for line in source.lines("/proc/meminfo"):
        key, _, value = line.partition(":")
        if key in ("MemTotal", "MemAvailable"):
            field = "total_bytes" if key == "MemTotal" else "available_bytes"
            found[field] = int(value.split()[0]) * 1024
    found["dimms"] = []
    found["dimm_slots"] = None
    if container(source):
        source.note("dimms: in a container the DMI is the host's")
        return found
    text = source.root_command("dmidecode-17", ["dmidecode", "-t", "17"])
    if text is None and source.privileged:
        source.note("dimms: dmidecode does not answer")
    if text is not None:
        slots = [_fields(block) for block in text.split("\n\n") if "Memory Device" in block]
        found["dimm_slots"] = len(slots)
        found["dimms"] = [_dimm(slot) for slot in slots if _size(slot.get("Size", ""))]
    return found


def _fields(block: str) -> Dict[str, str]:
    pairs = (line.split(":", 1) for line in block.splitlines() if ":" in line)
    return {key.strip(): value.strip() for key, value in pairs}


def _size(text: str) -> int:
    match = re.match(r"(\d+) ([kKMGT]B)", text)
    return int(match.group(1)) * UNITS[match.group(2)] if match else 0


def _dimm(slot: Dict[str, str]) -> Dict[str, Any]:
    speed = re.match(r"\d+", slot.get("Configured Memory Speed") or slot.get("Speed", ""))
    return {
        "locator": slot.get("Locator"),
        "size_bytes": _size(slot["Size"]),
        "speed_mts": int(speed.group(0)) if speed else None,
        "manufacturer": slot.get("Manufacturer"),
        "part": slot.get("Part Number"),
        "serial": slot.get("Serial Number"),
    }


def disks(source: Source) -> Optional[List[Dict[str, Any]]]:
    """Whole disks, without loop, RAM and optical devices."""
    columns = "NAME,SIZE,SERIAL,WWN,ROTA,TRAN,MODEL,TYPE"
    argv = ["lsblk", "-J", "-b", "-d", "-e", "1,7,11", "-o", columns]
    document = source.json_command("lsblk", argv)
    if document is None:
        return None
    return [
        {
            "name": device.get("name"),
            "size_bytes": int(device.get("size") or 0),
            "serial": device.get("serial"),
            "wwn": device.get("wwn"),
            "rotational": device.get("rota") in (True, "1", 1),
            "transport": device.get("tran"),
            "model": device.get("model"),
        }
        for device in document.get("blockdevices", [])
        if device.get("type", "disk") == "disk" and not str(device.get("name")).startswith("zram")
    ]


def gpus(source: Source) -> List[Dict[str, Any]]:
    """Display and 3D controllers on PCI, seen without any driver."""
    found = []
    told = _driver_says(source)
    base = "/sys/bus/pci/devices/"
    for address in source.names(base):
        device = base + address + "/"
        kind = source.word(device + "class") or ""
        vendor = source.word(device + "vendor")
        if kind[:6] not in ("0x0300", "0x0302") or vendor in NOT_GPU_VENDORS:
            continue
        numa = source.word(device + "numa_node")
        found.append(
            {
                "address": address,
                "vendor_id": vendor,
                "device_id": source.word(device + "device"),
                "class": kind,
                "numa_node": int(numa) if numa is not None else None,
                "link_width": _number(source.word(device + "current_link_width")),
                "max_link_width": _number(source.word(device + "max_link_width")),
                "link_speed": source.word(device + "current_link_speed"),
                "driver": source.link(device + "driver"),
                **told.get(address.lower(), {"uuid": None, "ecc_uncorrected": None}),
            }
        )
    return found


def nvswitches(source: Source) -> List[Dict[str, Any]]:
    """NVIDIA's switches on PCI: their GPUs work only while a fabric manager runs."""
    base = "/sys/bus/pci/devices/"
    return [
        {"address": address, "device_id": source.word(base + address + "/device")}
        for address in source.names(base)
        if source.word(base + address + "/vendor") == NVIDIA
        and (source.word(base + address + "/class") or "")[:6] == NVSWITCH_CLASS
    ]


def _driver_says(source: Source) -> Dict[str, Dict[str, Any]]:
    """Return PCI address -> facts from NVIDIA's driver."""
    found = {}
    for address, (uuid, errors) in driver_rows(source, "nvidia-smi", SMI_FIELDS).items():
        found[address] = {"uuid": uuid, "ecc_uncorrected": _number(errors)}
    return found


def driver_rows(source: Source, key: str, fields: Sequence[str]) -> Dict[str, List[str]]:
    """Return PCI address -> what NVIDIA's driver says of the other fields; empty without it.

    The driver is on the host, or in the GPU Operator's container (/run/nvidia/driver).

    Args:
        source: the machine.
        key: the command's name in notes, and where it was recorded.
        fields: of nvidia-smi's --query-gpu, pci.bus_id first.
    """
    if source.word("/sys/module/nvidia/version") is None:
        return {}
    argv = ["nvidia-smi", "--query-gpu=" + ",".join(fields), "--format=csv,noheader,nounits"]
    text = source.command(key, argv, seconds=SMI_SECONDS, quiet=True)
    if text is None:
        argv = ["chroot", "/run/nvidia/driver", *argv]
        text = source.root_command(key + "-container", argv)
    found = {}
    for line in (text or "").splitlines():
        told = [field.strip() for field in line.split(",")]
        if len(told) == len(fields):
            # nvidia-smi writes the PCI domain with eight digits, the kernel with four.
            found[told[0].lower()[-12:]] = told[1:]
    return found


def _number(text: Optional[str]) -> Optional[int]:
    return int(text) if text is not None and text.isdigit() else None
