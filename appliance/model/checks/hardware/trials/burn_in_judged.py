"""Judges a burn-in: how long, what was tested, and what the machine counted meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from appliance.model.checks.hardware.findings import Finding, failed, judged, noted, passed, unknown
from appliance.model.checks.hardware.trials.burn_in import UNIT, BurnIn, BurnInRecord
from appliance.model.checks.hardware.trials.network import MOST_RETRANSMITTED, gbit

GIB: Final = 1024**3
# Neighbours start and end some time apart, and their streams then find nobody.
FAILED_AT_THE_ENDS: Final = 5
LEAST_SAMPLED: Final = 0.9
_MODULE: Final = "replace the module that the BMC's event log names, then burn it in again"
_CABLE: Final = "check cable, transceiver and the port of the switch"
_AGAIN: Final = "burn it in again: appliance hardware burn-in NODE --hours H --again"


def burn_in(record: BurnInRecord) -> tuple[Finding, ...]:
    """Every judgement of one record."""
    checks: tuple[Callable[[BurnIn], Iterator[Finding]], ...] = (
        *(_samples, _program, _memory, _cpu, _disk, _network),
        *(_ecc, _machine_checks, _kernel, _health, _links, _throttling, _heat, _gpus),
    )
    found = (finding for check in checks for finding in check(record.burn_in))
    return (_time(record), *found)


def span(seconds: float) -> str:
    """A time in words."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 3600 else f"{seconds / 3600:.1f} h"


def _time(record: BurnInRecord) -> Finding:
    one, fact = record.burn_in, "burn-in"
    expected, took = f"{span(one.wanted_seconds)} without a break", span(one.seconds)
    if record.status == "restarted":
        action = f"read the BMC's event log and journalctl --boot=-1; then {_AGAIN}"
        return failed(fact, expected, f"the node started again after {took}", action)
    if record.status == "lost":
        action = f"read journalctl -u {UNIT} on the node; then {_AGAIN}"
        return failed(fact, expected, f"its unit was ended after {took}", action)
    if record.status == "running":
        return unknown(fact, expected, f"it has run for {took}", "wait, then look again")
    if record.status == "unknown":
        return unknown(fact, expected, "systemd does not tell whether it runs", "look again")
    if one.ended == "done" and one.seconds >= one.wanted_seconds:
        return passed(fact, expected, f"{took}, ended {record.at}")
    return unknown(fact, expected, f"{one.ended} after {took}", _AGAIN)


def _samples(one: BurnIn) -> Iterator[Finding]:
    fact, expected = "burn-in:samples", f"one each {span(one.sample_seconds)}"
    if one.missed:
        found = f"{one.missed} came too late: the machine stood still"
        yield failed(fact, expected, found, "read the kernel's log and the BMC's event log")
    elif one.samples < LEAST_SAMPLED * one.seconds / one.sample_seconds:
        yield unknown(fact, expected, f"{one.samples} in {span(one.seconds)}", _AGAIN)
    else:
        yield passed(fact, expected, f"{one.samples} in {span(one.seconds)}")


def _program(one: BurnIn) -> Iterator[Finding]:
    if one.faults:
        found = "; ".join(one.faults[:3])
        yield unknown("burn-in:loads", "all run to the end", found, _AGAIN)


def _load(one: BurnIn, part: str, expected: str, amount: str, cure: str) -> Iterator[Finding]:
    """A load that compares what it gets with what it wants."""
    fact, work = f"burn-in:{part}", one.work.get(part, {})
    if part in one.unknown:
        yield unknown(fact, expected, one.unknown[part], _AGAIN)
    elif work.get("errors"):
        yield failed(fact, expected, f"{work['errors']} errors", cure)
    elif not work.get(amount):
        yield unknown(fact, expected, "nothing was done yet", _AGAIN)
    else:
        yield passed(fact, expected, _amount(part, work.get))


