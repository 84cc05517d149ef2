"""Judges memory: slots, modules by slot, their size, speed and place, and their errors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from appliance.model.checks.hardware.expected import Expectation
from appliance.model.checks.hardware.findings import Finding, failed, judged, noted, passed, unknown
from appliance.model.checks.hardware.found import Dimm, Machine
from appliance.model.state.facts.hardware_shown import Shows

GIB = 1024**3
_AS_ROOT = "inspect it as root with dmidecode, or by its BMC"


def memory(wanted: Expectation, machine: Machine) -> Iterator[Finding]:
    """Every judgement of memory."""
    yield from _modules(wanted, machine)
    listed = machine.dimms is None or any(one.size_bytes != 0 for one in machine.dimms)
    if not listed and not (wanted.model.reference.dimms or wanted.model.shows.dimms_in):
        yield unknown("memory:modules", "at least 1 module", "no module is listed", _AS_ROOT)
    yield from _errors(machine)


def _modules(wanted: Expectation, machine: Machine) -> Iterator[Finding]:
    reference, shows = wanted.model.reference, wanted.model.shows
    slots = wanted.model.platform.dimm_slots
    if machine.dimms is None:
        expected = f"{reference.dimms or '?'} modules in {slots or '?'} slots"
        yield unknown("memory", expected, machine.why("dimms"), _AS_ROOT)
        return
    if slots:
        found = f"{len(machine.dimms)} slots"
        action = "another board, or firmware that hides slots: check the model and the BIOS version"
        yield judged(
            "memory:slots", f"{slots} slots", found, action, good=slots == len(machine.dimms)
        )
    filled = [one for one in machine.dimms if one.size_bytes]
    unread = [one for one in machine.dimms if one.size_bytes is None]
    for one in unread:
        why = machine.why(f"dimms.{one.slot}.size_bytes")
        yield unknown(f"dimm:{one.slot}", "a module, or empty", why, _AS_ROOT)
    if shows.dimms_in is not None:
        yield from _population(shows, machine)
    if not unread:
        yield from _count(wanted, machine.dimms, filled)
    for one in filled:
        yield from _module(wanted, machine, one)
    kinds = Counter((one.size_bytes, one.part) for one in filled)
    if len(kinds) > 1:
        words = ", ".join(f"{n} x {part or '?'}" for (_, part), n in kinds.most_common(4))
        yield noted("memory:mixed", f"modules of several kinds: {words}", "use modules of one part")


def _population(shows: Shows, machine: Machine) -> Iterator[Finding]:
    """The modules by slot, where the slots have the names that the model's file has."""
    slots, names = machine.dimms or (), set(shows.dimm_slots or ())
    expected = shows.dimms_in or ()
    if names and not names & {one.slot for one in slots}:
        by = shows.read_from.by if shows.read_from else "another source"
        why = f"the slots have other names than in the model's file, which was read by {by}"
        action = f"inspect it by {'its BMC' if by == 'redfish' else 'the probe'}"
        yield unknown("memory:population", ", ".join(expected), why, action)
    else:
        yield from _by_slot(expected, slots)


def _by_slot(expected: tuple[str, ...], dimms: tuple[Dimm, ...]) -> Iterator[Finding]:
    """The slots that hold a module as delivered."""
    sizes = {one.slot: one.size_bytes for one in dimms}
    for slot in expected:
        if sizes.get(slot) == 0 or slot not in sizes:
            found = "empty" if slot in sizes else "no such slot"
            yield failed(
                f"dimm:{slot}", "a module", found, f"insert or reseat the module in {slot}"
            )
    for slot, size in sizes.items():
        if size and slot not in expected:
            yield failed(
                f"dimm:{slot}",
                "empty",
                "a module",
                f"move it: the delivered population is {', '.join(expected)}",
            )


def _count(wanted: Expectation, dimms: tuple[Dimm, ...], filled: list[Dimm]) -> Iterator[Finding]:
    expected = wanted.model.reference.dimms or len(wanted.model.shows.dimms_in or ())
    if not expected:
        if filled:
            told = f"{len(filled)} modules; no number is recorded for {wanted.name}"
            yield noted("memory:modules", told, "compare the order with the machine")
        return
    empty = [one.slot for one in dimms if not one.size_bytes]
    where = f"; empty: {', '.join(empty)}" if len(empty) <= 32 and empty else ""
    found = f"{len(filled)} modules{where}"
    action = "insert the missing modules; reseat those that the BIOS does not see"
    if len(filled) > expected:
        action = "compare the order with what was delivered"
    good = len(filled) == expected
    yield judged("memory:modules", f"{expected} modules", found, action, good=good)


def _module(wanted: Expectation, machine: Machine, one: Dimm) -> Iterator[Finding]:
    reference, fact = wanted.model.reference, f"dimm:{one.slot}"
    size = (one.size_bytes or 0) / GIB
    sizes = _sizes(wanted, one)
    if sizes and size not in sizes:
        words = " or ".join(f"{each} GiB" for each in sizes)
        action = f"replace the module in {one.slot} by one of {words}"
        yield failed(fact, words, f"{size:g} GiB", action)
    rated = one.rated_mts
    speed = reference.dimm_speed_mts or wanted.model.shows.dimm_speed_mts or rated
    if one.speed_mts is None:
        if speed:
            why = machine.why(f"dimms.{one.slot}.speed_mts")
            yield unknown(f"{fact}:speed", f"{speed} MT/s", why, _AS_ROOT)
    elif speed:
        action = f"replace the module in {one.slot}: it is built for {rated or '?'} MT/s"
        if rated and rated >= speed:
            action = "check the population and the memory speed in the BIOS: the module can do more"
        expected, found = f"{speed} MT/s", f"{one.speed_mts} MT/s"
        yield judged(f"{fact}:speed", expected, found, action, good=one.speed_mts >= speed)


def _sizes(wanted: Expectation, one: Dimm) -> list[int]:
    """The sizes that the slot's module may have; any of those that were read, if names differ."""
    reference, shows = wanted.model.reference, wanted.model.shows
    if reference.dimm_gib:
        return [reference.dimm_gib]
    by_slot = dict(zip(shows.dimms_in or (), shows.dimms_gib or (), strict=False))
    return [by_slot[one.slot]] if one.slot in by_slot else sorted(set(by_slot.values()))


def _errors(machine: Machine) -> Iterator[Finding]:
    seen = machine.memory
    if seen.correction is None:
        why = machine.why("memory.correction")
        yield unknown("memory:ecc", "error correction", why, _AS_ROOT)
    else:
        good = "ecc" in seen.correction.lower() and seen.correction.lower() != "noecc"
        action = "use registered ECC modules, and switch ECC on in the BIOS"
        yield judged("memory:ecc", "error correction", seen.correction, action, good=good)
    if seen.uncorrected is None:
        why = machine.why("memory.uncorrected")
        action = "load the EDAC driver of this CPU (modprobe amd64_edac or skx_edac), then inspect"
        yield unknown("memory:errors", "no uncorrected errors", why, action)
        return
    words = f"{seen.uncorrected} uncorrected, {seen.corrected or 0} corrected"
    if seen.uncorrected:
        action = "replace the module that the BMC's event log names, then run the memory test again"
        yield failed("memory:errors", "no uncorrected errors", words, action)
        return
    yield passed("memory:errors", "no uncorrected errors", words)
    if seen.corrected:
        action = "read the BMC's event log for the slot; replace it if the count grows"
        yield noted("memory:corrected", f"{seen.corrected} corrected errors since boot", action)
