"""The report of one side of a TCP stream between two nodes, and the order for it.

Its program is ``appliance/probe/inspection/stream.py``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import Field, ValidationError

from appliance.model.checks.hardware.found import (
    Count,
    NotHardware,
    Part,
    Positive,
    Text,
    as_written,
    sentence_of,
)
from appliance.model.documents.strict_json import Unreadable, read_json

SCHEMA: Final = 1
KIND: Final = "stream"
MOST_BYTES: Final = 64 * 1024
# Below the ports that a kernel hands out, and beside those of an appliance.
PORT: Final = 7919
SECONDS: Final = 2.0
MOST_SENT: Final = 4 << 30

Role = Literal["serve", "connect"]


class Side(Part):
    """What one node reports of a stream; nothing is filled in.

    Attributes:
        reason: why there was none; None if both directions were measured.
        retransmitted: segments that this side sent again, of ``segments``.
        errors: by how much the counters of the interface grew; of its lower devices, too.
        foreign: connections that were no partner's.
        firewall: what is on at this node.
    """

    role: Role
    reason: Text | None = None
    interface: Text | None = None
    speed_mbps: Count | None = None
    sent_bytes: Count | None = None
    sent_seconds: Positive | None = None
    received_bytes: Count | None = None
    retransmitted: Count | None = None
    segments: Count | None = None
    errors: Count | None = None
    dropped: Count | None = None
    foreign: Count | None = None
    firewall: Annotated[tuple[Text, ...], Field(max_length=16)] = ()

    @property
    def sent_mbps(self) -> float | None:
        """Payload per second that the partner received, in Mb/s."""
        if not self.sent_bytes or not self.sent_seconds or self.reason is not None:
            return None
        return self.sent_bytes * 8 / self.sent_seconds / 1e6


@dataclass(frozen=True)
class Stream:
    """One pair, measured once in both directions.

    Attributes:
        first: connected; ``second`` served.
        sides: node -> its report, or why it gave none.
    """

    first: str
    second: str
    sides: Mapping[str, Side | str]

    def peer(self, node: str) -> str:
        """The other node."""
        return self.second if node == self.first else self.first

    def sent(self, node: str) -> float | None:
        """From this node to the other in Mb/s; None if it was not measured."""
        side = self.sides[node]
        return side.sent_mbps if isinstance(side, Side) else None

    @property
    def slowest(self) -> float | None:
        """The slower direction in Mb/s; None unless both were measured."""
        rates = [self.sent(self.first), self.sent(self.second)]
        return None if None in rates else min(rate for rate in rates if rate is not None)

    @property
    def reason(self) -> str:
        """Why it was not measured, with a firewall that is in sight; empty if it was."""
        if self.slowest is not None:
            return ""
        told = [self._why(node) for node in (self.first, self.second)]
        walls = [
            f"{node}: {', '.join(side.firewall)}"
            for node, side in self.sides.items()
            if isinstance(side, Side) and side.firewall
        ]
        return "; ".join([*filter(None, told), *(f"firewall on {wall}" for wall in walls)])

    def _why(self, node: str) -> str:
        side = self.sides[node]
        if isinstance(side, str):
            return f"{node}: {side}"
        return f"{node}: {side.reason}" if side.reason else ""


def order(role: Role, own: str, peer: str, word: str, *, among_pods: bool) -> str:
    """The order for one side, as its probe reads it."""
    told: dict[str, Any] = {"role": role, "own": own, "peer": peer, "port": PORT, "word": word}
    limits = {"seconds": SECONDS, "most": MOST_SENT, "among_pods": among_pods}
    return json.dumps({**told, **limits}, separators=(",", ":"))


def rounds(nodes: tuple[str, ...]) -> tuple[tuple[tuple[str, str], ...], ...]:
    """Every pair once; the pairs of one round share no node, so they are measured together."""
    names: list[str | None] = [*nodes, *([None] if len(nodes) % 2 else [])]
    found = []
    for _ in range(len(names) - 1):
        half = len(names) // 2
        facing = zip(names[:half], reversed(names[half:]), strict=True)
        found.append(tuple((a, b) for a, b in facing if a is not None and b is not None))
        names = [names[0], names[-1], *names[1:-1]]
    return tuple(found)


def read_side(content: str | bytes) -> Side:
    """Read the text of one report, strictly.

    Raises:
        NotHardware: it exceeds a limit, or a field has the wrong type.
    """
    try:
        document = read_json(content, most_bytes=MOST_BYTES, deepest=4, most_values=200)
    except Unreadable as error:
        raise NotHardware(str(error)) from error
    if not isinstance(document, Mapping):
        raise NotHardware("it is not a JSON object")
    if document.get("schema") != SCHEMA or document.get("kind") != KIND:
        raise NotHardware(f"it is not a report of a stream of schema {SCHEMA}")
    try:
        return Side.model_validate(as_written(document))
    except ValidationError as error:
        raise NotHardware(sentence_of(error)) from error
