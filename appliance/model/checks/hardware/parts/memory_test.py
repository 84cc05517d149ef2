"""Judges the short test of memory: wrong blocks, and what error correction counted meanwhile."""

from __future__ import annotations

from collections.abc import Iterator

from appliance.model.checks.hardware.expected import Expectation
from appliance.model.checks.hardware.findings import Finding, failed, judged, passed, unknown
from appliance.model.checks.hardware.found import Machine

_EXPECTED = "no wrong block"
_REPLACE = "replace the module that the BMC's event log names; run memtest86+ over a night"


def memory_test(_wanted: Expectation, machine: Machine) -> Iterator[Finding]:
    """The test, where it was asked for."""
    trials, path = machine.trials, "trials.memory_errors"
    if trials.memory_errors is None:
        if path in machine.unknown:
            why = machine.why(path)
            again = "free some memory, then qualify it again"
            if "pods" in why:
                again = "maintain it first, or test beside the pods: --allow-pods"
            yield unknown("memory-test", _EXPECTED, why, again)
        return
    tested = f"{(trials.memory_bytes or 0) / 1024**2:.0f} MiB"
    if trials.memory_errors:
        found = f"{trials.memory_errors} wrong blocks in {tested}"
        yield failed("memory-test", _EXPECTED, found, _REPLACE)
    elif not trials.memory_bytes:
        yield unknown("memory-test", _EXPECTED, "nothing was tested", "free some memory")
    else:
        yield passed("memory-test", _EXPECTED, f"{tested} tested")
    yield _corrected(machine)


def _corrected(machine: Machine) -> Finding:
    """Error correction hides a wrong bit from the test; its counters show it."""
    trials, fact, expected = machine.trials, "memory-test:ecc", "no errors during the test"
    if trials.memory_corrected is None or trials.memory_uncorrected is None:
        why = machine.why("trials.memory_corrected")
        action = "load the EDAC driver of this CPU (modprobe amd64_edac or skx_edac), then qualify"
        return unknown(fact, expected, why, action)
    found = f"{trials.memory_uncorrected} uncorrected, {trials.memory_corrected} corrected"
    good = not trials.memory_uncorrected and not trials.memory_corrected
    return judged(fact, expected, found, _REPLACE, good=good)
