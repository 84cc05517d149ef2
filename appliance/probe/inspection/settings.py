"""What firmware and kernel were set to."""

from __future__ import annotations

import re
from typing import Any, Dict, Optional

from ..machine.system import SECURE_BOOT, container
from ..source import Source
from .reasons import ask

NODES = "/sys/devices/system/node/"
GOVERNOR = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"


def settings(source: Source) -> Dict[str, Any]:
    """Every setting that an appliance asks for."""
    uefi = source.exists("/sys/firmware/efi")
    nodes = [name for name in source.names(NODES) if re.fullmatch(r"node\d+", name)]
    governor = source.word(GOVERNOR)
    if governor is None:
        source.unseen("the kernel steers no CPU frequency", "settings.power_profile")
    loaded = source.text("/proc/modules")
    if loaded is None:
        source.unseen("/proc/modules cannot be read", "settings.nouveau")
    return {
        "uefi": uefi,
        "secure_boot": _secure_boot(source, uefi=uefi),
        "iommu": bool(source.names("/sys/kernel/iommu_groups")),
        "numa_nodes": len(nodes) or None,
        "virtualisation": _virtualisation(source),
        "hypervisor": _hypervisor(source),
        "nouveau": None if loaded is None else re.search(r"^nouveau ", loaded, re.M) is not None,
        "power_profile": governor,
        "clock_synchronised": _synchronised(source),
    }


def _secure_boot(source: Source, *, uefi: bool) -> Optional[bool]:
    if not uefi:
        return False
    value = source.data(SECURE_BOOT)
    if value is None or len(value) != 5:
        source.unseen("the firmware has no such variable", "settings.secure_boot")
        return None
    return value[4] == 1


def _virtualisation(source: Source) -> Optional[bool]:
    match = re.search(r"^flags\s*:(.*)$", source.text("/proc/cpuinfo") or "", re.MULTILINE)
    if match is None:
        source.unseen("/proc/cpuinfo has no flags", "settings.virtualisation")
        return None
    return bool({"svm", "vmx"} & set(match.group(1).split()))


def _hypervisor(source: Source) -> Optional[str]:
    inside = container(source)
    if inside:
        return inside
    text = source.command("systemd-detect-virt", ["systemd-detect-virt"], quiet=True)
    if source.is_silent("systemd-detect-virt"):
        source.unseen("systemd-detect-virt did not answer", "settings.hypervisor")
        return None
    # It exits 1 and prints "none" on bare metal, which reads as no output here.
    return (text or "none").strip() or "none"


def _synchronised(source: Source) -> Optional[bool]:
    argv = ["timedatectl", "show", "--property=NTPSynchronized", "--value"]
    text = ask(source, "timedatectl", argv, "settings.clock_synchronised")
    return None if text is None else text.strip() == "yes"
