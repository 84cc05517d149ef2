"""What a model's file takes over from a machine of it: only what was read, and where."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from appliance.model.checks.hardware.found import Machine
from appliance.model.state.facts.hardware_models import GB, GIB, HardwareModel
from appliance.model.state.facts.placeholders import told_serial

_Value = TypeVar("_Value")


class NothingLearnt(ValueError):
    """The machine told nothing that tells its model; the text says what is missing."""


def learnt(model: HardwareModel, machine: Machine, day: str, version: str) -> dict[str, Any]:
    """The keys ``dmi``, ``shows`` and ``sources`` of a model's file after a machine was read.

    Args:
        model: the file so far.
        machine: what was read; unknown facts stay null.
        day: ISO 8601.
        version: of this tool.

    Raises:
        NothingLearnt: vendor or product were not read.
    """
    seen = machine.identity
    if not seen.vendor or not seen.product:
        why = machine.why("identity.product" if seen.vendor else "identity.vendor")
        raise NothingLearnt(f"neither vendor nor product without a gap: {why}")
    serial = told_serial(seen.serial)
    where = f"hardware inspect --write: machine {serial or '?'}, {day}, {machine.source}"
    kept = [one.model_dump() for one in model.sources if not one.fact.startswith("dmi.")]
    told = [{"fact": f"dmi.{key}", "where": where} for key in ("vendor", "product")]
    return {
        "dmi": {"vendor": seen.vendor, "product": seen.product},
        "shows": {**_shows(machine), "read_from": {
            "serial": serial,
            "day": day,
            "by": machine.source,
            "tool_version": version,
        }},
        "sources": [*kept, *told],
    }  # fmt: skip


def counted(learnt: Mapping[str, Any]) -> str:
    """What was learnt, in numbers; ``?`` for what was not read as a whole."""
    shows = learnt["shows"]

    def many(key: str) -> object:
        return "?" if shows[key] is None else len(shows[key])

    gpus = "?" if shows["gpus"] is None else shows["gpus"]
    return f"{gpus} GPUs, {many('dimms_in')} modules, {many('disks_gb')} disks"


def _shows(machine: Machine) -> dict[str, Any]:
    dimms, gpus = machine.dimms, machine.gpus
    # One slot whose module is unknown makes the population unknown.
    whole = dimms is not None and all(one.size_bytes is not None for one in dimms)
    filled = [one for one in dimms or () if one.size_bytes]
    speeds = {one.speed_mts for one in filled}
    sizes = [size / GIB for one in filled if (size := one.size_bytes)]
    return {
        "board": machine.identity.board,
        "cpu_models": _all(None if machine.cpus is None else [one.model for one in machine.cpus]),
        "dimm_slots": None if dimms is None else [one.slot for one in dimms],
        "dimms_in": [one.slot for one in filled] if whole else None,
        "dimms_gib": [int(size) for size in sizes]
        if whole and all(size.is_integer() for size in sizes)
        else None,
        "dimm_speed_mts": speeds.pop() if len(speeds) == 1 else None,
        "disks_gb": disks_gb(machine),
        "gpus": None if gpus is None else len(gpus),
        "gpu_ids": _sorted(None if gpus is None else [one.pci_id for one in gpus]),
        "nic_ids": _sorted(None if machine.nics is None else [one.pci_id for one in machine.nics]),
    }


def disks_gb(machine: Machine) -> list[int] | None:
    """The sizes of a machine's own disks in GB, sorted; None where one is not known."""
    if machine.disks is None:
        return None
    sizes = [one.size_bytes for one in machine.disks if one.transport != "usb" and not one.member]
    known = _all(sizes)
    return None if known is None else sorted(round(size / GB) for size in known)


def _all(values: list[_Value | None] | None) -> list[_Value] | None:
    """The values, if each is known: a list with holes would look complete."""
    known = [value for value in values or () if value is not None]
    return known if values is not None and len(known) == len(values) else None


def _sorted(values: list[str | None] | None) -> list[str] | None:
    known = _all(values)
    return None if known is None else sorted(known)
