"""The lock of a site: one file on each control-plane node, made if there is none, kept by a beat.

``/var/lib/appliance/lock/`` on a node holds ``holder`` (who; made by link(2), which fails as
``O_EXCL`` does when there is one, and never shows half a file), ``beat`` (the node's boot id and
uptime at the last renewal: no clock can be stepped under it), and ``last`` and ``left``: who gave
the lock back last, and when. Whoever changes any of them holds ``guard`` by flock(1).
"""

from __future__ import annotations

import hashlib
import os
import random
import shlex
import threading
import time
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from appliance.adapters.ssh_call import last_line
from appliance.errors import LeaseLost, NodeUnreachable, Refused
from appliance.model.lease import (
    BEAT_SECONDS,
    SILENT_SECONDS,
    Holder,
    NoVote,
    Origin,
    Verdict,
    Vote,
    Votes,
    changed_meanwhile,
    judge,
    majority,
    read_vote,
)

if TYPE_CHECKING:
    from appliance.adapters.ssh import SshNodes
    from appliance.model.journal import Run
    from appliance.model.site import Node, Site

FOLDER = "/var/lib/appliance/lock"
SECONDS = 15
ATTEMPTS = 6

_SCRIPT = r"""
op={op} me={me} instead={instead}
read -r line
if [ "$op" != look ]; then
  umask 022; mkdir -p {parent} && umask 077 && mkdir -p {folder} || exit 1
fi
read -r boot </proc/sys/kernel/random/boot_id; read -r up rest </proc/uptime
echo "now $boot $up"
cd {folder} 2>/dev/null || {{ [ "$op" = look ] && exit 0; exit 1; }}
[ "$op" = look ] || {{ exec 9>guard && flock -w 5 9; }} || exit 1
who() {{ w=; [ ! -s "$1" ] || read -r w rest <"$1"; }}
put() {{ printf '%s\n' "$2" >"$1.new" && mv -f "$1.new" "$1"; }}
beat() {{ put beat "$boot $up"; }}
take() {{ rm -f holder.new; put line "$line" && ln line holder; s=$?; rm -f line; \
  [ $s = 0 ] && beat; }}
who last; last=$w; who holder
[ -n "$w" ] || {{ [ "$op" = look ] || rm -f holder; }}
case $op in
take) if [ -n "$w" ] && [ "$w" = "$instead" ]; then
    mv -f holder last && {{ mv -f beat left 2>/dev/null || rm -f left; }}; w=; fi
  [ -n "$w" ] || take || exit 1 ;;
beat) if [ "$w" = "$me" ]; then beat || exit 1; fi ;;
keep) if [ "$w" = "$me" ]; then beat || exit 1
  elif [ -z "$w" ] && [ "$last" != "$me" ]; then take || exit 1; fi ;;
undo) [ "$w" != "$me" ] || rm -f holder beat ;;
drop) if [ "$w" = "$me" ]; then mv -f holder last && put left "$boot $up"; rm -f beat; fi ;;
esac
for f in holder beat last left; do
  if [ -s $f ] && read -r text <$f; then printf '%s %s\n' $f "$text"; fi
done
exit 0
"""


