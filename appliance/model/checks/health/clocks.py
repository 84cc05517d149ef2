"""Check of clocks: how far those of the members are apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from appliance.model.checks.engine import Skipped
from appliance.model.checks.health.inputs import Answers, HealthInputs
from appliance.model.checks.nodes.naming import ANSWER_SECONDS
from appliance.model.state.findings import Finding

SPREAD_ERROR_SECONDS = 60.0
SPREAD_WARNING_SECONDS = 1.0


class _Apart(NamedTuple):
    """Two clocks and their distance."""

    seconds: float
    node: str
    other: str


def _furthest(clocks: Mapping[str, float]) -> _Apart:
    """The two that are furthest apart."""
    first, last = min(clocks, key=clocks.__getitem__), max(clocks, key=clocks.__getitem__)
    return _Apart(clocks[last] - clocks[first], last, first)


def clock_spread(inputs: HealthInputs) -> Answers:
    """Tokens and certificates are judged by clocks that must not be a minute apart."""
    ahead = {
        node.name: facts.epoch - facts.received_at
        for node, facts in inputs.members()
        if facts.epoch is not None and facts.received_at is not None
    }
    if len(ahead) < 2:
        yield Skipped("fewer than two clocks were read")
        return
    # Facts are a few seconds old when they arrive; chrony knows its own error better.
    kept = {
        node.name: float(offset)
        for node, facts in inputs.members()
        if (offset := facts.at("clock.offset_seconds")) is not None
    }
    rough, fine = _furthest(ahead), _furthest(kept) if kept else None
    error = max(filter(None, (rough, fine)))
    warning = rough if rough.seconds > ANSWER_SECONDS else fine
    if error.seconds >= SPREAD_ERROR_SECONDS:
        yield Finding(
            error.node,
            "clock_spread",
            "error",
            f"a clock {error.seconds:.0f} s away from that of {error.other}",
            f"less than {SPREAD_ERROR_SECONDS:.0f} s between any two nodes",
            inputs.ssh(inputs.site.node(error.node), "chronyc tracking"),
        )
    elif warning is not None and warning.seconds > SPREAD_WARNING_SECONDS:
        yield Finding(
            warning.node,
            "clock_spread",
            "warning",
            f"a clock {warning.seconds:.1f} s away from that of {warning.other}",
            f"less than {SPREAD_WARNING_SECONDS:.0f} s: a larger difference breaks logins",
            inputs.ssh(inputs.site.node(warning.node), "chronyc tracking"),
        )
    else:
        within = fine.seconds if fine else 0.0
        yield f"{len(ahead)} nodes; chrony keeps {len(kept)} of them within {within:.3f} s"
