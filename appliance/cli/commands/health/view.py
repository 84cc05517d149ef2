"""Show the results of the checks: one row each, then every finding with its hint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from appliance.cli.commands.status.view import show_unreachable
from appliance.cli.screen.hints import say_hint
from appliance.cli.screen.render import print_table
from appliance.cli.screen.terminal import print_line
from appliance.model.bundle.vendor.diagnostics import VendorReport, by_title

if TYPE_CHECKING:
    from appliance.model.checks.health.stages import Result
    from appliance.model.checks.preflight import Finding
    from appliance.workflows.health import HealthResult

WORDS = {"ok": "ok", "warning": "warning", "error": "ERROR", "skipped": "skipped"}


def show_health(found: HealthResult) -> None:
    """Print everything for people."""
    rows = [[r.check.name, WORDS[r.state], r.check.asks, _seen(r)] for r in found.results]
    print_table(["check", "state", "passes when", "seen"], rows)
    show_unreachable(found.look.faults)
    for result in found.results:
        for finding in result.findings:
            print_line(f"{finding.severity}: {finding.sentence()}")
            say_hint(finding.hint)
    if found.report is not None:
        _show_report(found.report)


def _seen(result: Result) -> str:
    if result.state in ("ok", "skipped"):
        return result.seen
    seen = dict.fromkeys(finding.seen for finding in result.findings)
    return "; ".join(seen)


def _show_report(report: VendorReport) -> None:
    print_line("the vendor's diagnostics:")
    rows = []
    for (title, outcome), tests in by_title(report.tests).items():
        note = ""
        if outcome not in ("pass", "skip") and tests[0].offline:
            note = f"not meaningful offline: {tests[0].offline}"
        rows.append([title, outcome, ", ".join(test.where for test in tests), note])
    print_table(["test", "outcome", "on", "note"], rows)
    if report.file:
        print_line(f"for the vendor's support: {report.file}")
    for node in report.unheard:
        print_line(f"warning: {node}: the vendor's tool did not finish on this node")


def health_as_json(found: HealthResult) -> dict[str, Any]:
    """The same as plain data; the keys are a contract."""
    return {
        "site": found.site.name,
        "stage": found.stage,
        "healthy": not found.faults,
        "checks": [
            {
                "check": r.check.name,
                "asks": r.check.asks,
                "state": r.state,
                "seen": r.seen,
                "findings": [_finding_as_json(finding) for finding in r.findings],
            }
            for r in found.results
        ],
        "unreachable": [
            {"node": f.node, "reason": f.reason, "hint": f.hint} for f in found.look.faults
        ],
        "vendor_diagnostics": found.report and _report_as_json(found.report),
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
        "file": report.file,
    }