class SiteLease:
    """One run's hold on a site, by a majority of its control-plane nodes.

    Args:
        site: whose control-plane nodes keep the lock.
        nodes: SSH to them.
        holder: what the lock is to say.
        looking_since: when the command began to look at the site (:func:`awake_seconds`).
        say: tells the operator a sentence.
    """

    def __init__(
        self,
        site: Site,
        nodes: SshNodes,
        holder: Holder,
        looking_since: float,
        say: Callable[[str], None],
    ) -> None:
        self._masters = site.control_plane
        self._nodes = nodes
        self._holder = holder
        self._looking_since = looking_since
        self._say = say
        self._touched = False
        self._held = False
        self._renewed = 0.0
        self._lost: str | None = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def acquire(self) -> tuple[str, ...]:
        """Take the lock and keep it by a thread; sentences for the journal.

        Where no control-plane node answers there is nobody to ask: the command goes on and is told.

        Raises:
            Refused: another command has the site, or had it while this one looked; or nodes
                answer and cannot keep a lock.
            NodeUnreachable: fewer than a majority answer.
        """
        for attempt in range(ATTEMPTS):
            asked = awake_seconds()
            verdict, notes = self._try()
            if verdict.state == "ours":
                self._keep(asked)
                return notes
            self._undo()
            if verdict.state == "away":
                note = "no control-plane node answers: only this machine's own lock is held"
                self._say(note)
                return (note,)
            if verdict.state == "few":
                raise self._too_few(verdict)
            if verdict.state == "held":
                break
            # Two take it at once and neither has a majority: one of them comes back sooner.
            time.sleep(random.uniform(0.05, 0.3) * (attempt + 1))  # noqa: S311 - a wait, no secret
        raise self._refusal(verdict)

    def require(self) -> None:
        """Make sure that the lock is ours still; costs nothing while the beat goes well.

        Raises:
            LeaseLost: it was taken over, or no majority could be told for too long.
        """
        if not self._held:
            return
        if self._lost is None and awake_seconds() - self._renewed > SILENT_SECONDS:
            self._beat()
            if self._lost is None and awake_seconds() - self._renewed > SILENT_SECONDS:
                self._lost = "no majority of the control-plane nodes answers"
        if self._lost is not None:
            raise LeaseLost(
                f"the site is no longer this command's, so no further step was begun: {self._lost}",
                hint="see what is at work: appliance site adopt; then run the same command again",
            )

    def release(self) -> None:
        """Give the lock back, wherever it was taken; says nothing of nodes that do not answer."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(1)  # a beat that comes after the drop makes nothing anew
        if self._touched:
            self._ask("drop" if self._held else "undo")

    def look(self) -> Verdict:
        """Whose the site is; writes nothing."""
        return judge(self._ask("look"), self._holder.run, is_dead)

    def _try(self) -> tuple[Verdict, tuple[str, ...]]:
        """Take what is free, then what is stale; the verdict, and what was taken over."""
        self._touched = True
        # Before the nodes are asked: a slow answer must not make an older change look recent.
        looked = awake_seconds() - self._looking_since
        before = self._ask("take")
        verdict, me = judge(before, self._holder.run, is_dead), self._holder.run
        if verdict.state not in ("ours", "open"):
            return verdict, ()
        other = changed_meanwhile(before, verdict.stale, self._holder, looked)
        if other is not None:
            self._undo()
            raise Refused(
                f"the site was changed while this command looked at it: {other.sentence()}",
                hint="run the same command again: it looks anew",
            )
        after = dict(before)
        for run in {holder.run for holder in verdict.stale.values()}:
            there = [node for node, holder in verdict.stale.items() if holder.run == run]
            after |= self._ask("take", instead=run, nodes=there)
        # Who gave it back, but could not tell this node, left nothing half-done.
        ended = {v.last.run for v in before.values() if isinstance(v, Vote) and v.last}
        left = [holder for holder in verdict.stale.values() if holder.run not in ended]
        notes = tuple(
            f"took over the lock of {said}"
            for said in dict.fromkeys(holder.sentence() for holder in left)
        )
        verdict = judge(after, me, is_dead)
        if verdict.state == "ours":
            for note in notes:
                self._say(f"{note}: it is dead, or was silent for too long")
        return verdict, notes

    def _undo(self) -> None:
        self._ask("undo")
        self._touched = False

    def _keep(self, since: float) -> None:
        self._held, self._renewed = True, since
        self._thread = threading.Thread(target=self._beats, daemon=True, name="site lock")
        self._thread.start()

    def _beats(self) -> None:
        while not self._stop.wait(BEAT_SECONDS) and self._lost is None:
            self._beat()

    def _beat(self) -> None:
        """Renew the votes; where a node lost the file, and nobody can have taken it, make it."""
        asked = awake_seconds()
        silent = asked - self._renewed
        votes = self._ask("beat" if silent > SILENT_SECONDS else "keep")
        verdict, need = judge(votes, self._holder.run, lambda _: False), majority(len(votes))
        if len(verdict.ours) >= need:
            self._renewed = max(self._renewed, asked)
            return
        if len(votes) - len(verdict.faults) >= need:
            by = verdict.rival.sentence() if verdict.rival else "somebody, who gave it back"
            self._lost = f"its lock was taken over by {by}"
            self._say(f"{self._lost}: a play that runs is finished, nothing further is begun")

    def _ask(self, op: str, *, instead: str = "", nodes: Collection[str] | None = None) -> Votes:
        script = _SCRIPT.format(
            op=op,
            me=shlex.quote(self._holder.run),
            instead=shlex.quote(instead),
            folder=shlex.quote(FOLDER),
            parent=shlex.quote(str(Path(FOLDER).parent)),
        )

        def ask(node: Node) -> Vote | NoVote:
            try:
                line = self._holder.as_line().encode()
                said = self._nodes.run_as_root(node, script, stdin=line, timeout=SECONDS)
                if said.code == 0:
                    return read_vote(said.output)
                why = last_line(said.errors) or f"code {said.code}"
                return NoVote(f"{node.name}: {FOLDER} could not be written: {why}", answered=True)
            except NodeUnreachable as error:
                return NoVote(error.message)
            except ValueError as error:
                return NoVote(f"{node.name}: {FOLDER} could not be read: {error}", answered=True)

        asked = [node for node in self._masters if nodes is None or node.name in nodes]
        with ThreadPoolExecutor(max_workers=len(asked)) as pool:
            votes = list(pool.map(ask, asked))
        return {node.name: vote for node, vote in zip(asked, votes, strict=True)}

    def _too_few(self, verdict: Verdict) -> Refused | NodeUnreachable:
        total = len(self._masters)
        first, *others = verdict.faults.values()
        answered = any(none.answered for none in verdict.faults.values())
        return (Refused if answered else NodeUnreachable)(
            f"the site could not be locked on {majority(total)} of {total} control-plane nodes: "
            f"{first.why}",
            hint="see what is wrong: appliance status",
            details=[none.why for none in others],
        )

    def _refusal(self, verdict: Verdict) -> Refused:
        who = verdict.rival.sentence() if verdict.rival else "it has not said who it is"
        return Refused(
            f"another command is at work on this site: {who}",
            hint="wait for it, then run the same command again; what it did: appliance site adopt",
        )


def holder_of(run: Run, reason: str) -> Holder:
    """What the lock of a run of this process says."""
    return Holder(
        run=run.id,
        command=run.command,
        operator=run.operator,
        host=run.host,
        arguments=run.arguments,
        reason=reason,
        since=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        origin=origin(),
    )


def awake_seconds() -> float:
    """Seconds since the boot of this machine, those in which it slept included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def origin() -> Origin:
    """This process."""
    started = _started(os.getpid()) or 0
    return Origin(_boot(), _namespace(), os.getpid(), started, os.getuid(), _machine())


