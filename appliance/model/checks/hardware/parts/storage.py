"""Judges disks: health, wear, RAID, and whether etcd can live on one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from appliance.model.checks.hardware.expected import ETCD_FSYNC_MS, Expectation
from appliance.model.checks.hardware.findings import Finding, failed, judged, noted, unknown
from appliance.model.checks.hardware.found import Disk, Machine
from appliance.model.checks.hardware.learning import disks_gb

# Of its rated life: a new machine has new disks.
WORN_PERCENT = 80
USED_PERCENT = 10
_CONTROLLER = "qualify it by its BMC, too: --by both; else look in the controller's own tool"
_READ = "install smartmontools on the node, or read the disk in the BMC, then inspect it again"


def disks(wanted: Expectation, machine: Machine) -> Iterator[Finding]:
    """Every disk that is part of the machine."""
    if machine.disks is None:
        yield unknown("disks", "a list", machine.why("disks"), "inspect it by the probe")
        return
    own = [disk for disk in machine.disks if disk.transport != "usb"]
    if not own:
        yield failed("disks", "at least 1 disk", "none", "insert a disk; check the controller")
    else:
        yield _number(wanted, machine)
    for disk in own:
        if disk.transport != "raid":
            yield from _disk(machine, disk)


def _number(wanted: Expectation, machine: Machine) -> Finding:
    """The number and sizes of the disks, where a machine of the model was read."""
    recorded, sizes = wanted.model.shows.disks_gb, disks_gb(machine)
    fact, found = "disks:number", disks_told(sizes)
    if recorded is None:
        told = f"{found}; no number is recorded for {wanted.name}"
        return noted(fact, told, "compare the order with the machine")
    expected = disks_told(list(recorded))
    if sizes is None:
        return unknown(fact, expected, "a disk tells no size", "inspect it by the probe")
    if sizes != sorted(recorded) and (why := wanted.unlike(machine)):
        return unknown(fact, expected, f"{found}; {why}", "inspect it the same way")
    action = "insert the missing disk, or reseat it; compare the order with the machine"
    return judged(fact, expected, found, action, good=sizes == sorted(recorded))


def disks_told(sizes: list[int] | None) -> str:
    """Disks by their size, in words."""
    if sizes is None:
        return "disks of unknown size"
    if not sizes:
        return "none"
    return ", ".join(f"{many} x {size} GB" for size, many in sorted(Counter(sizes).items()))


def _disk(machine: Machine, disk: Disk) -> Iterator[Finding]:
    fact, path = f"disk:{disk.serial or disk.name}", f"disks.{disk.name}"
    replace = f"replace the disk {disk.name} ({disk.model or 'of unknown model'})"
    if disk.healthy is None:
        yield unknown(f"{fact}:health", "healthy", machine.why(f"{path}.healthy"), _READ)
    else:
        found = "healthy" if disk.healthy else "the disk reports that it fails"
        yield judged(f"{fact}:health", "healthy", found, replace, good=disk.healthy)
    if disk.media_errors is None and disk.member:
        yield noted(f"{fact}:errors", "behind a RAID controller; a BMC counts none")
    elif disk.media_errors is None:
        why = machine.why(f"{path}.media_errors")
        yield unknown(f"{fact}:errors", "no media errors", why, _READ)
    else:
        found = f"{disk.media_errors} media errors"
        good = disk.media_errors == 0
        yield judged(f"{fact}:errors", "no media errors", found, replace, good=good)
    expected = f"less than {WORN_PERCENT} % of its life used"
    if disk.rotational:
        return
    if disk.wear_percent is None:
        yield unknown(f"{fact}:wear", expected, machine.why(f"{path}.wear_percent"), _READ)
        return
    found = f"{disk.wear_percent} %"
    good = disk.wear_percent < WORN_PERCENT
    yield judged(f"{fact}:wear", expected, found, replace, good=good)
    if USED_PERCENT <= disk.wear_percent < WORN_PERCENT:
        hours = f", {disk.power_on_hours} h of operation" if disk.power_on_hours else ""
        yield noted(f"{fact}:used", f"not a new disk: {found} of its life used{hours}")


def raid(_wanted: Expectation, machine: Machine) -> Iterator[Finding]:
    """Every array."""
    if machine.raid is None:
        yield unknown("raid", "no degraded array", machine.why("raid"), "inspect it by the probe")
        return
    for array in machine.raid:
        fact, level = f"raid:{array.name}", array.level or "?"
        if array.healthy is None:
            why = machine.why(f"raid.{array.name}.healthy")
            yield unknown(fact, "all members present", why, _CONTROLLER)
        else:
            found = f"{level}, {'all members present' if array.healthy else 'degraded'}"
            action = f"replace the missing member of {array.name}, and wait for the rebuild"
            yield judged(fact, "all members present", found, action, good=array.healthy)


def etcd_disk(wanted: Expectation, machine: Machine) -> Iterator[Finding]:
    """Whether writes reach the disk of etcd in time."""
    if not wanted.carries_etcd:
        return
    seen, expected = machine.trials.fsync_p99_ms, f"99 % of fdatasync within {ETCD_FSYNC_MS:g} ms"
    if seen is None:
        action = "measure it: appliance hardware qualify"
        yield unknown("etcd-disk", expected, machine.why("trials.fsync_p99_ms"), action)
        return
    found = f"{seen:.1f} ms in {machine.trials.fsync_folder or '?'}"
    action = "put /var/lib/etcd on an SSD or NVMe disk with protection against power loss"
    yield judged("etcd-disk", expected, found, action, good=seen <= ETCD_FSYNC_MS)
