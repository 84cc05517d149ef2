"""etcd's members, and whether one of them may go.

etcd writes while more than half of its members answer. Taking a member out changes both numbers, so
the question is always about the members that stay. What must not be here: asking etcd.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class EtcdMember:
    """One member as etcd itself lists it.

    Attributes:
        id: hexadecimal, without 0x.
        name: the node's; empty for a member that was announced and never started.
        peer: its first peer address, ``https://198.51.100.11:2380``.
        healthy: its own /health says so.
        learner: it has no vote yet.
    """

    id: str
    name: str
    peer: str
    healthy: bool
    learner: bool = False

    @property
    def address(self) -> str:
        """The address of its node."""
        return self.peer.partition("//")[2].rpartition(":")[0].strip("[]")


@dataclass(frozen=True)
class Verdict:
    """Whether a member may go, and why not.

    Attributes:
        member: the one in question; None when etcd has none there.
        seen: what speaks against it, in words; empty when it may go.
        expected: what would be needed.
        notice: what an operator should know, although it may go; or empty.
    """

    member: EtcdMember | None
    seen: str = ""
    expected: str = ""
    notice: str = ""

    @property
    def may_go(self) -> bool:
        """Whether the member may be removed, or is not there."""
        return not self.seen


def majority(voters: int) -> int:
    """How many members must answer."""
    return voters // 2 + 1


def may_go(members: Sequence[EtcdMember], address: str) -> Verdict:
    """Whether the member of a node may be taken out of etcd.

    Args:
        members: as etcd lists them, each asked for its health.
        address: of the node that is to go.
    """
    member = next((one for one in members if one.address == address), None)
    if member is None:
        return Verdict(None)
    voters = [one for one in members if not one.learner]
    if member.learner:
        return Verdict(member)
    alive = sum(one.healthy for one in voters)
    if alive < majority(len(voters)):
        return Verdict(
            member,
            f"{alive} of etcd's {len(voters)} members healthy: it cannot take a change of members",
            f"{majority(len(voters))} healthy ones",
        )
    staying = [one for one in voters if one is not member]
    if not staying:
        return Verdict(member, "the only member of etcd", "another one, which has the data too")
    left = sum(one.healthy for one in staying)
    needed = majority(len(staying))
    if left < needed:
        sick = ", ".join(one.name or one.address for one in staying if not one.healthy)
        return Verdict(
            member,
            f"{left} of the {len(staying)} members that would stay healthy ({sick} not)",
            f"{needed} healthy ones, else etcd stands still without it",
        )
    spare = left - needed
    return Verdict(
        member,
        notice=""
        if spare
        else f"of the {len(staying)} members that stay none may fail until another one joins",
    )
