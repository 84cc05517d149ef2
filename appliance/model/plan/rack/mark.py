"""The mark of a rack that was taken down: who did it, when, why, and how far it got.

It stands as an annotation on the control planes, without what grows with the rack, and whole in a
record on the machine that runs the command: that one is readable while the rack is off. What was
cordoned is not here: each Node object says it by its own annotation of a maintenance.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Final, Literal

from appliance.model.documents.strict_json import Unreadable
from appliance.model.documents.typed_json import Line, NodeName, read_typed
from appliance.model.state.facts.identity import MachineIdentity
from appliance.model.state.nodes.maintenance import Maintenance, Moment

ANNOTATION: Final = "appliance.dev/rack"
# How the reason of each node's maintenance begins; rack up returns exactly these.
REASON: Final = "rack down"
_MOST_BYTES: Final = 4 << 20
Phase = Literal["workloads", "power off", "control plane", "down"]


@dataclass(frozen=True)
class RackMark:
    """The mark.

    Attributes:
        run: the run that began it.
        by: the user who ran it.
        host: the name of that user's machine.
        since: when it began, UTC, ISO 8601.
        phase: what the run was about to do when it wrote this; ``down`` at the end.
        reason: why, in the operator's words.
        asked: node -> when it was about to be asked to power off.
        ordered: node -> when it had accepted that.
        machines: node -> the machine that was accepted under its name.
        snapshot: where the snapshot of etcd is; empty before it is made.
    """

    run: Line
    by: Line
    host: Line
    since: Moment
    phase: Phase
    reason: Line = ""
    asked: Mapping[NodeName, Moment] = field(default_factory=dict)
    ordered: Mapping[NodeName, Moment] = field(default_factory=dict)
    machines: Mapping[NodeName, MachineIdentity] = field(default_factory=dict)
    snapshot: Line = ""

    def as_text(self) -> str:
        """The record."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))

    def annotation(self) -> str:
        """The annotation: a record without what it keeps of each node."""
        return replace(self, asked={}, ordered={}, machines={}).as_text()

    @property
    def is_past_workloads(self) -> bool:
        """Whether control planes may be off, so that the API need not answer."""
        return self.phase in ("control plane", "down")

    def about_to_ask(self, node: str, when: str) -> RackMark:
        """The record right before a node is asked to power off."""
        ordered = {name: at for name, at in self.ordered.items() if name != node}
        return replace(self, asked={**self.asked, node: when}, ordered=ordered)

    def accepted(self, node: str, when: str) -> RackMark:
        """The record after it accepted that."""
        return replace(self, ordered={**self.ordered, node: when})

    def refused(self, node: str) -> RackMark:
        """The record after it refused."""
        return replace(self, asked={name: at for name, at in self.asked.items() if name != node})

    def order_of(self, node: str) -> str | None:
        """When the node took the order to power off, in words; None when it took none."""
        if node in self.ordered:
            return self.ordered[node]
        if node in self.asked:
            return f"{self.asked[node]} (sent then; its answer is not recorded)"
        return None

    def sentence(self) -> str:
        """Who took the rack down, when and why."""
        done = "is down" if self.phase == "down" else f"is being taken down ({self.phase})"
        reason = f": {self.reason}" if self.reason else ""
        return f"the rack {done}: by {self.by} on {self.host} since {self.since}{reason}"


def parse_mark(text: str | None) -> RackMark | None:
    """Read a mark; None without one, or for one of another form."""
    try:
        # Whoever may write Node objects can write it, so it is not trusted.
        return read_typed(text, RackMark, most_bytes=_MOST_BYTES) if text else None
    except Unreadable:
        return None


def reason_of(why: str) -> str:
    """The reason of each node's maintenance."""
    return f"{REASON}: {why}" if why else REASON


def is_ours(mark: Maintenance | None) -> bool:
    """Whether a node's maintenance is of a rack that was taken down."""
    return mark is not None and (mark.reason == REASON or mark.reason.startswith(f"{REASON}: "))
