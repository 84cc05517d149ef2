"""Disks with their health and wear, and RAID arrays."""

from __future__ import annotations

import json
import re
from typing import Any, Dict, List, Optional

from ..source import Source
from .nvme import health_log
from .reasons import ask

COLUMNS = "NAME,SIZE,SERIAL,MODEL,TRAN,ROTA,REV,TYPE"
RAID_CLASS = "0x0104"
PCI = "/sys/bus/pci/devices/"


def disks(source: Source) -> Optional[List[Dict[str, Any]]]:
    """Whole disks, without loop, RAM, optical and memory devices."""
    argv = ["lsblk", "-J", "-b", "-d", "-e", "1,7,11", "-o", COLUMNS]
    text = ask(source, "lsblk-inspection", argv, "disks")
    if text is None:
        return None
    document = json.loads(text)
    return [
        _disk(source, device)
        for device in document.get("blockdevices") or ()
        if device.get("type", "disk") == "disk" and not str(device.get("name")).startswith("zram")
    ]


def _disk(source: Source, device: Dict[str, Any]) -> Dict[str, Any]:
    name = str(device.get("name"))
    disk: Dict[str, Any] = {
        "name": name,
        "serial": _text(device.get("serial")),
        "model": _text(device.get("model")),
        "size_bytes": int(device.get("size") or 0),
        "transport": device.get("tran"),
        "rotational": device.get("rota") in (True, "1", 1),
        "firmware": _text(device.get("rev")),
        "behind": _raid_controller(source, name),
    }
    controller = re.match(r"nvme\d+", name)
    if controller:
        disk["firmware"] = source.word("/sys/class/nvme/%s/firmware_rev" % controller.group(0))
        disk.update(health_log(source, controller.group(0), "disks." + name))
    elif name.startswith("vd") or device.get("tran") == "usb":
        source.unseen("not a disk of a server", "disks." + name)
    else:
        disk.update(_smart(source, name))
    return disk


def _raid_controller(source: Source, name: str) -> Optional[str]:
    """Return the PCI address of the RAID controller that shows this disk, by its path in sysfs."""
    path = source.target("/sys/block/" + name) or ""
    for match in re.finditer(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", path):
        if (source.word(PCI + match.group(0) + "/class") or "")[:6] == RAID_CLASS:
            return match.group(0)
    return None


def _text(value: Any) -> Optional[str]:
    return str(value).strip() or None if value is not None else None


def _smart(source: Source, name: str) -> Dict[str, Any]:
    path = "disks." + name
    argv = ["smartctl", "-j", "-H", "-A", "-l", "devstat", "-l", "error", "/dev/" + name]
    text = ask(source, "smartctl-" + name, argv, path)
    if text is None:
        return {}
    told = json.loads(text)
    passed = (told.get("smart_status") or {}).get("passed")
    if passed is None:
        source.unseen("smartctl tells no health", path + ".healthy")
    found: Dict[str, Any] = {"healthy": passed}
    pages = (told.get("ata_device_statistics") or {}).get("pages") or ()
    rows = {row.get("name"): row for page in pages for row in page.get("table") or ()}
    wear = rows.get("Percentage Used Endurance Indicator") or {}
    found["wear_percent"] = wear.get("value")
    if wear.get("value") is None:
        source.unseen("the disk keeps no endurance indicator", path + ".wear_percent")
    hours = rows.get("Power-on Hours") or {}
    found["power_on_hours"] = hours.get("value")
    reported = rows.get("Number of Reported Uncorrectable Errors") or {}
    found["media_errors"] = reported.get("value")
    if found["media_errors"] is None:
        found["media_errors"] = _errors_elsewhere(told)
    if found["media_errors"] is None:
        source.unseen("the disk keeps no count of uncorrectable errors", path + ".media_errors")
    return found


def _errors_elsewhere(told: Dict[str, Any]) -> Optional[int]:
    """Return uncorrectable errors by SMART's attribute of an ATA disk, or SAS's error counters."""
    for row in (told.get("ata_smart_attributes") or {}).get("table") or ():
        if row.get("name") == "Reported_Uncorrect":
            return (row.get("raw") or {}).get("value")
    found = []
    for kind, one in (told.get("scsi_error_counter_log") or {}).items():
        count = (one or {}).get("total_uncorrected_errors")
        if kind in ("read", "write", "verify"):
            if not isinstance(count, int):
                return None
            found.append(count)
    return sum(found) if found else None


def raid(source: Source) -> List[Dict[str, Any]]:
    """Arrays of Linux, and RAID controllers, whose arrays only their own tools show."""
    found = []
    text = source.text("/proc/mdstat") or ""
    for match in re.finditer(r"^(md\w+) : (.+)\n(.*)$", text, re.MULTILINE):
        members = re.search(r"\[(\d+)/(\d+)\]", match.group(3))
        level = re.search(r"\b(raid\d+|linear)\b", match.group(2))
        healthy = "inactive" not in match.group(2) and (
            members is None or members.group(1) == members.group(2)
        )
        found.append(
            {
                "name": match.group(1),
                "level": level.group(1) if level else None,
                "healthy": healthy and "(F)" not in match.group(2),
            }
        )
    for address in source.names(PCI):
        if (source.word(PCI + address + "/class") or "")[:6] == RAID_CLASS:
            name = "controller-" + address
            found.append({"name": name, "level": "controller", "healthy": None})
            source.unseen("only the controller's own tool tells", "raid.%s.healthy" % name)
    return found
