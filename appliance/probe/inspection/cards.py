"""Cards on PCI: GPUs with the state of their links, and network ports."""

from __future__ import annotations

import re
from typing import Any, Dict, Iterator, List, Optional, Tuple

from ..machine.hardware import NOT_GPU_VENDORS, driver_rows
from ..source import Source
from .reasons import ask, number

PCI = "/sys/bus/pci/devices/"
NET = "/sys/class/net/"
FOUR_GIB = 1 << 32
# A window of this size is the GPU's memory, not its registers.
LARGE = 1 << 26
SMI_FIELDS = (
    *("pci.bus_id", "utilization.gpu", "ecc.errors.uncorrected.volatile.total"),
    *("ecc.mode.current", "vbios_version"),
)
NO_DRIVER = "NVIDIA's driver is not loaded"
ECC_MODES = {"Enabled": True, "Disabled": False}


def gpus(source: Source) -> List[Dict[str, Any]]:
    """Display and 3D controllers, seen without any driver."""
    found = []
    told = _by_driver(source)
    for address in source.names(PCI):
        device = PCI + address + "/"
        kind = (source.word(device + "class") or "")[:6]
        vendor = source.word(device + "vendor")
        if kind not in ("0x0300", "0x0302") or vendor in NOT_GPU_VENDORS:
            continue
        own = told.get(address.lower(), {})
        load = own.get("load")
        if load is None:
            source.unseen("no driver tells its load", "gpus.%s.busy" % address)
        for field, why in _untold(source, own):
            source.unseen(why, "gpus.%s.%s" % (address, field))
        gpu = {
            "address": address,
            "pci_id": _pci_id(source, device),
            "link_width": number(source.word(device + "current_link_width")),
            "max_link_width": number(source.word(device + "max_link_width")),
            "link_gts": _speed(source.word(device + "current_link_speed")),
            "max_link_gts": _speed(source.word(device + "max_link_speed")),
            "numa_node": _signed(source.word(device + "numa_node")),
            "driver": source.link(device + "driver"),
            "busy": None if load is None else load > 0,
            "above_4g": _above_4g(source.text(device + "resource")),
            "ecc_on": own.get("ecc_on"),
            "ecc_uncorrected": own.get("ecc_uncorrected"),
            "firmware": own.get("firmware"),
        }
        for field in ("pci_id", "link_width", "link_gts", "above_4g"):
            if gpu[field] is None:
                source.unseen("the kernel shows none", "gpus.%s.%s" % (address, field))
        found.append(gpu)
    return found


def _pci_id(source: Source, device: str) -> Optional[str]:
    words = [source.word(device + file) or "" for file in ("vendor", "device")]
    if all(re.fullmatch(r"0x[0-9a-f]{4}", word) for word in words):
        return ":".join(word[2:] for word in words)
    return None


def _speed(text: Optional[str]) -> Optional[float]:
    match = re.match(r"(\d{1,4}(?:\.\d{1,3})?) GT/s", text or "")
    return float(match.group(1)) if match else None


def _signed(text: Optional[str]) -> Optional[int]:
    return int(text) if text is not None and re.fullmatch(r"-?\d{1,6}", text) else None


def _above_4g(text: Optional[str]) -> Optional[bool]:
    """Whether the largest window lies above 4 GiB; one that got no address does not."""
    windows = []
    for line in (text or "").splitlines():
        words = re.findall(r"0x([0-9a-f]{1,16})", line)
        if len(words) == 3:
            start, end = int(words[0], 16), int(words[1], 16)
            if end - start + 1 >= LARGE:
                windows.append((end - start, start))
    if windows:
        return max(windows)[1] >= FOUR_GIB
    return None


def _by_driver(source: Source) -> Dict[str, Dict[str, Any]]:
    """Return address -> load in percent, errors, ECC mode and VBIOS, from NVIDIA's driver."""
    found = {}
    rows = driver_rows(source, "nvidia-smi-load", SMI_FIELDS)
    for address, (load, errors, mode, firmware) in rows.items():
        found[address] = {
            "load": number(load),
            "ecc_uncorrected": number(errors),
            "ecc_on": ECC_MODES.get(mode),
            # What a card does not have is in brackets: [N/A].
            "firmware": None if firmware.startswith("[") else firmware or None,
        }
    return found


def _untold(source: Source, own: Dict[str, Any]) -> Iterator[Tuple[str, str]]:
    """Yield what the driver did not tell of one GPU, and why."""
    if source.word("/sys/module/nvidia/version") is None:
        why = NO_DRIVER
    elif not own:
        why = "nvidia-smi did not answer, or does not list it"
    else:
        why = "nvidia-smi prints none"
    for field in ("ecc_uncorrected", "firmware"):
        if own.get(field) is None:
            yield field, why


def nics(source: Source) -> List[Dict[str, Any]]:
    """Ports of cards; what has no device is the kernel's own."""
    return [
        _nic(source, name)
        for name in source.names(NET)
        if source.word(NET + name + "/device/vendor") is not None
    ]


def _nic(source: Source, name: str) -> Dict[str, Any]:
    base, path = NET + name + "/", "nics.%s." % name
    carrier = source.word(base + "carrier")
    if carrier is None:
        source.unseen("the interface is not up, so it has no link state", path + "link")
    speed = number(source.word(base + "speed"))
    if carrier == "1" and speed is None:
        source.unseen("the driver tells no speed", path + "speed_mbps")
    driver = ask(source, "ethtool-i-" + name, ["ethtool", "-i", name], path + "firmware")
    modes = ask(source, "ethtool-" + name, ["ethtool", name], path + "most_mbps")
    firmware = re.search(r"^firmware-version: *(\S+)", driver or "", re.MULTILINE)
    return {
        "name": name,
        "mac": source.word(base + "address"),
        "pci_id": _pci_id(source, base + "device/"),
        "driver": source.link(base + "device/driver"),
        "firmware": firmware.group(1) if firmware else None,
        "link": None if carrier is None else carrier == "1",
        "speed_mbps": speed,
        "most_mbps": _most(modes),
        "numa_node": _signed(source.word(base + "device/numa_node")),
    }


def _most(text: Optional[str]) -> Optional[int]:
    """Return the fastest supported mode."""
    match = re.search(r"Supported link modes:(.*?)(?:\n\t[A-Z]|\Z)", text or "", re.DOTALL)
    speeds = [int(word) for word in re.findall(r"(\d{1,7})base", match.group(1) if match else "")]
    return max(speeds) if speeds else None
