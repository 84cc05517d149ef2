"""Judges the GPUs of a machine together: their number, their forms, and their PCI ids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from appliance.model.checks.hardware.expected import Expectation
from appliance.model.checks.hardware.findings import Finding, failed, judged, unknown
from appliance.model.checks.hardware.found import Machine

_MISSING = (
    "power off, reseat the cards and risers, and compare the order; if another number was ordered, "
    "write it into host_vars of this node: gpus"
)
_TOO_MANY = "compare the order with the machine; its host_vars may name another number: gpus"
_ORDERED = (
    "compare the order with the machine, and write its number into host_vars of this node: gpus; "
    "or read a machine that is complete: appliance hardware inspect NODE --write FOLDER"
)


def gpu_number(wanted: Expectation, machine: Machine) -> Iterator[Finding]:
    """How many GPUs, of which forms, and whether they are those of the machine that was read."""
    needed = wanted.carries_gpus or bool(wanted.model.reference.gpu_models)
    delivered = wanted.gpus_delivered()
    if not (needed or delivered or wanted.room()):
        return
    if machine.gpus is None:
        yield unknown("gpus", _expected(wanted), machine.why("gpus"), "inspect it again")
        return
    count = len(machine.gpus)
    found = f"{count} GPUs on PCI"
    if needed and count == 0:
        yield failed("gpus", _expected(wanted), found, _MISSING)
    elif delivered is None:
        why = f"nothing says how many were ordered; {found}"
        yield unknown("gpus", _expected(wanted), why, _ORDERED)
    else:
        action = _MISSING if count < delivered[0] else _TOO_MANY
        yield judged("gpus", _expected(wanted), found, action, good=count == delivered[0])
    if count and wanted.room():
        yield _forms(wanted, machine)
    if count and wanted.model.shows.gpu_ids is not None:
        yield _ids(machine, wanted.model.shows.gpu_ids)


def _expected(wanted: Expectation) -> str:
    delivered = wanted.gpus_delivered()
    if delivered is None:
        return "the number of GPUs that was ordered"
    return f"{delivered[0]} GPUs, {delivered[1]}"


def _forms(wanted: Expectation, machine: Machine) -> Finding:
    """Whether the cards have room: a number that fits as single width may not as double width."""
    room, cards = wanted.room(), machine.gpus or ()
    known = [wanted.card_of(gpu.pci_id) for gpu in cards]
    forms = Counter(_slot(card[1].form, room) for card in known if card)
    unread = len(cards) - sum(forms.values())
    expected = "at most " + ", or ".join(f"{most} {_words(form)}" for form, most in room.items())
    words = [f"{many} {_words(form)}" for form, many in sorted(forms.items())]
    words += [f"{unread} of unknown form"] if unread else []
    found = ", ".join(words)
    action = "compare the order with the cards, and the cards with the model's slots"
    limits = [room.get(form, 0) for form in forms] or list(room.values())
    if len(forms) > 1 or len(cards) > max(limits):
        return failed("gpus:form", expected, found, action)
    if unread and len(cards) > min(limits):
        why = "a card whose form no file names: see hardware/gpus.yml"
        return unknown("gpus:form", expected, f"{found}; {why}", action)
    return judged("gpus:form", expected, found, action, good=True)


def _slot(form: str, room: Mapping[str, int]) -> str:
    """The form of the slot that a card takes: a narrow card fits a wide slot."""
    wide = form == "single_width" and form not in room and "double_width" in room
    return "double_width" if wide else form


def _ids(machine: Machine, recorded: tuple[str, ...]) -> Finding:
    """Whether the GPUs are of the kinds that a machine of the model showed."""
    seen = Counter(gpu.pci_id for gpu in machine.gpus or ())
    want = Counter(recorded)
    expected = f"{_counted(want)}, as the machine has that was read"
    for gpu in machine.gpus or ():
        if gpu.pci_id is None:
            why = machine.why(f"gpus.{gpu.address}.pci_id")
            return unknown("gpus:ids", expected, why, "inspect it by the probe")
    # Another number is a finding of its own.
    alike = seen == want if seen.total() == want.total() else set(seen) == set(want)
    action = (
        "compare the order with the cards; for a machine that was ordered with others, read one: "
        "appliance hardware inspect NODE --write FOLDER"
    )
    return judged("gpus:ids", expected, _counted(seen), action, good=alike)


def _counted(ids: Counter[str] | Counter[str | None]) -> str:
    return ", ".join(f"{many} x {one}" for one, many in sorted(ids.items(), key=str)) or "none"


def _words(form: str) -> str:
    return f"{form.replace('_', ' ')} GPUs" if form != "sxm" else "SXM GPUs"
