"""Qualify the servers that are installed, all at once: a batch is compared with itself, too.

Whether that is left to do is seen: the record of the machine, and the note of a run that stopped.
What must not be here: judging hardware (:mod:`appliance.model.checks.hardware`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from appliance.errors import ApplianceError, Interrupted, NotHealthy
from appliance.model.checks.hardware.page import counted
from appliance.model.checks.hardware.record import document_of, kept_of
from appliance.model.node.imaging.batch import accepted_at, name_of
from appliance.model.state.facts.identity import likeness

if TYPE_CHECKING:
    from collections.abc import Sequence

    from appliance.model.checks.hardware.reading import Qualification
    from appliance.model.node.imaging.batch import Note
    from appliance.model.state.facts.identity import MachineIdentity
    from appliance.workflows.hardware.qualifying import Qualified
    from appliance.workflows.node.imaging.request import ImageRequest, ImageResult
    from appliance.workflows.session.session import Session

STEP: Final = "qualify"


def left_to_qualify(
    request: ImageRequest, session: Session, name: str, machine: MachineIdentity
) -> str:
    """Why an installed server is qualified by this run; empty where it is not.

    A node that was accepted is in use: it is left to ``hardware qualify``.
    """
    if request.unread:
        return ""
    if _is_ours(session.notes.read(name), request, name, machine):
        return "an earlier run installed it, and its hardware has not passed yet"
    if name in request.passports:
        return ""
    kept = kept_of(session.documents.read(document_of(name)), name)
    if kept is not None and kept.passed and likeness(machine, kept.machine) == "same":
        return ""
    return "it is installed, and no record here says that its hardware passed"


def _is_ours(note: Note | None, request: ImageRequest, name: str, machine: MachineIdentity) -> bool:
    return (
        note is not None
        and note.machine == name_of(machine) != ""
        and note.accepted == accepted_at(request.passports, name)
    )


def close_notes(session: Session, found: ImageResult) -> None:
    """Let no note tell of the disk of a server that is installed."""
    for name, course in found.courses.items():
        note = session.notes.read(name)
        if course.kind == "done":
            session.notes.drop(name)
        elif course.kind == "qualify" and note is not None and not note.installed:
            session.notes.keep(name, note.once_installed())


def qualify_installed(request: ImageRequest, session: Session, done: ImageResult) -> ImageResult:
    """Qualify what this run installed, and what an earlier one left; the rest is as it was.

    Raises:
        Interrupted: the operator asked for it; the same command qualifies them.
    """
    names = [
        name
        for name, course in done.courses.items()
        if name in done.installed or course.kind == "qualify"
    ]
    if not names:
        return done
    observer, began = session.observer, session.clock.monotonic()
    observer.step_started(STEP, names)
    error: ApplianceError | None = None
    try:
        made, without = _carry_out(request, session, names)
        done = replace(
            done, qualifications=made.found if made else (), unqualified=without,
            warnings=made.missed if made else (),
        )  # fmt: skip
        if bad := not_qualified(done):
            error = NotHealthy(f"not qualified: {', '.join(bad)}")
    except KeyboardInterrupt:
        error = Interrupted(
            "interrupted: the servers are installed, and not qualified",
            hint="run the same command again: it installs none of them again",
        )
        raise error from None
    except ApplianceError as caught:
        error = caught
        raise
    finally:
        observer.step_ended(STEP, session.clock.monotonic() - began, error)
    return done


def _carry_out(
    request: ImageRequest, session: Session, names: Sequence[str]
) -> tuple[Qualified | None, dict[str, str]]:
    """The judgements, and why some have none."""
    nodes = [request.site.node(name) for name in names]
    known = [node for node in nodes if session.qualifying.knows(node)]
    without = {
        node.name: f"{node.name}: its host_vars name "
        + (f"the unknown model {node.hardware!r}" if node.hardware else "no hardware model")
        for node in nodes
        if node not in known
    }
    for name, why in without.items():
        session.observer.task(STEP, name, f"not qualified: {why}", changed=None)
    if not known:
        return None, without
    for node in known:
        session.observer.task(STEP, node.name, "read and test its hardware", changed=None)
    made = session.qualifying.carry_out(known)
    for one in made.found:
        session.observer.task(STEP, one.node, _verdict(one), changed=None)
        if one.passed:
            session.notes.drop(one.node)
    return made, without


def _verdict(one: Qualification) -> str:
    if one.passed:
        return f"{one.verdict.value}: {counted(one.findings) or 'a stand-in: nothing is expected'}"
    return f"{one.verdict.value}: {one.sentence()}"


def not_qualified(done: ImageResult) -> dict[str, str]:
    """Node -> why it is installed and not qualified, in the order of the command."""
    found = {one.node: f"{one.node}: {one.sentence()}" for one in done.qualifications
             if not one.passed}  # fmt: skip
    found |= done.unqualified
    return {name: found[name] for name in done.courses if name in found}
