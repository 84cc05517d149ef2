"""Which members of etcd are defragmented, in which order, and what forbids it.

A member does not answer while it is defragmented. So it is one member at a time, the leader last,
and only while all of them are healthy. What must not be here: asking etcd.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from appliance.model.components.base.subject import size
from appliance.model.upkeep.care.items import Item

NOSPACE: Final = "NOSPACE"
FREE_PAGES: Final = "free pages of etcd's database"
# Below both, a defragmentation is not worth that a member is silent meanwhile.
LEAST_BYTES: Final = 16 << 20
LEAST_SHARE: Final = 0.2
# With an alarm every free page counts.
LEAST_BYTES_ALARMED: Final = 1 << 20
# At this share of its quota a member would raise the alarm again soon.
FULL: Final = 0.95


@dataclass(frozen=True)
class MemberSpace:
    """One member of etcd and its database.

    Attributes:
        node: the control-plane node that was asked.
        member: its own identity, hexadecimal.
        leader: the identity of the leader that it follows; empty: none.
        healthy: apart from an alarm for space.
        revision: of its keyspace.
        size_bytes: of its database on disk.
        used_bytes: the part of it that is no free page.
        quota_bytes: at which it raises the alarm; None: unknown.
        alarms: raised for it, e.g. ``NOSPACE``.
        members: how many members it lists.
    """

    node: str
    member: str
    leader: str
    healthy: bool
    revision: int
    size_bytes: int
    used_bytes: int
    quota_bytes: int | None = None
    alarms: tuple[str, ...] = ()
    members: int = 1
    learner: bool = False

    @property
    def leads(self) -> bool:
        """Whether it is the leader."""
        return self.member == self.leader

    @property
    def free_bytes(self) -> int:
        """What a defragmentation gives back to the disk."""
        return max(0, self.size_bytes - self.used_bytes)

    def is_due(self, *, alarmed: bool) -> bool:
        """Whether its free pages are worth a defragmentation."""
        if alarmed:
            return self.free_bytes >= LEAST_BYTES_ALARMED
        enough = self.free_bytes >= LEAST_SHARE * self.size_bytes
        return self.free_bytes >= LEAST_BYTES and enough

    @property
    def is_full(self) -> bool:
        """Whether the alarm would come again soon, if it were disarmed now."""
        return self.quota_bytes is not None and self.size_bytes >= FULL * self.quota_bytes


def alarmed(found: Sequence[MemberSpace]) -> bool:
    """Whether etcd refuses writes, because a member had no space."""
    return any(NOSPACE in one.alarms for one in found)


def forbidden(found: Sequence[MemberSpace], expected: int, silent: Sequence[str] = ()) -> str:
    """Why no member may be touched; empty where nothing forbids it.

    Args:
        found: the members that answered.
        expected: how many control-plane nodes the site has.
        silent: a sentence for each that did not answer.
    """
    return next(_obstacles(found, expected, silent), "")


def _obstacles(found: Sequence[MemberSpace], expected: int, silent: Sequence[str]) -> Iterator[str]:
    yield from silent
    yield from (
        f"{one.node}: its member of etcd is not healthy" for one in found if not one.healthy
    )
    yield from (f"{one.node}: its member of etcd is joining still" for one in found if one.learner)
    for alarm in (alarm for one in found for alarm in one.alarms if alarm != NOSPACE):
        yield f"etcd has the alarm {alarm}, which no clean-up heals"
    if len({one.leader for one in found}) != 1 or not found[0].leader:
        yield "the members of etcd name no common leader"
    elif found[0].leader not in {one.member for one in found}:
        yield "the leader of etcd is on no control-plane node of the site"
    if len({one.member for one in found}) != len(found):
        yield "two control-plane nodes of the site answer as the same member of etcd"
    listed = {one.members for one in found}
    if listed != {expected} or len(found) != expected:
        numbers = ", ".join(str(number) for number in sorted(listed))
        yield f"etcd lists {numbers} members, and the site has {expected} control-plane nodes"


def next_due(found: Sequence[MemberSpace], *, urgent: bool) -> MemberSpace | None:
    """The member to defragment next: a follower first; None where none is due.

    Args:
        found: as they are now; the leader may have changed since the last one.
        urgent: etcd had the alarm when the command began.
    """
    due = [one for one in found if one.is_due(alarmed=urgent)]
    return min(due, key=lambda one: (one.leads, one.node), default=None)


def etcd_items(found: Sequence[MemberSpace], obstacle: str) -> tuple[Item, ...]:
    """One for each member: the free pages of its database."""
    urgent = alarmed(found)
    return tuple(_item(one, obstacle, urgent=urgent) for one in found)


def _item(one: MemberSpace, obstacle: str, *, urgent: bool) -> Item:
    free = one.free_bytes
    # A compaction frees more than what is free now.
    goes = not obstacle and (urgent or one.is_due(alarmed=False))
    held = size(one.size_bytes) + (f" of {size(one.quota_bytes)}" if one.quota_bytes else "")
    if obstacle:
        why = obstacle
    elif urgent:
        why = f"{held}: etcd has the alarm NOSPACE and refuses writes: old revisions go as well"
    elif goes:
        why = f"{held}: {free / one.size_bytes:.0%} of it is free pages"
    else:
        why = f"{held}: too few are free to be worth a defragmentation"
    return Item("etcd", one.node, FREE_PAGES, free, goes, why)
