"""Who may change a site: what the control-plane nodes say of its lock, judged.

Each control-plane node has one vote, which it gives to the command whose lock file it holds. Only a
majority of all of them (not of those that answer) is the lock. What must not be here: the files,
the nodes, the clock.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Literal

from appliance.model.strict_json import Unreadable
from appliance.model.typed_json import Line, read_typed

# The holder renews its votes this often; a vote that was not renewed for so long is nobody's. The
# holder itself stops earlier, so that two never believe at the same time that the site is theirs.
BEAT_SECONDS = 10.0
SILENT_SECONDS = 90.0
EXPIRY_SECONDS = 120.0

# A holder that says more is read by its run alone.
_MOST_BYTES = 64 << 10
_LONGEST_RUN = 100
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")

State = Literal["ours", "open", "held", "contended", "away", "few"]


@dataclass(frozen=True)
class Origin:
    """The process that holds a lock, so that its own machine can tell whether it still lives.

    Attributes:
        boot: boot id of the operator's machine; another one after each start.
        namespace: of the process ids: a container's are not its host's.
        pid: in that namespace.
        started: clock ticks after the boot; tells a process from a later one of the same pid.
        uid: whose it is.
        machine: digest of what tells this machine from a clone of it; empty in older locks.
    """

    boot: Line = ""
    namespace: Line = ""
    pid: int = 0
    started: int = 0
    uid: int = 0
    machine: str = ""


@dataclass(frozen=True)
class Holder:
    """Who holds a site, as the lock file says.

    Attributes:
        run: id of the run; also the name under which it holds the lock.
        since: UTC, ISO 8601, by the clock of ``host``.
        arguments: what has to be typed after the command for the same, without the site.
    """

    run: Line
    command: Line = "a command"
    operator: Line = "somebody"
    host: Line = "an unknown host"
    reason: str = ""
    since: Line = "a time it does not say"
    origin: Origin = field(default_factory=Origin)
    arguments: tuple[Line, ...] = ()

    def as_line(self) -> str:
        """The lock file: the run's id, a space, one line of JSON."""
        return f"{self.run} {json.dumps(asdict(self), sort_keys=True)}\n"

    def sentence(self) -> str:
        """Who, where, what, why and since when."""
        why = f" ({self.reason})" if self.reason else ""
        return f"{self.command}{why} by {self.operator} on {self.host} since {self.since}"


def read_holder(line: str) -> Holder:
    """The inverse of :meth:`Holder.as_line`; of a foreign line, only the name it holds by."""
    run, _, text = line.strip().partition(" ")
    run = _CONTROL.sub("?", run)[:_LONGEST_RUN]
    try:
        return replace(read_typed(text, Holder, most_bytes=_MOST_BYTES), run=run)
    except Unreadable:
        return Holder(run)


@dataclass(frozen=True)
class Vote:
    """What one control-plane node says.

    Attributes:
        holder: whose lock file it holds, or None.
        age_seconds: since the holder renewed it, by the node's own uptime.
        last: who gave the lock back last, or None.
        last_age_seconds: since then.
    """

    holder: Holder | None = None
    age_seconds: float = 0.0
    last: Holder | None = None
    last_age_seconds: float = math.inf


@dataclass(frozen=True)
class NoVote:
    """Why a control-plane node gave no vote.

    Attributes:
        answered: it was reached, and could not write or read its lock.
    """

    why: str
    answered: bool = False


Votes = Mapping[str, Vote | NoVote]


