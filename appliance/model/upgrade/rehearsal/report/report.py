"""What the report of a rehearsed upgrade says; to be attached to a change request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from appliance.model.state.journal import Record
from appliance.model.upgrade.rehearsal.handmade import Handmade
from appliance.model.upgrade.rehearsal.likeness import Likeness
from appliance.model.upgrade.rehearsal.report.blocks import Block, Heading, Items, Paragraph, Table
from appliance.model.upgrade.rehearsal.report.rehearsed import RehearsedRun


@dataclass(frozen=True)
class Rehearsal:
    """Everything that the report is made from.

    Attributes:
        like: the lab, and the site that it is like.
        settings: each hand-made setting, its nodes, and why the lab does not have it.
        runs: of the upgrade, the oldest first.
        records: of the lab's journal.
        stand_ins: (what a lab does not test, what takes its place).
    """

    like: Likeness
    settings: Sequence[tuple[Handmade, tuple[str, ...], str]] = ()
    runs: Sequence[RehearsedRun] = ()
    records: Sequence[Record] = ()
    stand_ins: Sequence[tuple[str, str]] = ()


def report(found: Rehearsal) -> tuple[Block, ...]:
    """The report: path, times, what is dropped, the time without API, and the evidence."""
    return (
        *_summary(found),
        *_path(found),
        *_times(found),
        *_dropped(found),
        *_api(found),
        *_evidence(found),
        *_limits(found),
    )


def _summary(found: Rehearsal) -> Iterator[Block]:
    like, runs = found.like, found.runs
    target = runs[-1].to if runs else "no release yet"
    yield Heading(1, f"Rehearsal of {like.site}: {like.release} to {target}")
    yield Paragraph(
        "This upgrade was run in a lab that was made like the site, from its files and its last "
        "facts. The site itself was not asked and not changed."
    )
    last = runs[-1] if runs else None
    took = sum(run.took_seconds for run in runs)
    yield Table(
        ("", "in the lab"),
        (
            ("outcome", last.outcome if last else "the upgrade was not run"),
            ("runs of the command", str(len(runs))),
            ("time of all runs", _words(took)),
            ("first forecast", next((run.window for run in runs if run.window), "none")),
            (
                "forecast for the site, workers one by one",
                next((run.site_window for run in runs if run.site_window), "none"),
            ),
            ("longest time without API", _longest(runs)),
        ),
    )
    yield Table(
        ("node", "role", "also for", "facts seen"),
        tuple(
            (node.name, ", ".join(node.groups), ", ".join(node.stands_for), node.seen or "never")
            for node in like.nodes
        ),
    )


def _path(found: Rehearsal) -> Iterator[Block]:
    yield Heading(2, "Path")
    # A later run goes on where the one before ended: the first one to a release has all steps.
    first = {run.to: run for run in reversed(found.runs) if run.steps}
    steps = [step for run in found.runs if first.get(run.to) is run for step in run.steps]
    if not steps:
        yield Paragraph("No step was planned.")
        return
    yield Table(
        ("release", "step", "nodes", "because", "disturbs", "way back"),
        tuple(
            (
                step.release,
                step.title,
                ", ".join(step.nodes),
                "; ".join(step.why),
                step.disturbs or "nothing",
                step.back,
            )
            for step in steps
        ),
    )


def _times(found: Rehearsal) -> Iterator[Block]:
    yield Heading(2, "Times")
    ids = {run.run for run in found.runs}
    records = [one for one in found.records if one.run in ids or one.command == "cluster upgrade"]
    if not records:
        yield Paragraph("The journal has no step of an upgrade.")
        return
    yield Table(
        ("began", "step", "nodes", "took", "outcome"),
        tuple(
            (one.started, one.step, ", ".join(one.nodes), _words(one.took_seconds), one.outcome)
            for one in records
        ),
    )
    forecasts = {(run.started, run.window): None for run in found.runs if run.window}
    yield Items(tuple(f"forecast of the run at {began}: {text}" for began, text in forecasts))


def _dropped(found: Rehearsal) -> Iterator[Block]:
    yield Heading(2, "What is dropped")
    if not found.settings:
        yield Paragraph("The last look found no setting that was made by hand.")
        return
    accepted = {name for run in found.runs for name in run.accepted}
    yield Paragraph(
        "kubeadm renders these settings again. Each must be in site.yml, or its loss accepted by "
        "name."
    )
    yield Table(
        ("setting", "nodes", "on the site", "kubeadm renders", "in the rehearsal"),
        tuple(
            (
                one.name,
                ", ".join(nodes) or "the cluster",
                one.was,
                one.will,
                f"not in the lab: {reason}"
                if reason
                else ("loss accepted" if one.name in accepted else "in the lab"),
            )
            for one, nodes, reason in found.settings
        ),
    )


def _api(found: Rehearsal) -> Iterator[Block]:
    yield Heading(2, "Time without API")
    if not found.runs:
        yield Paragraph("No run was measured.")
        return
    yield Items(tuple(f"run at {run.started}: {run.api.sentence()}" for run in found.runs))
    rows = [(run, gap) for run in found.runs for gap in run.api.gaps]
    if rows:
        yield Table(
            ("run", "after", "away"),
            tuple(
                (run.started, f"{gap.after_seconds:.1f} s", f"{gap.seconds:.1f} s")
                for run, gap in rows
            ),
        )


def _evidence(found: Rehearsal) -> Iterator[Block]:
    yield Heading(2, "Evidence")
    for run in found.runs:
        yield Heading(3, f"Run {run.run}")
        yield Paragraph(f"Began {run.started}, took {_words(run.took_seconds)}: {run.outcome}.")
        if run.gates:
            yield Table(
                ("point", "node", "verdict", "found", "expected"),
                tuple((g.name, g.node, g.verdict, g.found, g.expected) for g in run.gates),
            )
    errors = [one for one in found.records if one.error]
    if errors:
        yield Items(tuple(f"{one.started} {one.step}: {one.error}" for one in errors))
    if not found.runs:
        yield Paragraph("There is none.")


def _limits(found: Rehearsal) -> Iterator[Block]:
    yield Heading(2, "What this rehearsal does not show")
    if found.like.differences:
        yield Items(tuple(found.like.differences))
    if found.stand_ins:
        yield Table(("not tested", "in its place"), tuple(found.stand_ins))


def _longest(runs: Sequence[RehearsedRun]) -> str:
    measured = [run.api for run in runs if run.api.asked]
    if not measured:
        return "not measured"
    return f"{max(api.longest for api in measured):.1f} s"


def _words(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.1f} min"
