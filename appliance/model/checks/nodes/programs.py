"""Are the programs installed that the install runs, on each node and on the control host?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from appliance.model.components.artifacts.unmet import mirrored
from appliance.model.components.base.subject import Subject
from appliance.model.programs import Program, Where, install_command, on_nodes
from appliance.model.state.desired import Desired
from appliance.model.state.findings import Finding
from appliance.model.state.observed import Observed

# Role of a node -> the step that needs its programs; empty: every step.
STEPS = {Where.EVERY: "", Where.SERVICES: "artifacts", Where.VENDOR: "runai"}


def programs(subject: Subject) -> Iterator[Finding]:
    """Programs that no step installs are present; what was not seen does not count as absent."""
    seen = subject.facts.at("programs") or {}
    for where, step in STEPS.items():
        rows = on_nodes([where]) if _plays(subject, where) else ()
        missing = [row for row in rows if seen.get(row.name) is False]
        if missing:
            yield Finding(
                subject.node.name,
                "programs",
                "error",
                f"no {_named(missing)}",
                f"programs that the install runs there ({'; '.join(_purposes(missing))})",
                subject.ssh(install_command(missing)),
                step,
            )


def _plays(subject: Subject, where: Where) -> bool:
    if where is Where.SERVICES:
        return subject.serves
    if where is Where.VENDOR:
        return subject.in_control_plane and subject.site.settings.runai is not None
    return True


def bringing(
    desired: Desired, observed: Observed, missing: Sequence[Program], machine: str, hint: str
) -> Iterator[Finding]:
    """Return the programs that the control host lacks to copy bundles, if they must be copied.

    Args:
        desired: the desired state.
        observed: the observed state.
        missing: programs that are not installed.
        machine: the control host's name.
        hint: the command that installs them.
    """
    services = observed.node_facts.get(desired.site.services_node.name)
    due = {
        "artifacts": services is not None and any(mirrored(services, desired)),
        "runai": bool(desired.vendor_bundle_file),
    }
    for step, is_due in due.items():
        if missing and is_due:
            yield Finding(
                f"{machine} (this machine)",
                "programs",
                "error",
                f"no {_named(missing)}",
                f"programs that step {step} runs here ({'; '.join(_purposes(missing))})",
                hint,
                step,
            )


def _named(missing: Sequence[Program]) -> str:
    return ", ".join(row.name for row in missing)


def _purposes(missing: Sequence[Program]) -> list[str]:
    return list(dict.fromkeys(row.purpose for row in missing))