def _amount(part: str, told: Callable[[str, int], int]) -> str:
    if part == "memory":
        size, tested = told("size", 0) / GIB, told("bytes", 0) / GIB
        return f"{tested:.1f} GiB in {size:.1f} GiB"
    if part == "disk":
        return f"{told('written', 0) / GIB:.1f} GiB written, {told('read', 0) / GIB:.1f} GiB read"
    return f"{told('rounds', 0)} rounds"


def _memory(one: BurnIn) -> Iterator[Finding]:
    yield from _load(one, "memory", "no wrong block", "bytes", _MODULE)


def _cpu(one: BurnIn) -> Iterator[Finding]:
    cure = "check cooling and BIOS settings; replace the processor if it comes again"
    yield from _load(one, "cpu", "no wrong result", "rounds", cure)


def _disk(one: BurnIn) -> Iterator[Finding]:
    cure = "replace the disk that carries /var/lib, or its cable"
    yield from _load(one, "disk", "no wrong block", "read", cure)
    full = one.work.get("disk", {}).get("full")
    if full:
        action = f"free space in /var/lib, and find what fills it; then {_AGAIN}"
        expected = "space for the file of the test"
        yield unknown("burn-in:disk-space", expected, f"the disk was full {full} times", action)


def _network(one: BurnIn) -> Iterator[Finding]:
    fact, expected, work = "burn-in:network", "every stream ends well", one.work.get("network", {})
    streams, lost = work.get("streams", 0), work.get("failed", 0)
    again, segments = work.get("retransmitted", 0), work.get("segments", 0)
    if "network" in one.unknown:
        yield noted(fact, one.unknown["network"], "burn in several nodes at once")
    elif lost > FAILED_AT_THE_ENDS + streams / 10:
        yield failed(fact, expected, f"{lost} of {streams + lost} failed", _CABLE)
    elif not streams:
        yield unknown(fact, expected, f"none of {lost} came about", _CABLE)
    else:
        found = f"{streams}, the slowest {gbit(work.get('slowest_mbps', 0))}"
        found += f"; {again} of {segments} segments sent again"
        good = again <= segments * MOST_RETRANSMITTED
        yield judged(fact, expected, found, _CABLE, good=good)


def _ecc(one: BurnIn) -> Iterator[Finding]:
    fact, expected = "burn-in:ecc", "no memory errors"
    bad, mended = one.grown("ecc.uncorrected"), one.grown("ecc.corrected")
    if bad is None or mended is None:
        action = "load the EDAC driver of this CPU (modprobe amd64_edac or skx_edac); burn it in"
        yield unknown(fact, expected, "no EDAC driver counts memory errors", action)
        return
    good = not bad and not mended
    yield judged(fact, expected, f"{bad} uncorrected, {mended} corrected", _MODULE, good=good)


def _machine_checks(one: BurnIn) -> Iterator[Finding]:
    fact, expected = "burn-in:mce", "no machine check"
    checks, lines = one.grown("mce"), one.grown("kernel.hardware_error")
    if checks is None and lines is None:
        yield unknown(fact, expected, "neither counter nor log was read", "burn it in as root")
        return
    found = f"{checks or 0} exceptions, {lines or 0} lines in the kernel's log"
    action = "read the BMC's event log for the part that it names; replace that"
    yield judged(fact, expected, found, action, good=not checks and not lines)


def _kernel(one: BurnIn) -> Iterator[Finding]:
    words = {"io_error": "disk", "pcie_error": "PCIe", "gpu_xid": "GPU"}
    grown = {what: one.grown(f"kernel.{name}") for name, what in words.items()}
    if None in grown.values():
        yield unknown("burn-in:kernel", "no errors", "the log was not read", "burn it in as root")
        return
    bad = [f"{count} of {what}" for what, count in grown.items() if count]
    found = ", ".join(bad) or "no errors of disk, PCIe or GPU"
    more = f": {one.log[-1]}" if bad and one.log else ""
    action = "read dmesg on the node; reseat or replace the part that it names"
    yield judged("burn-in:kernel", "no errors", f"{found}{more}", action, good=not bad)
    if one.grown("kernel.out_of_memory"):
        yield noted("burn-in:out-of-memory", "the kernel killed programs to free memory")
    if one.grown("kernel.link_down"):
        yield noted("burn-in:link-down", f"{one.grown('kernel.link_down')} links went down", _CABLE)