def read_vote(text: str) -> Vote:
    """Read what a node's script says: ``now``, ``holder``, ``beat``, ``last``, ``left`` lines.

    ``now``, ``beat`` and ``left`` are ``<boot id> <uptime in seconds>``. A time of an earlier boot
    is at least as old as the present one.

    Raises:
        ValueError: it is nothing of the kind.
    """
    said = {key: rest for key, _, rest in (line.partition(" ") for line in text.splitlines())}
    if "now" not in said:
        raise ValueError(f"it said {text.strip()[:200]!r}")
    boot, _, uptime = said["now"].partition(" ")
    if not math.isfinite(float(uptime)):
        raise ValueError(f"its uptime is {uptime}")

    def age(key: str) -> float:
        then, _, at = said.get(key, "").partition(" ")
        if not at:
            return math.inf
        up = _seconds(uptime)
        return max(0.0, up - _seconds(at)) if then == boot else up

    holder, last = said.get("holder", ""), said.get("last", "")
    return Vote(
        read_holder(holder) if holder else None,
        age("beat") if holder else 0.0,
        read_holder(last) if last else None,
        age("left") if last else math.inf,
    )


def _seconds(text: str) -> float:
    found = float(text)
    if not math.isfinite(found):
        raise ValueError(f"it said {text!r} in place of seconds")
    return found


@dataclass(frozen=True)
class Verdict:
    """What follows from all votes.

    Attributes:
        state: ``ours``: a majority is ours; ``open``: it can be; ``held``: another command has it;
            ``contended``: nobody has it, and others are taking it at this moment; ``away``: no
            control-plane node answers; ``few``: too few gave a vote.
        ours: nodes whose vote is ours.
        stale: node -> the holder whose vote there counts no more.
        rival: the other command that has most of the votes that count, or None.
        faults: node -> why it gave no vote.
    """

    state: State
    ours: tuple[str, ...] = ()
    stale: Mapping[str, Holder] = field(default_factory=dict)
    rival: Holder | None = None
    faults: Mapping[str, NoVote] = field(default_factory=dict)


def majority(nodes: int) -> int:
    """How many of so many nodes make a majority."""
    return nodes // 2 + 1


def judge(votes: Votes, me: str, is_dead: Callable[[Holder], bool]) -> Verdict:
    """Say whose the site is.

    Args:
        votes: every control-plane node of the site -> its vote, or why it gave none.
        me: the run that asks.
        is_dead: whether a holder is known to be dead, however young its lock is.
    """
    given = {node: vote for node, vote in votes.items() if isinstance(vote, Vote)}
    faults = {node: none for node, none in votes.items() if isinstance(none, NoVote)}
    need = majority(len(votes))
    ours = tuple(node for node, v in given.items() if v.holder and v.holder.run == me)
    others = {node: v for node, v in given.items() if v.holder and v.holder.run != me}
    stale = {
        node: vote.holder
        for node, vote in others.items()
        if vote.holder and (vote.age_seconds > EXPIRY_SECONDS or is_dead(vote.holder))
    }
    rivals = [vote.holder for node, vote in others.items() if vote.holder and node not in stale]
    most = Counter(holder.run for holder in rivals).most_common(1)
    rival = next((holder for holder in rivals if holder.run == most[0][0]), None)
    state: State = "open"
    if not given and not any(none.answered for none in faults.values()):
        state = "away"
    elif len(ours) >= need:
        state = "ours"
    elif most and most[0][1] >= need:
        state = "held"
    elif len(given) < need:
        state = "few"
    elif len(given) - len(rivals) < need:
        state = "contended"
    return Verdict(state, ours, stale, rival, faults)


def changed_meanwhile(
    votes: Votes, stale: Collection[str], me: Holder, looked_seconds: float
) -> Holder | None:
    """Who had the site after we began to look at it, so that our plan may be of yesterday.

    Args:
        votes: as they were before a stale one was taken over.
        stale: nodes whose vote is to be taken over.
        me: who asks; an earlier run of the same process is no other.
        looked_seconds: how long ago its first look began.
    """
    for node, vote in votes.items():
        if isinstance(vote, NoVote):
            continue
        last = vote.last
        if last and vote.last_age_seconds < looked_seconds and not _same(last, me):
            return last
        # A lock that was renewed since then had a living holder then, dead as it may be now.
        if node in stale and vote.holder and vote.age_seconds < looked_seconds:
            return vote.holder
    return None


def _same(one: Holder, other: Holder) -> bool:
    """Whether two holders are one process."""
    return one.run == other.run or (one.origin == other.origin and one.origin.pid != 0)
