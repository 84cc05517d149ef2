"""Show what the checks said: a row each, then every finding with what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from appliance.cli.render import print_table
from appliance.model.vendor_diagnostics import by_title

if TYPE_CHECKING:
    from collections.abc import Sequence

    from appliance.model.health import Result
    from appliance.model.observation import Look
    from appliance.model.preflight import Finding
    from appliance.model.site import Site
    from appliance.model.vendor_diagnostics import VendorReport

WORDS = {"ok": "ok", "warning": "warning", "error": "ERROR", "skipped": "skipped"}


def show_health(results: Sequence[Result], look: Look, report: VendorReport | None) -> None:
    """Print everything for people."""
    rows = [[r.check.name, WORDS[r.state], r.check.asks, _seen(r)] for r in results]
    print_table(["check", "state", "asks that", "seen"], rows)
    for fault in look.faults:
        click.echo(f"unreachable: {fault.reason}")
        click.echo(f"   hint: {fault.hint}")
    for result in results:
        for finding in result.findings:
            click.echo(f"{finding.severity}: {finding.sentence()}")
            click.echo(f"   hint: {finding.hint}")
    if report is not None:
        _show_report(report)


def _seen(result: Result) -> str:
    if result.state in ("ok", "skipped"):
        return result.seen
    seen = dict.fromkeys(finding.seen for finding in result.findings)
    return "; ".join(seen)


def _show_report(report: VendorReport) -> None:
    click.echo("the vendor's diagnostics:")
    rows = []
    for (title, outcome), tests in by_title(report.tests).items():
        note = ""
        if outcome not in ("pass", "skip") and tests[0].offline:
            note = f"not meaningful offline: {tests[0].offline}"
        rows.append([title, outcome, ", ".join(test.where for test in tests), note])
    print_table(["test", "outcome", "on", "note"], rows)
    for node in report.unheard:
        click.echo(f"warning: {node}: the vendor's tool did not come to its end there")


def health_as_json(
    site: Site, stage: str, results: Sequence[Result], look: Look, report: VendorReport | None
) -> dict[str, Any]:
    """The same as plain data; the keys are a contract."""
    return {
        "site": site.name,
        "stage": stage,
        "healthy": not faults_of(results, look, report),
        "checks": [
            {
                "check": r.check.name,
                "asks": r.check.asks,
                "state": r.state,
                "seen": r.seen,
                "findings": [_finding_as_json(finding) for finding in r.findings],
            }
            for r in results
        ],
        "unreachable": [{"node": f.node, "reason": f.reason, "hint": f.hint} for f in look.faults],
        "vendor_diagnostics": None if report is None else _report_as_json(report),
    }


def _finding_as_json(finding: Finding) -> dict[str, str]:
    return {key: value for key, value in vars(finding).items() if key not in ("step", "of_site")}


def _report_as_json(report: VendorReport) -> dict[str, Any]:
    return {
        "tests": [
            {
                "test": test.title,
                "on": test.where,
                "outcome": test.outcome,
                "meaningful_offline": not test.offline,
                "why_not": test.offline,
                "said": list(test.said),
            }
            for test in report.tests
        ],
        "complete": list(report.complete),
        "unheard": list(report.unheard),
    }


def faults_of(results: Sequence[Result], look: Look, report: VendorReport | None) -> list[str]:
    """Everything that is wrong, one sentence each; warnings are not."""
    return [
        *(fault.reason for fault in look.faults),
        *(
            finding.sentence()
            for result in results
            for finding in result.findings
            if finding.severity == "error"
        ),
        *(
            f"{test.where}: the vendor's test {test.title!r} says {test.outcome}: "
            f"{test.said[-1] if test.said else 'no reason'}"
            for test in (report.failures if report else ())
        ),
    ]
