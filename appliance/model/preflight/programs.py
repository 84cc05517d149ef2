"""Are the programs there that the install starts: on each node, and at the control host."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from appliance.model.postconditions import custody
from appliance.model.preflight.finding import Finding, Subject
from appliance.model.programs import Program, Where, install_command, on_nodes

if TYPE_CHECKING:
    from appliance.model.desired import Desired
    from appliance.model.postconditions import Observed

# Part that a node plays -> the step that its own programs are for; empty: every one.
STEPS = {Where.EVERY: "", Where.SERVICES: "artifacts", Where.VENDOR: "runai"}


def programs(subject: Subject) -> Iterator[Finding]:
    """A program that no step brings is there; what was not seen is not absent."""
    seen = subject.photo.at("programs") or {}
    for where, step in STEPS.items():
        rows = on_nodes([where]) if _plays(subject, where) else ()
        missing = [row for row in rows if seen.get(row.name) is False]
        if missing:
            yield Finding(
                subject.node.name,
                "programs",
                "error",
                f"no {_named(missing)}",
                f"what the install starts there ({'; '.join(_purposes(missing))})",
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
    """What the control host lacks to bring the bundles, where they still have to be brought.

    Args:
        desired: what is asked for.
        observed: what was seen of the nodes.
        missing: programs that are not there.
        machine: the control host's name.
        hint: what installs them.
    """
    services = observed.photographs.get(desired.site.services_node.name)
    due = {
        "artifacts": services is not None and any(custody(services, desired)),
        "runai": bool(desired.vendor_bundle_file),
    }
    for step, is_due in due.items():
        if missing and is_due:
            yield Finding(
                f"{machine} (this machine)",
                "programs",
                "error",
                f"no {_named(missing)}",
                f"what step {step} starts here ({'; '.join(_purposes(missing))})",
                hint,
                step,
            )


def _named(missing: Sequence[Program]) -> str:
    return ", ".join(row.name for row in missing)


def _purposes(missing: Sequence[Program]) -> list[str]:
    return list(dict.fromkeys(row.purpose for row in missing))
