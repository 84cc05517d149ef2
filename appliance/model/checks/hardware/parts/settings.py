"""Judges settings of firmware and kernel, and versions of firmware."""

from __future__ import annotations

import re
from collections.abc import Iterator

from appliance.model.checks.hardware.expected import Expectation
from appliance.model.checks.hardware.findings import Finding, failed, judged, noted, passed, unknown
from appliance.model.checks.hardware.found import Machine

CLOCK_SECONDS = 5.0
_PROBE = "inspect it by the probe"
_BIOS = "set it in the BIOS, save, and start the machine again: appliance docs qualify-hardware"
_SET = "set it, out of service: appliance hardware bios set NODE; see appliance docs set-the-bios"
# Settings of a model's file `wanted`: field, name of the fact.
_RULED = (
    ("iommu", "iommu"),
    ("numa_nodes", "numa"),
    ("power_profile", "power-profile"),
    ("virtualisation", "virtualisation"),
)


def firmware(wanted: Expectation, machine: Machine) -> Iterator[Finding]:
    """Versions of BIOS and BMC; without a minimum the version is a note."""
    least: dict[str, str] = {one.part: one.least for one in wanted.model.wanted.firmware}
    for part, seen in (("bios", machine.firmware.bios), ("bmc", machine.firmware.bmc)):
        fact, minimum = f"firmware:{part}", least.get(part)
        if minimum is None:
            if seen is not None:
                yield noted(fact, f"{seen}; no minimum is recorded for {wanted.name}")
            continue
        expected = f"at least {minimum}"
        if seen is None:
            why = machine.why(f"firmware.{part}")
            yield unknown(fact, expected, why, "inspect it by its BMC")
        else:
            action = f"update the {part.upper()} by the vendor's package, then inspect it again"
            yield judged(fact, expected, seen, action, good=version(seen) >= version(minimum))


def firmware_of_parts(wanted: Expectation, machine: Machine) -> Iterator[Finding]:
    """Versions of network ports, GPUs and disks for which the model's file has a minimum."""
    for one in wanted.model.wanted.firmware:
        if one.part in ("bios", "bmc"):
            continue
        section = f"{one.part}s"
        fact, expected = f"firmware:{one.part}", f"at least {one.least} on {one.of}"
        if getattr(machine, section) is None:
            yield unknown(fact, expected, machine.why(section), _PROBE)
            continue
        told = list(_versions(machine, one.part))
        for name, kind, seen in told:
            if kind is None or (kind == one.of and seen is None):
                field = "firmware" if kind else "model" if one.part == "disk" else "pci_id"
                why = machine.why(f"{section}.{name}.{field}")
                yield unknown(f"{fact}:{name}", expected, why, _PROBE)
            elif kind == one.of and seen is not None:
                order = _hex_version if one.part == "gpu" else version
                action = "update it by the vendor's package, then inspect it again"
                good = order(seen) >= order(one.least)
                yield judged(f"{fact}:{name}", expected, seen, action, good=good)
        if not any(kind in (one.of, None) for _, kind, _ in told):
            yield noted(f"{fact}:{one.of}", f"none is there; {expected}")


def _versions(machine: Machine, part: str) -> Iterator[tuple[str, str | None, str | None]]:
    """Parts of one kind: name, which it is, version."""
    if part == "nic":
        yield from ((one.name, one.pci_id, one.firmware) for one in machine.nics or ())
    elif part == "gpu":
        yield from ((one.address, one.pci_id, one.firmware) for one in machine.gpus or ())
    else:
        yield from ((one.name, one.model, one.firmware) for one in machine.disks or ())


def _hex_version(text: str) -> tuple[tuple[int, int, str], ...]:
    """A VBIOS version: its numbers are hexadecimal."""
    words = text.split(".")
    if all(re.fullmatch(r"[0-9A-Fa-f]{1,8}", word) for word in words):
        return tuple((1, int(word, 16), "") for word in words)
    return version(text)


