"""A node in maintenance: what is written on its Node object, and what follows from it.

The annotation is written before anything else is changed and says what will be ours, so that any
run on any laptop can undo exactly that. What must not be here: deciding who may be evicted (that is
:mod:`appliance.model.drain`).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import AfterValidator, Field

from appliance.errors import LeaseLost
from appliance.model.cluster import Cluster
from appliance.model.strict_json import Unreadable
from appliance.model.typed_json import Line, read_typed

if TYPE_CHECKING:
    from appliance.model.cluster import ClusterState
    from appliance.model.journal import Run

ANNOTATION: Final = "appliance.dev/maintenance"
# As whom this tool writes it.
MANAGER: Final = "appliance"
# The reason that a removal gives for its cordon.
REMOVED: Final = "it is being removed"
# The guide's taint ("Planned maintenance"): kubectl taint nodes NODE runai=drain:NoExecute.
TAINT: Final = "runai=drain:NoExecute"
_MOST_BYTES: Final = 64 << 10
Mode = Literal["taint", "cordon"]
Phase = Literal["cordon", "evict", "taint", "shutdown", "out of service", "return"]
PHASES: Final[tuple[Phase, ...]] = (
    *("cordon", "evict", "taint", "shutdown"),
    *("out of service", "return"),
)


def _moment(text: str) -> str:
    try:
        datetime.fromisoformat(text).timestamp()
    except (OverflowError, OSError) as error:
        raise ValueError("not a moment that can be counted") from error
    return text


Moment = Annotated[str, Field(max_length=64), AfterValidator(_moment)]
Kept = Annotated[str, Field(max_length=500, pattern=r"^[a-z]+(/[A-Za-z0-9][A-Za-z0-9._-]*){1,3}$")]


@dataclass(frozen=True)
class Maintenance:
    """The annotation's content.

    Attributes:
        run: the run that began it.
        by: who typed it.
        host: of that person's machine.
        since: when it began, UTC, ISO 8601.
        until: when the node is to be back, or None without a window.
        mode: whether the node gets the guide's taint beside the cordon.
        phase: what the run was about to do when it wrote it; ``out of service`` when all is done.
        cordoned: the node was schedulable before, so the cordon is ours.
        tainted: the node had no drain taint before, so the taint is ours.
        photograph: name in the archive of the photograph taken before; None when the node was lost.
        lost: it was begun without the node's help.
        ordered: when the machine took the order to power off; None when it took none since.
    """

    run: Line
    by: Line
    host: Line
    since: Line
    mode: Mode
    phase: Phase
    cordoned: bool
    tainted: bool
    reason: str = ""
    until: Moment | None = None
    photograph: Kept | None = None
    lost: bool = False
    ordered: Moment | None = None

    def at(self, phase: Phase) -> Maintenance:
        """The same, about to do the next thing."""
        return replace(self, phase=phase)

    def as_text(self) -> str:
        """The annotation's value."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))

    @property
    def is_under_way(self) -> bool:
        """Whether a run stopped half-way, or is at work now."""
        return self.phase != "out of service"

    def until_after(self, seconds: float | None, now: float) -> str | None:
        """The end of a window that was asked for in a later run; without one, that of before.

        It counts from when the maintenance began, so that the same command asks for the same end;
        where that end is over, from now. ``now`` in UTC.
        """
        if seconds is None:
            return self.until
        try:
            asked = timestamp(datetime.fromisoformat(self.since).timestamp() + seconds)
            is_open = datetime.fromisoformat(asked).timestamp() > now
        except (ValueError, OverflowError, OSError):
            asked, is_open = "", False
        return asked if is_open or asked == self.until else timestamp(now + seconds)

    def overrun_seconds(self, now: float) -> float | None:
        """How long the window has been over; negative while it is open, None without one."""
        if self.until is None:
            return None
        return now - datetime.fromisoformat(self.until).timestamp()

    def sentence(self) -> str:
        """Who, since when, until when and why, for people."""
        until = f" until {self.until}" if self.until else ""
        reason = f": {self.reason}" if self.reason else ""
        return f"in maintenance by {self.by} on {self.host} since {self.since}{until}{reason}"


def maintenance_of(annotations: Mapping[str, str]) -> Maintenance | None:
    """What the annotation says; None without one, or for one that is not ours to read."""
    text = annotations.get(ANNOTATION)
    try:
        # The node's own kubelet may write it.
        return read_typed(text, Maintenance, most_bytes=_MOST_BYTES) if text else None
    except Unreadable:
        return None


def stands_as_ours(
    node: str, annotations: Mapping[str, str], ours: Collection[Maintenance | None]
) -> bool:
    """Whether what is written on a node is one of ``ours``; False where nothing is, nor need be.

    Raises:
        LeaseLost: something else is written there: somebody is at work, or was since.
    """
    found = maintenance_of(annotations)
    if found not in ours:
        raise LeaseLost(
            f"{node}: its maintenance is no longer what this command wrote there",
            hint="see what is at work: appliance status; then run the same command again",
        )
    return found is not None


def removal_of(run: Run, now: float, *, cordoned: bool) -> Maintenance:
    """What is written on a node whose pods leave because it will be removed; ``now`` in UTC."""
    return Maintenance(
        run=run.id,
        by=run.operator,
        host=run.host,
        since=timestamp(now),
        mode="cordon",
        phase="evict",
        cordoned=cordoned,
        tainted=False,
        reason=REMOVED,
    )


def away(cluster: ClusterState) -> Mapping[str, Maintenance]:
    """The nodes in maintenance, with what their annotation says: nobody heals them by the way."""
    nodes = cluster.nodes if isinstance(cluster, Cluster) else {}
    marks = {name: maintenance_of(node.annotations) for name, node in nodes.items()}
    return {name: mark for name, mark in marks.items() if mark is not None}


def timestamp(epoch: float) -> str:
    """UTC seconds as ISO 8601."""
    return datetime.fromtimestamp(epoch, UTC).isoformat(timespec="seconds")


def archived(node: str, run: str) -> str:
    """The name of a photograph in the archive."""
    return f"maintenance/{node}/{run}.json"
