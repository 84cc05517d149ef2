"""What a model's file takes over from a machine of it: only what was read, and where."""

from __future__ import annotations

from typing import Any

from appliance.model.checks.hardware.found import Machine
from appliance.model.state.facts.hardware_models import HardwareModel
from appliance.model.state.facts.placeholders import told_serial


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


def _shows(machine: Machine) -> dict[str, Any]:
    dimms, gpus, nics = machine.dimms, machine.gpus, machine.nics
    # One slot whose module is unknown makes the population unknown.
    whole = dimms is not None and all(one.size_bytes is not None for one in dimms)
    return {
        "board": machine.identity.board,
        "dimm_slots": None if dimms is None else [one.slot for one in dimms],
        "dimms_in": [one.slot for one in dimms if one.size_bytes] if dimms and whole else None,
        "gpu_ids": None if gpus is None else sorted(one.pci_id for one in gpus if one.pci_id),
        "nic_ids": None if nics is None else sorted(one.pci_id for one in nics if one.pci_id),
    }