def version(text: str) -> tuple[tuple[int, int, str], ...]:
    """A version for comparison: numbers as numbers, words as words.

    Digits beyond 18 are cut: such a run of digits is a name, not a number.
    """
    return tuple(
        (1, int(part[:18]), "") if part.isdigit() else (0, 0, part)
        for part in re.findall(r"[0-9]+|[a-z]+", text.lower())
    )


def secure_boot(wanted: Expectation, machine: Machine) -> Iterator[Finding]:
    """Secure Boot keeps the kernel from loading a driver that nobody signed."""
    rule, seen = wanted.model.wanted.secure_boot, machine.settings.secure_boot
    if rule is None and not wanted.carries_gpus:
        if seen is not None:
            yield noted("secure-boot", "on" if seen else "off")
        return
    expected = "on" if rule else "off"
    if seen is None:
        yield unknown("secure-boot", expected, machine.why("settings.secure_boot"), _PROBE)
    else:
        action = f"switch Secure Boot {expected} in the BIOS: appliance docs gpu"
        found = "on" if seen else "off"
        yield judged("secure-boot", expected, found, action, good=seen is bool(rule))


def ruled(wanted: Expectation, machine: Machine) -> Iterator[Finding]:
    """Settings for which the model's file has a rule; the others are notes."""
    for field, fact in _RULED:
        rule, seen = getattr(wanted.model.wanted, field), getattr(machine.settings, field)
        if rule is None:
            if seen is not None:
                yield noted(fact, f"{_word(seen)}; no rule is recorded for {wanted.name}")
        elif seen is None:
            yield unknown(fact, _word(rule), machine.why(f"settings.{field}"), _PROBE)
        else:
            yield judged(fact, _word(rule), _word(seen), _BIOS, good=rule == seen)
    for name, value in wanted.model.wanted.bios.items():
        fact, attributes = f"bios:{name}", machine.bios_attributes
        if attributes is None or name not in attributes:
            why = machine.why("bios_attributes") if attributes is None else "no such attribute"
            yield unknown(fact, _word(value), why, "inspect it by its BMC")
        else:
            found = attributes[name]
            good = type(found) is type(value) and found == value
            yield judged(fact, _word(value), _word(found), _SET, good=good)


def physical(_wanted: Expectation, machine: Machine) -> Iterator[Finding]:
    """A machine of a model is not a virtual one."""
    seen, expected = machine.settings.hypervisor, "a physical machine"
    if seen is None:
        yield unknown("hypervisor", expected, machine.why("settings.hypervisor"), _PROBE)
    elif seen == "none":
        yield passed("hypervisor", expected, expected)
    else:
        action = "this is a virtual machine: inspect the server itself"
        yield failed("hypervisor", expected, f"under {seen}", action)


def nouveau(wanted: Expectation, machine: Machine) -> Iterator[Finding]:
    """The driver that keeps NVIDIA's from the GPUs."""
    if not (wanted.carries_gpus or wanted.model.platform.gpus):
        return
    seen = machine.settings.nouveau
    if seen is None:
        yield unknown("nouveau", "not loaded", machine.why("settings.nouveau"), _PROBE)
    else:
        action = "boot with modprobe.blacklist=nouveau; or let the install block it"
        yield judged(
            "nouveau", "not loaded", "loaded" if seen else "not loaded", action, good=not seen
        )


def clock(_wanted: Expectation, machine: Machine) -> Iterator[Finding]:
    """The clock against this machine's, and whether a service keeps it right."""
    seen = machine.settings
    expected = f"within {CLOCK_SECONDS:g} s of the admin host"
    if seen.clock_offset_seconds is None:
        yield unknown("clock", expected, machine.why("settings.clock_offset_seconds"), _PROBE)
    else:
        off = seen.clock_offset_seconds
        action = "set the clock of firmware and system; a clock that falls back needs a new battery"
        good = abs(off) <= CLOCK_SECONDS
        yield judged("clock", expected, f"{off:+.1f} s", action, good=good)
    if seen.clock_synchronised is False:
        action = "the install sets up chrony with the site's time servers"
        yield noted("clock:service", "no time service has synchronised it", action)


def _word(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)
