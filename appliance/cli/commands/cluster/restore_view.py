"""A restore of etcd as JSON, alone or as a part of one onto new machines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from appliance.workflows.cluster.restore import RestoreResult


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
        "refusals": [
            {"node": r.node, "check": r.check, "seen": r.seen, "expected": r.expected}
            | {"hint": r.hint}
            for r in plan.refusals
        ],
        "not_reached": list(done.away),
        "not_ready": list(done.gone),
        "compared": done.compared,
        "took_seconds": round(done.took_seconds, 1),
        "done": done.done,
    }
