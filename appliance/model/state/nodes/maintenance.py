"""A node in maintenance: the annotation on its Node object, and its consequences.

The annotation is written before any other change and lists what the run will change, so that any
run on any laptop can undo exactly that. What must not be here: deciding which pods may be evicted
(that is :mod:`appliance.model.node.drain`).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import AfterValidator, Field

from appliance.errors import LeaseLost
from appliance.model.documents.strict_json import Unreadable
from appliance.model.documents.typed_json import Line, read_typed
from appliance.model.state.cluster.cluster import Cluster, ClusterState

if TYPE_CHECKING:
    from appliance.model.state.journal import Run

ANNOTATION: Final = "appliance.dev/maintenance"
# The field manager of this tool.
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
        by: the user who ran it.
        host: the name of that user's machine.
        since: when it began, UTC, ISO 8601.
        until: when the window ends, or None without a window.
        mode: whether the node gets the guide's taint in addition to the cordon.
        phase: the next action of the run when it wrote this; ``out of service`` at the end.
        cordoned: the node was schedulable before, so the cordon is ours.
        tainted: the node had no drain taint before, so the taint is ours.
        photograph: name in the archive of the facts from before; None when the node was lost.
            The annotations of nodes in service hold this key, so it stays.
        lost: it began while the node was unreachable.
        ordered: when the machine accepted the order to power off; None when it did not.
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
        """Return the same claim in another phase."""
        return replace(self, phase=phase)

    def as_text(self) -> str:
        """The annotation's value."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))

    @property
    def is_under_way(self) -> bool:
        """Whether a run was interrupted, or is still running."""
        return self.phase != "out of service"

    def until_after(self, seconds: float | None, now: float) -> str | None:
        """Return the window's end for a later run; without a new window, the previous end.

        A window counts from the start of the maintenance, so a repeated command gives the same
        end; where that end has passed, it counts from ``now`` (UTC).
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
        """Return how long ago the window ended; negative while it is open, None without one."""
        if self.until is None:
            return None
        return now - datetime.fromisoformat(self.until).timestamp()

    def sentence(self) -> str:
        """Return user, start, end and reason, in words."""
        until = f" until {self.until}" if self.until else ""
        reason = f": {self.reason}" if self.reason else ""
        return f"in maintenance by {self.by} on {self.host} since {self.since}{until}{reason}"


def maintenance_of(annotations: Mapping[str, str]) -> Maintenance | None:
    """Read the annotation; None without one, or for one of another form."""
    text = annotations.get(ANNOTATION)
    try:
        # The node's own kubelet can write it, so it is not trusted.
        return read_typed(text, Maintenance, most_bytes=_MOST_BYTES) if text else None
    except Unreadable:
        return None


def stands_as_ours(
    node: str, annotations: Mapping[str, str], ours: Collection[Maintenance | None]
) -> bool:
    """Whether a node's annotation is one of ``ours``; False where none is needed or present.

    Raises:
        LeaseLost: another command has written the annotation.
    """
    found = maintenance_of(annotations)
    if found not in ours:
        raise LeaseLost(
            f"{node}: another command has changed its maintenance annotation",
            hint="see what is running: appliance status; then run the same command again",
        )
    return found is not None


def removal_of(run: Run, now: float, *, cordoned: bool) -> Maintenance:
    """Return the annotation of a node that is drained for its removal; ``now`` in UTC."""
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
    """Return the nodes in maintenance with their annotation; other commands skip them."""
    nodes = cluster.nodes if isinstance(cluster, Cluster) else {}
    marks = {name: maintenance_of(node.annotations) for name, node in nodes.items()}
    return {name: mark for name, mark in marks.items() if mark is not None}


def timestamp(epoch: float) -> str:
    """UTC seconds as ISO 8601."""
    return datetime.fromtimestamp(epoch, UTC).isoformat(timespec="seconds")


def archived(node: str, run: str) -> str:
    """Return the name of a node's facts in the archive."""
    return f"maintenance/{node}/{run}.json"
