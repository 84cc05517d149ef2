"""The report that a factory prints and signs: one HTML file, one page for each node.

It holds everything itself: no script, no font, no picture and no link leads out of it. What a
machine told is escaped, as it may be hostile.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Final

from appliance.model.checks.hardware.facts import rows
from appliance.model.checks.hardware.findings import Finding, Verdict
from appliance.model.checks.hardware.reading import Qualification
from appliance.model.checks.hardware.trials.burn_in import BurnInRecord
from appliance.model.checks.hardware.trials.burn_in_judged import span
from appliance.model.checks.hardware.trials.network import gbit
from appliance.model.state.facts.placeholders import told_serial

_WORDS: Final = {
    Verdict.PASS: "qualified",
    Verdict.FAIL: "not qualified",
    Verdict.UNKNOWN: "not verified: facts are unknown",
    Verdict.NOTE: "a stand-in: nothing was judged",
}
_STREAMS: Final = ("to", "sent", "received", "not measured because")
_STYLE: Final = """
body{font:11pt sans-serif;margin:2em;color:#111}
section{page-break-after:always}
table{border-collapse:collapse;width:100%;margin:.6em 0 1.4em}
td,th{border:1px solid #888;padding:.2em .5em;text-align:left;vertical-align:top;
overflow-wrap:anywhere}
.fail{font-weight:bold}.fail td:first-child::before{content:"\\2717  "}
.unknown td:first-child::before{content:"?  "}
.pass td:first-child::before{content:"\\2713  "}
.sign td{height:3em;width:33%}
"""


def page(site: str, nodes: Sequence[Qualification], by: str, at: str, tool_version: str) -> str:
    """The whole file.

    Args:
        site: its name.
        nodes: a page for each.
        by: operator@host.
        at: ISO 8601, UTC.
        tool_version: of this product.
    """
    head = f"{escape(site)}: hardware of {len(nodes)} nodes"
    body = "".join(_section(one, f"{by}, {at}, appliance {tool_version}") for one in nodes)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{head}</title><style>{_STYLE}</style></head>\n<body>"
        f"{_overview(head, nodes)}{body}</body></html>\n"
    )


def _overview(head: str, nodes: Sequence[Qualification]) -> str:
    lines = [
        (one.node, one.model, _serial(one), _WORDS[one.verdict], counted(one.findings))
        for one in nodes
    ]
    table = _table(("node", "model", "serial", "verdict", "facts"), lines)
    return f"<section><h1>{head}</h1>{table}</section>\n"


def _section(one: Qualification, made: str) -> str:
    machine = one.reading.machine
    parts = [
        f"<section><h1>{escape(one.node)}: {escape(_WORDS[one.verdict])}</h1>",
        f"<p>model {escape(one.model)}, serial {escape(_serial(one))}; {escape(made)}</p>",
        *(f"<p>not read: {escape(reason)}</p>" for reason in one.reading.reasons),
        _findings(one.findings),
    ]
    if one.streams:
        parts.append(f"<h2>network</h2>{_table(_STREAMS, _streams(one))}")
    parts.append(_burn_in(one.burn_in))
    if machine is not None:
        parts.append(f"<h2>what was read</h2>{_table(('fact', 'value'), rows(machine))}")
    parts.append(
        "<h2>signed</h2><table class=sign><tr><th>name</th><th>date</th><th>signature</th></tr>"
        "<tr><td></td><td></td><td></td></tr></table></section>\n"
    )
    return "".join(parts)


def _streams(one: Qualification) -> Iterator[Sequence[str]]:
    for each in one.streams:
        there, back = each.sent(one.node), each.sent(each.peer(one.node))
        rates = [gbit(rate) if rate is not None else "-" for rate in (there, back)]
        yield (each.peer(one.node), *rates, each.reason)


def _burn_in(record: BurnInRecord | None) -> str:
    """What is recorded; a reader must see that nothing is."""
    if record is None:
        return "<h2>burn-in</h2><p>none is recorded</p>"
    one = record.burn_in
    lines = [
        ("run", f"{one.id}, by {one.by}, collected {record.at} from {record.node}"),
        ("state", f"{record.status}: {one.ended or '-'}"),
        ("time", f"{span(one.seconds)} of {span(one.wanted_seconds)}, {one.samples} samples"),
        *((f"work.{part}", _pairs(counts)) for part, counts in one.work.items()),
        *((f"{name}", f"{pair[0]} before, {pair[1]} after") for name, pair in one.counters.items()),
        *((f"highest.{name}", f"{top:g} °C") for name, (top, _) in one.highest.items()),
        *((f"log.{number}", line) for number, line in enumerate(one.log, 1)),
    ]
    return f"<h2>burn-in</h2>{_table(('fact', 'value'), lines)}"


def _pairs(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())


def _findings(findings: Sequence[Finding]) -> str:
    head = "".join(f"<th>{name}</th>" for name in ("fact", "expected", "found", "what to do"))
    lines = "".join(
        f'<tr class="{one.verdict.value}"><td>{escape(one.fact)}</td>'
        f"<td>{escape(one.expected)}</td><td>{escape(one.found)}</td>"
        f"<td>{escape(one.action)}</td></tr>"
        for one in findings
    )
    return f"<table><tr>{head}</tr>{lines}</table>" if findings else ""


def _table(columns: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in line) + "</tr>" for line in lines
    )
    return f"<table><tr>{head}</tr>{body}</table>"


def _serial(one: Qualification) -> str:
    machine = one.reading.machine
    return (told_serial(machine.identity.serial) if machine else None) or "unknown"


def counted(findings: Sequence[Finding]) -> str:
    """How many facts have which verdict."""
    many = Counter(one.verdict for one in findings)
    return ", ".join(f"{many[verdict]} {verdict.value}" for verdict in Verdict if many[verdict])