def is_dead(holder: Holder) -> bool:
    """Whether a holder was a process of this machine, and is one no longer.

    Of a process of another machine, of another container or of another start of this machine
    nothing is known: its lock has to expire.
    """
    there = holder.origin
    # Two machines made of one snapshot share a boot id, and mostly their process ids.
    if not there.machine or there.machine != _machine():
        return False
    if not there.pid or there.boot != _boot() or there.namespace != _namespace():
        return False
    if os.getuid() not in (0, there.uid):  # /proc may hide what belongs to others
        return False
    return _started(there.pid) != there.started


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def _machine() -> str:
    """What tells this machine from its clones: its UUID by the firmware, and its MACs."""
    found = [Path("/etc/machine-id"), Path("/sys/class/dmi/id/product_uuid")]
    found += sorted(Path("/sys/class/net").glob("*/address"))
    parts = []
    for path in found:
        # Those of containers come and go with them.
        if path.name != "address" or (path.parent / "device").exists():
            with suppress(OSError):
                parts.append(path.read_text(encoding="utf-8").strip())
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _namespace() -> str:
    return str(Path("/proc/self/ns/pid").readlink())


def _started(pid: int) -> int | None:
    """When a process began, in clock ticks; None when there is none, or only its corpse."""
    with suppress(OSError):
        words = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return None if words[0] in "ZX" else int(words[19])
    return None
