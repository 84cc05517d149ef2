"""What a machine counts of its own faults, and how hot it is; one sample."""

from __future__ import annotations

import os
import re
from functools import partial
from typing import Any, Dict, List, NamedTuple, Optional

from ..inspection.disks import disks
from ..inspection.memory import counted
from ..inspection.stream import counters as of_interface
from ..source import Source

MOST_NAMES = 256
LARGEST = (1 << 60) - 1
HWMON, CPUS, NET = "/sys/class/hwmon", "/sys/devices/system/cpu", "/sys/class/net"
GPU_FIELDS = (
    "index,temperature.gpu,ecc.errors.uncorrected.volatile.total,"
    "clocks_throttle_reasons.hw_thermal_slowdown"
)
GPU_QUERY = ["nvidia-smi", "--query-gpu=" + GPU_FIELDS, "--format=csv,noheader,nounits"]
# Of the kernel's log: what a line says -> its counter.
LOG = {
    "hardware_error": re.compile(r"\[Hardware Error\]|^mce: |Machine check", re.IGNORECASE),
    "io_error": re.compile(r"I/O error|critical medium error|nvme\d+: (?:I/O|controller)"),
    "pcie_error": re.compile(r"AER: |PCIe Bus Error"),
    "gpu_xid": re.compile(r"NVRM: Xid"),
    "out_of_memory": re.compile(r"Out of memory: Killed|oom-kill:"),
    "link_down": re.compile(r"Link is Down|link down", re.IGNORECASE),
}
RECORD_BYTES = 8192


class Heat(NamedTuple):
    """One sensor; degrees Celsius, and where it becomes critical."""

    value: float
    critical: Optional[float]


class Sample(NamedTuple):
    """One look at the machine."""

    counters: Dict[str, int]
    heat: Dict[str, Heat]


def sample(source: Source) -> Sample:
    """Every counter and sensor that this machine has; what fails is left out of this one."""
    found: Dict[str, int] = {}
    heat: Dict[str, Heat] = {}
    parts = (_ecc, _machine_checks, _throttling, _disks, _interfaces)
    # The tools of disks and GPUs may hang; the others are files of the kernel.
    for counters in source.together([partial(part, source) for part in parts]):
        found.update(counters or {})
    for part in (_sensors, _gpus):
        try:
            part(source, found, heat)
        except (OSError, ValueError) as error:
            source.note(str(error))
    found = {name: min(value, LARGEST) for name, value in found.items()}
    return Sample(_first(found), _first(heat))


def _first(found: Dict[str, Any]) -> Dict[str, Any]:
    return {name[:100]: found[name] for name in sorted(found)[:MOST_NAMES]}


def _ecc(source: Source) -> Dict[str, int]:
    told = counted(source)
    return {"ecc.%s" % name: value for name, value in told.items() if value is not None}


def _machine_checks(source: Source) -> Dict[str, int]:
    match = re.search(r"^ *MCE:((?: +\d+)+)", source.text("/proc/interrupts") or "", re.MULTILINE)
    return {"mce": sum(int(word) for word in match.group(1).split())} if match else {}


def _throttling(source: Source) -> Dict[str, int]:
    """Intel's counters; AMD's processors have none."""
    found: Dict[str, int] = {}
    for cpu in source.names(CPUS):
        if not re.match(r"cpu\d+$", cpu):
            continue
        for kind in ("core", "package"):
            name = "%s/%s/thermal_throttle/%s_throttle_count" % (CPUS, cpu, kind)
            word = source.word(name)
            if word and word.isdigit():
                found["throttle." + kind] = found.get("throttle." + kind, 0) + int(word)
    return found


def _disks(source: Source) -> Dict[str, int]:
    found = {}
    for disk in disks(source) or ():
        for name in ("media_errors", "wear_percent"):
            if isinstance(disk.get(name), int):
                found["disk.%s.%s" % (disk["name"], name)] = disk[name]
        if disk.get("healthy") is not None:
            found["disk.%s.failing" % disk["name"]] = int(not disk["healthy"])
    return found


def _interfaces(source: Source) -> Dict[str, int]:
    found = {}
    for name in source.names(NET):
        if source.exists("%s/%s/device" % (NET, name)):
            count = of_interface(source, name).get("errors")
            if count is not None:
                found["net.%s.errors" % name] = count
    return found


def _sensors(source: Source, _found: Dict[str, int], heat: Dict[str, Heat]) -> None:
    for chip in source.names(HWMON):
        base = "%s/%s/" % (HWMON, chip)
        kind = source.word(base + "name") or chip
        for file in source.names(base):
            match = re.match(r"temp(\d+)_input$", file)
            value = _degrees(source.word(base + file)) if match else None
            if match is None or value is None:
                continue
            sensor = base + "temp" + match.group(1)
            label = source.word(sensor + "_label") or "temp" + match.group(1)
            name = "%s.%s.%s" % (kind, chip, label)
            heat[name] = Heat(value, _degrees(source.word(sensor + "_crit")))


def _degrees(word: Optional[str]) -> Optional[float]:
    """Degrees of the kernel's thousandths; None for what no sensor of a server shows."""
    if not word or not re.match(r"-?\d{1,7}$", word):
        return None
    return round(int(word) / 1000.0, 1)


def _gpus(source: Source, found: Dict[str, int], heat: Dict[str, Heat]) -> None:
    for line in (source.command("nvidia-smi-burn-in", GPU_QUERY, quiet=True) or "").splitlines():
        words = [word.strip() for word in line.split(",")]
        if len(words) != 4 or not words[0].isdigit():
            continue
        name = "gpu." + words[0]
        if words[1].isdigit():
            heat[name] = Heat(float(words[1]), None)
        if words[2].isdigit():
            found[name + ".ecc"] = int(words[2])
        found[name + ".slowed"] = int(words[3] == "Active")


class KernelLog:
    """Counts lines of the kernel's log from now on."""

    def __init__(self, path: str = "/dev/kmsg") -> None:
        self.counts: Dict[str, int] = dict.fromkeys(LOG, 0)
        self.latest: List[str] = []
        self._descriptor: Optional[int] = None
        try:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            os.lseek(self._descriptor, 0, os.SEEK_END)
        except OSError:
            self.counts = {}

    def read(self) -> None:
        """Count what came since; a flood of lines is read in part."""
        for _ in range(100_000 if self._descriptor is not None else 0):
            try:
                record = os.read(self._descriptor or 0, RECORD_BYTES)
            except BlockingIOError:
                return
            except OSError:
                # The log overran what was not read yet: it goes on after that.
                continue
            if not record:
                return
            self._count(record.decode("utf-8", "replace").partition(";")[2].partition("\n")[0])

    def _count(self, line: str) -> None:
        for name, pattern in LOG.items():
            if pattern.search(line):
                self.counts[name] += 1
                self.latest = [*self.latest[-9:], "%s: %s" % (name, line[:200])]
