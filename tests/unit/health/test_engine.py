"""How a check is run: what it needs, what it rests on, and what nobody saw."""

from __future__ import annotations

from collections.abc import Iterator

from appliance.model.checks.engine import (
    BUSY,
    SEVERITIES,
    Check,
    Need,
    Skipped,
    by_severity,
    failed_checks,
    run,
    run_all,
)
from appliance.model.state.facts.facts import NodeFacts
from appliance.model.state.findings import Finding, Severity

UNSEEN = {"schema": 1, "unseen": {"swap": "swapon timed out"}}


def _finding(severity: Severity = "error", check: str = "swap") -> Finding:
    return Finding("w1", check, severity, "swap is on", "no swap", "swapoff -a")


def _says(*answers: Finding | Skipped | str) -> Check[object, Finding]:
    return Check("swap", lambda _: iter(answers), ("preflight",))


def test_the_worst_finding_is_the_state() -> None:
    assert run(_says(), None).state == "ok"
    assert run(_says("all"), None).seen == "all"
    assert run(_says(_finding("warning")), None).state == "warning"
    assert run(_says(_finding("warning"), _finding()), None).state == "error"


def test_a_check_that_cannot_be_judged_finds_nothing() -> None:
    result = run(_says(_finding(), Skipped("no cluster answers")), None)
    assert (result.state, result.seen, result.findings) == ("skipped", "no cluster answers", ())


def test_a_check_is_not_asked_without_what_it_needs() -> None:
    def look(_: int) -> Iterator[Finding]:
        raise AssertionError("it was asked")

    needs = (Need[int](lambda n: n > 0, "no node"), Need[int](lambda n: n > 1, "one node alone"))
    check = Check("swap", look, ("health",), needs=needs)
    assert [run(check, n).seen for n in (0, 1)] == ["no node", "one node alone"]
    assert run(check, 1).state == "skipped"


def test_an_error_by_a_fact_that_was_not_seen_is_no_error() -> None:
    def look(facts: NodeFacts) -> Iterator[Finding]:
        if facts.at("swap.active") is None:
            yield _finding("warning")
            yield _finding()
            yield _finding(check="more")

    result = run(Check("swap", look, ("preflight",)), NodeFacts(UNSEEN))
    assert (result.state, result.findings) == ("skipped", ())
    (unseen,) = result.unseen
    assert (unseen.check, unseen.severity, unseen.hint) == ("swap", "unseen", BUSY)
    assert "swapon timed out" in unseen.seen
    assert result.seen == f"{unseen.expected} is unknown: {unseen.seen}"


def test_a_warning_by_a_fact_that_was_not_seen_is_dropped() -> None:
    def look(facts: NodeFacts) -> Iterator[Finding]:
        if facts.at("swap.active") is None:
            yield _finding("warning")

    result = run(Check("swap", look, ("preflight",)), NodeFacts(UNSEEN))
    assert (result.findings, result.unseen) == ((), ())


def test_a_check_that_rests_on_one_that_failed_is_not_run() -> None:
    spread = Check[object, Finding](
        "clock_spread", lambda _: iter([_finding()]), ("health",), rests_on=("clock",)
    )
    assert [r.check.name for r in run_all((spread,), None, {"clock"})] == []
    assert [r.check.name for r in run_all((spread,), None, {"swap"})] == ["clock_spread"]


def test_only_errors_fail_a_check() -> None:
    found = [_finding(severity, check=severity) for severity in SEVERITIES]
    assert failed_checks(found) == {"error"}


def test_findings_are_in_the_order_of_their_severity() -> None:
    found = [_finding(severity) for severity in reversed(SEVERITIES)]
    assert [f.severity for f in by_severity(found)] == ["error", "unseen", "warning", "info"]
