"""The tables of qualifications, as ``hardware qualify`` and ``node image`` print them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from appliance.cli.screen.render import print_table, show_warnings

if TYPE_CHECKING:
    from appliance.model.checks.hardware.reading import Qualification


def show_qualifications(found: Sequence[Qualification], *, every: bool) -> None:
    """Print the facts that did not pass, then one line for each node.

    Args:
        found: the judgements.
        every: print the facts that passed, too.
    """
    from appliance.model.checks.hardware.findings import Verdict
    from appliance.model.checks.hardware.page import counted

    for one in found:
        show_warnings(f"{one.node}: {reason}" for reason in one.reading.reasons)
    lines = [
        (one.node, fact.verdict.value, fact.fact, fact.expected, fact.found, fact.action)
        for one in found
        for fact in one.findings
        if every or fact.verdict != Verdict.PASS
    ]
    if lines:
        columns = ("node", "verdict", "fact", "expected", "found", "what to do")
        print_table(columns, lines, spare=("what to do",))
    print_table(
        ("node", "model", "serial", "verdict", "facts"),
        [
            (one.node, one.model, _serial(one), one.verdict.value, counted(one.findings))
            for one in found
        ],
    )


def _serial(one: Qualification) -> str:
    machine = one.reading.machine
    return (machine.identity.serial if machine else None) or "unknown"