def _health(one: BurnIn) -> Iterator[Finding]:
    """SMART and NVMe: what grew, and what fails."""
    names = sorted({name.split(".")[1] for name in one.counters if name.startswith("disk.")})
    if not names:
        action = "install smartmontools on the node, then burn it in again"
        yield unknown("burn-in:disks", "no media errors", "no disk told its health", action)
    for name in names:
        fact, errors = f"burn-in:disk:{name}", one.grown(f"disk.{name}.media_errors")
        failing = one.counters.get(f"disk.{name}.failing", (0, 0))[1]
        worn = one.grown(f"disk.{name}.wear_percent")
        found = "the disk reports that it fails" if failing else f"{errors or 0} new media errors"
        if worn:
            found += f", {worn} % more worn"
        good = not errors and not failing
        yield judged(fact, "no media errors", found, f"replace the disk {name}", good=good)


def _links(one: BurnIn) -> Iterator[Finding]:
    for name in one.counters:
        if name.startswith("net.") and (count := one.grown(name)):
            port = name.removeprefix("net.").removesuffix(".errors")
            yield failed(f"burn-in:nic:{port}", "no errors", f"{count} errors", _CABLE)


def _throttling(one: BurnIn) -> Iterator[Finding]:
    fact = "burn-in:throttling"
    grown = [one.grown(f"throttle.{kind}") for kind in ("core", "package")]
    known = [count for count in grown if count is not None]
    if not known:
        yield noted(fact, "the kernel counts no throttling of this processor")
        return
    action = "check fans, heat sinks and the temperature of the room"
    yield judged(fact, "none by heat", f"{sum(known)} times", action, good=not sum(known))


def _heat(one: BurnIn) -> Iterator[Finding]:
    fact, expected = "burn-in:temperature", "below critical"
    if not one.highest:
        yield unknown(fact, expected, "no sensor was read", "load the drivers of the sensors")
        return
    over = [name for name, (top, limit) in one.highest.items() if limit and top >= limit]
    hottest = max(one.highest, key=lambda name: one.highest[name][0])
    found = f"at most {one.highest[hottest][0]:g} °C ({hottest})"
    if over:
        found = f"{one.highest[over[0]][0]:g} °C at {over[0]}, critical {one.highest[over[0]][1]:g}"
        yield failed(
            fact, expected, found, "check fans, heat sinks and the temperature of the room"
        )
    elif any(limit for _, limit in one.highest.values()):
        yield passed(fact, expected, found)
    else:
        yield noted(fact, f"{found}; no sensor tells what is critical")


def _gpus(one: BurnIn) -> Iterator[Finding]:
    names = sorted({".".join(name.split(".")[:2]) for name in one.counters if name[:4] == "gpu."})
    for name in names:
        fact = f"burn-in:{name.replace('.', ':')}"
        errors, slowed = one.grown(f"{name}.ecc"), one.grown(f"{name}.slowed")
        top = one.highest.get(name)
        heat = f", at most {top[0]:g} °C" if top else ""
        found = f"{errors or 0} uncorrected errors, slowed by heat in {slowed or 0} samples{heat}"
        if errors or slowed:
            action = "check its cooling; replace the GPU if the errors come again"
            yield failed(fact, "no errors", found, action)
        else:
            action = "run a load of the vendor's at the same time: this product has none"
            yield noted(fact, f"{found}; no load was put on it", action)
