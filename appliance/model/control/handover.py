"""What another engineer must know about a site before the first command: is work unfinished?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from appliance.model.control.lock import Holder, LockVerdict
    from appliance.model.state.journal import Record

# Commands for one node, which has to be typed again.
NAME_THEIR_NODES = frozenset({"maintain", "return", "remove", "rejoin", "add"})


@dataclass(frozen=True)
class UnfinishedRun:
    """A run that did not come to its end.

    Attributes:
        sentence: whose, on which host, where it stopped and why.
        words: what to type after ``appliance`` to go on.
    """

    run: str
    sentence: str
    words: tuple[str, ...]


@dataclass(frozen=True)
class Handover:
    """How a site was left.

    Attributes:
        unfinished: the last run, when it stopped half-way; None when it did not.
        at_work: who holds the site at this moment, or None.
    """

    unfinished: UnfinishedRun | None
    at_work: Holder | None


def handover(records: Sequence[Record], lock: LockVerdict) -> Handover:
    """Say what was left half-done, from the last run's records and from the lock it left behind.

    Args:
        records: of all machines, oldest first.
        lock: what the control-plane nodes say.
    """
    if lock.state in ("held", "contended") and lock.rival:
        return Handover(None, lock.rival)
    run = max((record.run for record in records), default="")
    left = max(lock.stale.values(), key=lambda holder: holder.run, default=None)
    if left and left.run >= run:
        mine = [record for record in records if record.run == left.run]
        nodes = mine[-1].nodes if mine else ()
        after = f"after step {mine[-1].step}" if mine else "before its first step was recorded"
        said = f"{left.sentence()} was interrupted {after}: it left its lock behind"
        return Handover(UnfinishedRun(left.run, said, _words(left, nodes)), None)
    last = max(
        (record for record in records if record.run == run),
        key=lambda record: record.sequence,
        default=None,
    )
    if last is None or last.outcome == "verified":
        return Handover(None, None)
    where = f" on {last.host}" if last.host else ""
    said = (
        f"{last.command} by {last.operator}{where} since {last.started} stopped in step "
        f"{last.step} on {', '.join(last.nodes)}: {last.outcome}: {last.error}"
    )
    return Handover(UnfinishedRun(last.run, said, _words(last, last.nodes)), None)


def _words(left: Holder | Record, nodes: Sequence[str]) -> tuple[str, ...]:
    """The command as it was typed; of an earlier version's, what its nodes tell."""
    words = tuple(left.command.split())
    if left.arguments or not NAME_THEIR_NODES.intersection(words[-1:]):
        return (*words, *left.arguments)
    return (*words, nodes[0] if len(nodes) == 1 else "NODE")
