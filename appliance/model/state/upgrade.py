"""The mark of an upgrade that is under way: an annotation on every control-plane Node object.

Every look at the cluster reads it, so each command on each laptop knows of the upgrade. What must
not be here: the upgrade's path (:mod:`appliance.model.upgrade`).
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Final

from pydantic import Field

from appliance.model.documents.strict_json import Unreadable
from appliance.model.documents.typed_json import Line, read_typed
from appliance.model.state.cluster.cluster import Cluster, ClusterState

ANNOTATION: Final = "appliance.dev/upgrade"
# The reason of a maintenance that an upgrade began; the release follows.
REASON: Final = "upgrade to "
_MOST_BYTES: Final = 64 << 10
# What names of snapshots may add on the way.
_SPARE_BYTES: Final = 8 << 10


@dataclass(frozen=True)
class UpgradeMark:
    """What the annotation says.

    Attributes:
        release: to which release.
        since: when it began, UTC, ISO 8601.
        by: the user who began it, and on which machine.
        without: workers that were left out by name.
        over: the rest is done; only the workers that were left out lack the release.
        accepted: names of settings whose loss was accepted.
        snapshots: ``RELEASE NODE PATH`` of each snapshot of etcd that was restored once, saved
            before the first change of a release of the path.
        before: the release of site.yml when it began; empty where nobody noted it.
        window_days: a certificate with fewer days left stops the upgrade; 0 for a week or less.
        former: the mark of the upgrade before, which is over and left workers out; it counts again
            where this one is dropped. None where none were, or nobody noted it.
    """

    release: Line
    since: Line
    by: Line
    without: tuple[Line, ...] = ()
    over: bool = False
    accepted: tuple[Line, ...] = ()
    snapshots: tuple[Line, ...] = ()
    before: Line = ""
    window_days: Annotated[float, Field(ge=0, le=3660, allow_inf_nan=False)] = 0.0
    former: UpgradeMark | None = None

    def as_text(self) -> str:
        """The annotation's value."""
        # Tools of before know neither: they read the mark of a short window, without a former one.
        newer = ("window_days", "former")
        said = {name: one for name, one in asdict(self).items() if name not in newer or one}
        return json.dumps(said, sort_keys=True, separators=(",", ":"))

    def ended(self, without: tuple[str, ...]) -> UpgradeMark:
        """The mark when all but these workers have the release."""
        return replace(self, over=True, without=without, former=None)

    def snapshot_of(self, release: str) -> str:
        """``RELEASE NODE PATH`` of the snapshot before a release of the path; empty: none."""
        return next((one for one in self.snapshots if one.split(" ")[0] == release), "")

    @property
    def id(self) -> str:
        """A word for this upgrade, as names of files have it; another one has another word."""
        return re.sub(r"[^0-9A-Za-z]", "", self.since)[:40] or "unknown"

    @property
    def is_readable(self) -> bool:
        """Whether this version understands it; a later one may have written it."""
        return bool(self.release)

    def sentence(self) -> str:
        """What is under way, in words."""
        if not self.is_readable:
            return f"an upgrade whose mark cannot be read (annotation {ANNOTATION})"
        if self.over:
            return f"upgraded to {self.release} without {', '.join(self.without)}"
        return f"an upgrade to {self.release} is under way since {self.since} (begun by {self.by})"

    @property
    def command(self) -> str:
        """The command that ends it."""
        if not self.is_readable:
            return "use the version of this tool that began it: appliance cluster upgrade"
        # Whoever may write the annotation chooses the word, and people paste the command.
        return f"appliance cluster upgrade --to {shlex.quote(self.release)}"


UNREADABLE: Final = UpgradeMark("", "", "")


def mark_of(cluster: ClusterState) -> UpgradeMark | None:
    """The mark on the control-plane nodes; None without one.

    Where they differ the one that began last counts: a write may not have reached every node. One
    of another form counts before all others: an upgrade of which nothing is known is no upgrade
    that is over.
    """
    nodes = cluster.nodes.values() if isinstance(cluster, Cluster) else ()
    texts = [node.annotations.get(ANNOTATION) for node in nodes if node.control_plane]
    found = [_read(text) for text in texts if text is not None]
    return max(
        found, key=lambda mark: (not mark.is_readable, mark.since, not mark.over), default=None
    )


def owed_before(last: UpgradeMark | None, to: str) -> UpgradeMark | None:
    """What an upgrade to a release keeps of the mark that it replaces: workers that lack another.

    Args:
        last: the mark that is there; None without one.
        to: the release of the upgrade that begins or goes on.
    """
    if last is None or last.release == to:
        return last.former if last else None
    former = replace(last, former=None)
    # One that is too long together is not noted: the mark itself has to be read back.
    is_short = len(former.as_text().encode()) < _SPARE_BYTES // 2
    return former if last.over and last.without and is_short else None


def with_snapshot(snapshots: Sequence[str], new: str) -> tuple[str, ...]:
    """The snapshots of a mark with another one, in place of that before the same release.

    Args:
        snapshots: ``RELEASE NODE PATH`` of each.
        new: likewise; empty: none was saved.
    """
    release = new.partition(" ")[0]
    kept = [one for one in snapshots if one.partition(" ")[0] != release]
    return (*kept, *filter(None, (new,)))


def can_be_read_back(mark: UpgradeMark) -> bool:
    """Whether a mark that is to be written, with more snapshots, would be understood."""
    return _read(mark.as_text(), _MOST_BYTES - _SPARE_BYTES).is_readable


def _read(text: str, most_bytes: int = _MOST_BYTES) -> UpgradeMark:
    try:
        # Other clients may write it too, so it is not trusted.
        return read_typed(text, UpgradeMark, most_bytes=most_bytes)
    except Unreadable:
        return UNREADABLE
