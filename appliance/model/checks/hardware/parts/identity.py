"""Judges which machine it is: model, board, serial number, CPUs."""

from __future__ import annotations

from collections.abc import Iterator

from appliance.model.checks.hardware.expected import Expectation
from appliance.model.checks.hardware.findings import Finding, judged, unknown
from appliance.model.checks.hardware.found import Cpu, Machine
from appliance.model.state.facts.placeholders import told_serial

_LEARN = "read it from such a machine: appliance hardware inspect NODE --write FOLDER"
_ANOTHER = "check `hardware` in host_vars of this node, and the label on the machine"
_LIKE = "inspect it the same way, or write reference.cpu_model into the model's file"
# Redfish names a CPU without its vendor.
_VENDORS = {"intel": ("intel", "xeon"), "amd": ("amd", "epyc")}


def model(wanted: Expectation, machine: Machine) -> Iterator[Finding]:
    """The DMI strings of the model; what was never read from one is not verified."""
    recorded, seen = wanted.model.dmi, machine.identity
    name = f"{wanted.model.vendor} {wanted.model.product}"
    if recorded.vendor is None or recorded.product is None:
        found = f"{seen.vendor or '?'} {seen.product or '?'}"
        yield unknown("model", name, f"model not verified: no machine was read; {found}", _LEARN)
    elif seen.vendor is None or seen.product is None:
        why = machine.why("identity.product" if seen.vendor else "identity.vendor")
        yield unknown("model", name, why, "inspect it as root, or by its BMC")
    else:
        pair = (f"{recorded.vendor} {recorded.product}", f"{seen.vendor} {seen.product}")
        yield judged("model", *pair, _ANOTHER, good=pair[0] == pair[1])
    if board := wanted.model.shows.board:
        if seen.board is None:
            yield unknown("board", board, machine.why("identity.board"), "inspect it by the probe")
        else:
            yield judged("board", board, seen.board, _ANOTHER, good=board == seen.board)


def serial(_wanted: Expectation, machine: Machine) -> Iterator[Finding]:
    """A serial number that tells this machine from others."""
    told, expected = told_serial(machine.identity.serial), "a serial number of its own"
    if machine.identity.serial is None:
        why = machine.why("identity.serial")
        yield unknown("serial", expected, why, "inspect it as root, or by its BMC")
    else:
        action = "have the vendor's tool write the serial number into the firmware"
        yield judged("serial", expected, machine.identity.serial, action, good=told is not None)


def cpus(wanted: Expectation, machine: Machine) -> Iterator[Finding]:
    """Number, vendor and model of the CPUs."""
    platform, reference = wanted.model.platform, wanted.model.reference
    recorded = wanted.model.shows.cpu_models
    count = reference.cpus or platform.cpu_sockets or len(recorded or ())
    if machine.cpus is None:
        if count or reference.cpu_model:
            yield unknown("cpus", f"{count or '?'} CPUs", machine.why("cpus"), "inspect it again")
        return
    if count:
        found = f"{len(machine.cpus)} CPUs"
        action = "reseat the missing CPU, and look for bent pins"
        yield judged("cpus", f"{count} CPUs", found, action, good=len(machine.cpus) == count)
    elif not machine.cpus:
        yield unknown("cpus", "at least 1 CPU", "no CPU is listed", "inspect it again")
    for cpu in machine.cpus:
        yield from _cpu(wanted, machine, cpu)


def _cpu(wanted: Expectation, machine: Machine, cpu: Cpu) -> Iterator[Finding]:
    """One CPU: as the model's file says, else as the machine had that was read."""
    reference, vendor = wanted.model.reference.cpu_model, wanted.model.platform.cpu_vendor
    recorded = wanted.model.shows.cpu_models if reference is None else None
    names = " or ".join(dict.fromkeys(recorded or ()))
    fact, expected = f"cpu:{cpu.socket}", reference or names or (vendor or "").upper()
    if not expected:
        return
    if cpu.model is None:
        why = machine.why(f"cpus.{cpu.socket}.model")
        yield unknown(fact, expected, why, "inspect it again")
        return
    good = _is_named(reference, cpu.model) and _is_of(vendor, cpu.model)
    if good and recorded and cpu.model not in recorded:
        another = wanted.unlike(machine)
        if another is not None:
            yield unknown(fact, expected, f"{cpu.model}; {another}", _LIKE)
            return
        good = False
    yield judged(fact, expected, cpu.model, "compare the order with the delivered CPU", good=good)


def _is_named(wanted: str | None, seen: str) -> bool:
    words = seen.replace("(R)", " ").replace("(TM)", " ").lower().split()
    return wanted is None or all(word in words for word in wanted.lower().split())


def _is_of(vendor: str | None, seen: str) -> bool:
    return vendor is None or any(word in seen.lower() for word in _VENDORS[vendor])
