"""Every check of one machine, in the order of a report."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from appliance.model.checks.hardware.expected import Expectation
from appliance.model.checks.hardware.findings import Finding
from appliance.model.checks.hardware.found import Machine
from appliance.model.checks.hardware.parts.cards import gpus, nics
from appliance.model.checks.hardware.parts.gpu_number import gpu_number
from appliance.model.checks.hardware.parts.identity import cpus, model, serial
from appliance.model.checks.hardware.parts.memory import memory
from appliance.model.checks.hardware.parts.memory_test import memory_test
from appliance.model.checks.hardware.parts.settings import (
    clock,
    firmware,
    firmware_of_parts,
    nouveau,
    physical,
    ruled,
    secure_boot,
)
from appliance.model.checks.hardware.parts.storage import disks, etcd_disk, raid

CHECKS: Final[tuple[Callable[[Expectation, Machine], Iterator[Finding]], ...]] = (
    *(
        model,
        serial,
        physical,
        cpus,
        memory,
        gpu_number,
        gpus,
        nics,
        disks,
        raid,
        etcd_disk,
        memory_test,
    ),
    *(firmware, firmware_of_parts, secure_boot, ruled, nouveau, clock),
)


def qualify(wanted: Expectation, machine: Machine) -> tuple[Finding, ...]:
    """Judge one machine. A stand-in of the lab has no hardware of its own: nothing is judged."""
    if wanted.model.standin:
        return ()
    return tuple(finding for check in CHECKS for finding in check(wanted, machine))
