"""Decides who holds a site's lock, from the votes of its control-plane nodes.

Each control-plane node votes for the command whose lock file it has. Only a majority of all nodes
(not of those that answer) holds the lock. What must not be here: the files, the nodes, the clock.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Literal

from appliance.model.control.later_tool import Writer
from appliance.model.documents.strict_json import Unreadable
from appliance.model.documents.typed_json import Line, read_typed
from appliance.model.site.groups import majority

# The heartbeat of the holder, and the age at which a vote expires. The holder stops earlier, so
# that two commands never hold the lock at the same time.
BEAT_SECONDS = 10.0
SILENT_SECONDS = 90.0
EXPIRY_SECONDS = 120.0

# Of a longer lock file only the run is read.
_MOST_BYTES = 64 << 10
_LONGEST_RUN = 100
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")

State = Literal["ours", "open", "held", "contended", "away", "few"]


@dataclass(frozen=True)
class Origin:
    """The process that holds a lock; its own machine can check whether it is still alive.

    Attributes:
        boot: boot id of the operator's machine, new after each boot.
        namespace: the PID namespace; a container has its own.
        pid: the process id in that namespace.
        started: clock ticks after the boot; distinguishes processes with the same pid.
        uid: the user id of the process.
        machine: digest that differs between clones of a machine; empty in older locks.
    """

    boot: Line = ""
    namespace: Line = ""
    pid: int = 0
    started: int = 0
    uid: int = 0
    machine: str = ""


@dataclass(frozen=True)
class Holder:
    """The holder of a site, from the lock file.

    Attributes:
        run: id of the run, which identifies the holder.
        since: UTC, ISO 8601, by the clock of ``host``.
        arguments: the arguments for a rerun of the command, without the site.
    """

    run: Line
    command: Line = "a command"
    operator: Line = "an unknown operator"
    host: Line = "an unknown host"
    reason: str = ""
    since: Line = "an unknown time"
    origin: Origin = field(default_factory=Origin)
    arguments: tuple[Line, ...] = ()
    tool_version: Line = ""

    def as_line(self) -> str:
        """The lock file: the run's id, a space, one line of JSON."""
        return f"{self.run} {json.dumps(asdict(self), sort_keys=True)}\n"

    def sentence(self) -> str:
        """The command, its reason, operator, host and start."""
        why = f" ({self.reason})" if self.reason else ""
        return f"{self.command}{why} by {self.operator} on {self.host} since {self.since}"


def read_holder(line: str) -> Holder:
    """The inverse of :meth:`Holder.as_line`; of an invalid line, only the run."""
    run, _, text = line.strip().partition(" ")
    run = _CONTROL.sub("?", run)[:_LONGEST_RUN]
    try:
        return replace(read_typed(text, Holder, most_bytes=_MOST_BYTES), run=run)
    except Unreadable:
        return Holder(run)


@dataclass(frozen=True)
class Vote:
    """The vote of one control-plane node.

    Attributes:
        holder: the holder in its lock file, or None.
        age_seconds: seconds since the last renewal, by the node's uptime.
        last: the last holder that released the lock, or None.
        last_age_seconds: seconds since that release.
    """

    holder: Holder | None = None
    age_seconds: float = 0.0
    last: Holder | None = None
    last_age_seconds: float = math.inf


@dataclass(frozen=True)
class NoVote:
    """Why a control-plane node gave no vote.

    Attributes:
        answered: the node was reached, but could not write or read its lock.
    """

    why: str
    answered: bool = False


Votes = Mapping[str, Vote | NoVote]


def read_vote(text: str) -> Vote:
    """Read the output of a node's script: ``now``, ``holder``, ``beat``, ``last``, ``left`` lines.

    ``now``, ``beat`` and ``left`` are ``<boot id> <uptime in seconds>``. A time of an earlier boot
    is at least as old as the current boot.

    Raises:
        ValueError: the output has another form.
    """
    fields = {key: rest for key, _, rest in (line.partition(" ") for line in text.splitlines())}
    if "now" not in fields:
        raise ValueError(f"unexpected output {text.strip()[:200]!r}")
    boot, _, uptime = fields["now"].partition(" ")
    if not math.isfinite(float(uptime)):
        raise ValueError(f"its uptime is {uptime}")

    def age(key: str) -> float:
        then, _, at = fields.get(key, "").partition(" ")
        if not at:
            return math.inf
        up = _seconds(uptime)
        return max(0.0, up - _seconds(at)) if then == boot else up

    holder, last = fields.get("holder", ""), fields.get("last", "")
    return Vote(
        read_holder(holder) if holder else None,
        age("beat") if holder else 0.0,
        read_holder(last) if last else None,
        age("left") if last else math.inf,
    )


def _seconds(text: str) -> float:
    seconds = float(text)
    if not math.isfinite(seconds):
        raise ValueError(f"found {text!r}, expected seconds")
    return seconds


@dataclass(frozen=True)
class LockVerdict:
    """The result of all votes.

    Attributes:
        state: ``ours``: we have a majority; ``open``: we can get one; ``held``: another command
            has it; ``contended``: no command has it, and others are taking it now; ``away``: no
            control-plane node answers; ``few``: too few nodes voted.
        ours: nodes that voted for us.
        stale: node -> the holder whose vote there has expired.
        rival: the other command with most of the valid votes, or None.
        faults: node -> why it gave no vote.
    """

    state: State
    ours: tuple[str, ...] = ()
    stale: Mapping[str, Holder] = field(default_factory=dict)
    rival: Holder | None = None
    faults: Mapping[str, NoVote] = field(default_factory=dict)


def judge(votes: Votes, me: str, is_dead: Callable[[Holder], bool]) -> LockVerdict:
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
    return LockVerdict(state, ours, stale, rival, faults)


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


def writers(votes: Votes) -> Iterator[Writer]:
    """The versions of this tool that changed the site last, as the locks name them."""
    for node, vote in votes.items():
        for holder in (vote.last, vote.holder) if isinstance(vote, Vote) else ():
            if holder:
                yield Writer(holder.tool_version, holder.host, f"the lock on {node}")


def _same(one: Holder, other: Holder) -> bool:
    """Whether two holders are one process."""
    return one.run == other.run or (one.origin == other.origin and one.origin.pid != 0)
