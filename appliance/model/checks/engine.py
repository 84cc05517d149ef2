"""What a check is, and how checks are run: the same for the site's files, nodes and the cluster.

A check is a generator over what it is asked about. It yields findings, plain words for what is
fine, or :class:`Skipped` with the reason why it cannot be judged. It declares its stages, the step
that its errors forbid, what must have been seen, and the checks that it rests on: where one of
those found an error already, the check is not asked, so the same fault is reported once. All checks
are in :mod:`appliance.model.checks.registry`.

What must not be here: what any single check asks, or looking at anything.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, Literal, TypeVar, get_args

from appliance.model.state.facts.facts import UnseenFact, watching
from appliance.model.state.findings import Finding, Severity

Stage = Literal["site", "preflight", "before_runai", "health"]
STAGES: Final[tuple[Stage, ...]] = get_args(Stage)
SEVERITIES: Final[tuple[Severity, ...]] = get_args(Severity)
"""In the order in which findings are reported."""
State = Literal["ok", "warning", "error", "skipped"]
BUSY: Final = "the node is very busy: check its load (uptime), then run the same command again"

Asked = TypeVar("Asked")
Fault = TypeVar("Fault")


@dataclass(frozen=True)
class Skipped:
    """A check that cannot be judged, and why."""

    why: str


@dataclass(frozen=True)
class Need(Generic[Asked]):
    """Something that must have been seen before a check can be judged.

    Attributes:
        is_met: whether it was seen.
        why_not: why the check is skipped where it was not.
    """

    is_met: Callable[[Asked], bool]
    why_not: str


@dataclass(frozen=True)
class Check(Generic[Asked, Fault]):
    """One check.

    Attributes:
        name: what findings and documents call it.
        look: judges what it is asked about.
        stages: when it speaks.
        asks: what is true when all is fine, for people.
        step: its errors forbid this step alone; empty: the whole install.
        severity: of faults that do not name their own.
        needs: what must have been seen; the first that was not is the reason to skip the check.
        rests_on: checks whose errors report this check's faults already, and say more.
        of_runai: it asks something of Run:ai, so it does not speak of a cluster without it.
    """

    name: str
    look: Callable[[Asked], Iterator[Fault | Skipped | str]]
    stages: tuple[Stage, ...]
    asks: str = ""
    step: str = ""
    severity: Severity = "error"
    needs: tuple[Need[Asked], ...] = ()
    rests_on: tuple[str, ...] = ()
    of_runai: bool = False


@dataclass(frozen=True)
class Result(Generic[Asked, Fault]):
    """What one check reported.

    Attributes:
        seen: what was fine, or why the check was skipped.
        unseen: what would be an error if the facts were as they seem; but they were not seen.
    """

    check: Check[Asked, Fault]
    state: State
    seen: str = ""
    findings: tuple[Fault, ...] = ()
    unseen: tuple[Finding, ...] = ()


def run(check: Check[Asked, Fault], asked: Asked) -> Result[Asked, Fault]:
    """Run one check. What it finds by a fact that was not seen is no finding."""
    for need in check.needs:
        if not need.is_met(asked):
            return Result(check, "skipped", need.why_not)
    findings: list[Fault] = []
    fine: list[str] = []
    with watching() as missed:
        answers = tuple(check.look(asked))
    for answer in answers:
        if isinstance(answer, Skipped):
            return Result(check, "skipped", answer.why)
        if isinstance(answer, str):
            fine.append(answer)
        else:
            findings.append(answer)
    if missed and findings:
        why = f"{missed[0].path} is unknown: {missed[0].why}"
        return Result(check, "skipped", why, unseen=_unseen(findings, missed[0]))
    severities = {severity_of(check, finding) for finding in findings}
    state: State = "error" if "error" in severities else "warning" if severities else "ok"
    return Result(check, state, "; ".join(fine), tuple(findings))


def run_all(
    checks: Iterable[Check[Asked, Fault]], asked: Asked, failed: Collection[str] = ()
) -> Iterator[Result[Asked, Fault]]:
    """Run checks in order, without those that rest on one of ``failed``."""
    return (run(check, asked) for check in checks if not set(check.rests_on) & set(failed))


def severity_of(check: Check[Any, Fault], fault: Fault) -> Severity:
    """The severity that a fault names itself; else that of its check."""
    return fault.severity if isinstance(fault, Finding) else check.severity


def by_severity(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Findings, the most severe first, else in their order."""
    return tuple(sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity)))


def failed_checks(findings: Iterable[Finding]) -> frozenset[str]:
    """The checks that found an error."""
    return frozenset(finding.check for finding in findings if finding.severity == "error")


def _unseen(findings: Iterable[Any], missed: UnseenFact) -> tuple[Finding, ...]:
    """The first error among findings that rest on a fact that was not seen, as such."""
    errors = (f for f in findings if isinstance(f, Finding) and f.severity == "error")
    return tuple(
        replace(error, severity="unseen", seen=missed.why, expected=missed.path, hint=BUSY)
        for error in list(errors)[:1]
    )
