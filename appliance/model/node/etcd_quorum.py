"""etcd's members, and whether one of them may be removed.

etcd writes while more than half of its members answer. Removing a member changes both
numbers, so the remaining members decide. What must not be here: asking etcd.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from appliance.model.site.groups import majority


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
class QuorumVerdict:
    """Whether an etcd member may be removed, and why not.

    Attributes:
        member: the one in question; None when etcd has none there.
        seen: the obstacle, in words; empty if it may be removed.
        expected: what would be needed.
        hint: what to do about it.
        notice: what an operator should know although it may be removed; or empty.
    """

    member: EtcdMember | None
    seen: str = ""
    expected: str = ""
    hint: str = "repair the other etcd members first: appliance status"
    notice: str = ""

    @property
    def may_go(self) -> bool:
        """Whether the member may be removed, or is not there."""
        return not self.seen


def may_go(members: Sequence[EtcdMember], address: str, name: str) -> QuorumVerdict:
    """Whether the member of a node may be removed from etcd.

    kubeadm names a member after its node, so the inventory's address alone does not decide.

    Args:
        members: as etcd lists them, each asked for its health; none for a worker.
        address: of the node that is to go, as the inventory has it.
        name: of that node.
    """
    member = next((one for one in members if one.address == address), None)
    elsewhere = [one for one in members if one.name == name and one.address != address]
    # One that never started has no name yet.
    if member is not None and member.name not in ("", name):
        return _misplaced(member, address, name)
    if member is None and elsewhere:
        return _misplaced(elsewhere[0], address, name)
    if member is None:
        nowhere = f"etcd lists no member with its name, nor one at {address}" if members else ""
        return QuorumVerdict(None, notice=nowhere)
    verdict = _of_the_majority(members, member)
    if not elsewhere:
        return verdict
    other = ", ".join(f"{one.id} at {one.address}" for one in elsewhere)
    more = f"etcd has another member of this name, which is not removed: {other}"
    return replace(verdict, notice="; ".join(text for text in (verdict.notice, more) if text))


def _misplaced(found: EtcdMember, address: str, name: str) -> QuorumVerdict:
    return QuorumVerdict(
        None,
        f"its member {found.name} at {found.address}",
        f"the member {name} at {address}, the address in host_vars/{name}.yml",
        f"set the address in host_vars/{name}.yml to the one in the cluster (kubectl get node "
        f"{name} -o wide), then run the same command again; change the address after the removal",
    )


def _of_the_majority(members: Sequence[EtcdMember], member: EtcdMember) -> QuorumVerdict:
    voters = [one for one in members if not one.learner]
    if member.learner:
        return QuorumVerdict(member)
    alive = sum(one.healthy for one in voters)
    if alive < majority(len(voters)):
        return QuorumVerdict(
            member,
            f"{alive} of etcd's {len(voters)} members healthy: no quorum to change its members",
            f"at least {majority(len(voters))} healthy members",
        )
    staying = [one for one in voters if one is not member]
    if not staying:
        return QuorumVerdict(member, "the only member of etcd", "another member with the same data")
    left = sum(one.healthy for one in staying)
    needed = majority(len(staying))
    if left < needed:
        sick = ", ".join(one.name or one.address for one in staying if not one.healthy)
        return QuorumVerdict(
            member,
            f"{left} of the {len(staying)} remaining members healthy ({sick} unhealthy)",
            f"at least {needed} healthy members, or etcd loses its quorum",
        )
    spare = left - needed
    return QuorumVerdict(
        member,
        notice=""
        if spare
        else f"none of the {len(staying)} remaining etcd members may fail until another one joins",
    )
