"""What every restore prints of its plan; and a restore of etcd as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from appliance.cli.screen.hints import say_hint
from appliance.cli.screen.render import refusals_as_json
from appliance.cli.screen.terminal import print_line

if TYPE_CHECKING:
    from appliance.model.state.plan import Refusal
    from appliance.workflows.cluster.restore import RestoreResult


def show_forecast(refusals: Sequence[Refusal], forecast: Sequence[str], *, err: bool) -> None:
    """Print what forbids a restore, what it does, and as the last line that it cannot be done.

    Args:
        refusals: what must be fixed first.
        forecast: what the restore does, in sentences.
        err: print to stderr.
    """
    for refusal in refusals:
        print_line(f"refused: {refusal.sentence()}", err=err)
        say_hint(refusal.hint, err=err)
    if refusals:
        print_line("what the restore does once that is fixed:", err=err)
    for line in forecast:
        print_line(f"   {line}" if refusals else line, err=err)
    if refusals:
        count = f"{len(refusals)} refusal{'s' if len(refusals) != 1 else ''}"
        print_line(f"cannot be done: {count}, see above; nothing was changed", err=err)


def restore_as_json(done: RestoreResult) -> dict[str, Any]:
    """What ``-o json`` prints of a plan or of a finished run."""
    plan = done.plan
    return {
        "restore": plan.key,
        "source": plan.source,
        "recovery_point": plan.point or None,
        "members": dict(plan.members),
        "resumes": plan.resumes,
        "known": plan.known,
        "kept": {"path": plan.aside, "nodes": list(plan.kept)},
        "rejoin": list(plan.rejoin),
        "refusals": refusals_as_json(plan.refusals),
        "not_reached": list(done.away),
        "not_ready": list(done.gone),
        "compared": done.compared,
        "took_seconds": round(done.took_seconds, 1),
        "done": done.done,
    }
