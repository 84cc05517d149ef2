"""The lock of a site: one file on each control-plane node, renewed by a heartbeat.

``/var/lib/appliance/lock/`` on a node has ``holder`` (created by link(2), which fails if the file
exists and never shows an incomplete file), ``beat`` (the node's boot id and uptime at the last
renewal, independent of its clock), and ``last`` and ``left``: the last holder that released the
lock, and when. Every change holds ``guard`` by flock(1).
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

from appliance.adapters.ssh.call import last_line
from appliance.errors import LeaseLost, NodeUnreachable, Refused
from appliance.model.control.later_tool import find_later, refusal
from appliance.model.control.lock import (
    BEAT_SECONDS,
    SILENT_SECONDS,
    Holder,
    LockVerdict,
    NoVote,
    Origin,
    Vote,
    Votes,
    changed_meanwhile,
    judge,
    read_vote,
    writers,
)
from appliance.model.site.groups import majority

if TYPE_CHECKING:
    from appliance.adapters.ssh.nodes import SshNodes
    from appliance.model.site.settings import Node, Site
    from appliance.model.state.journal import Run

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
    """One run's lock on a site, on a majority of its control-plane nodes.

    Args:
        site: the site of the control-plane nodes.
        nodes: SSH to the nodes.
        holder: the content of the lock.
        looking_since: when the command began to inspect the site (:func:`awake_seconds`).
        say: prints a sentence for the operator.
    """

    def __init__(
        self,
        site: Site,
        nodes: SshNodes,
        holder: Holder,
        looking_since: float,
        say: Callable[[str], None],
    ) -> None:
        self._name = site.name
        self._control_plane = site.control_plane
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

    def ask_only(self, names: Collection[str]) -> None:
        """Leave out control-plane nodes that are lost; a majority is one of the others."""
        self._control_plane = tuple(node for node in self._control_plane if node.name in names)

    def acquire(self) -> tuple[str, ...]:
        """Take the lock and renew it by a thread; return sentences for the journal.

        If no control-plane node answers, the command continues with a message.

        Raises:
            Refused: another command holds the lock, or held it during this one's inspection; or
                nodes answer but cannot store the lock.
            NodeUnreachable: fewer than a majority answer.
        """
        for attempt in range(ATTEMPTS):
            began = awake_seconds()
            verdict, notes = self._try()
            if verdict.state == "ours":
                self._keep(began)
                return notes
            self._undo()
            if verdict.state == "away":
                note = "no control-plane node answers: holding only this machine's lock"
                self._say(note)
                return (note,)
            if verdict.state == "few":
                raise self._too_few(verdict)
            if verdict.state == "held":
                break
            # Two commands compete and neither has a majority: random waits decide.
            time.sleep(random.uniform(0.05, 0.3) * (attempt + 1))  # noqa: S311 - a wait, no secret
        raise self._refusal(verdict)

    def require(self) -> None:
        """Verify that the lock is still held; costs nothing while the heartbeat works.

        Raises:
            LeaseLost: another command took it over, or no majority answered for too long.
        """
        if not self._held:
            return
        if self._lost is None and awake_seconds() - self._renewed > SILENT_SECONDS:
            self._beat()
            if self._lost is None and awake_seconds() - self._renewed > SILENT_SECONDS:
                self._lost = "no majority of the control-plane nodes answers"
        if self._lost is not None:
            raise LeaseLost(
                f"lost the site lock; stopped before the next step: {self._lost}",
                hint="see what is at work: appliance site adopt; then run the same command again",
            )

    def release(self) -> None:
        """Release the lock on all nodes; nodes that do not answer are ignored."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(1)  # a heartbeat after the release creates nothing
        if self._touched:
            self._ask("drop" if self._held else "undo")

    def look(self) -> LockVerdict:
        """Who holds the lock; writes nothing."""
        return judge(self._ask("look"), self._holder.run, is_dead)

    def _try(self) -> tuple[LockVerdict, tuple[str, ...]]:
        """Take free locks, then stale ones; return the verdict, and notes on stale ones."""
        self._touched = True
        # Measured before the requests: a slow answer must not make an older change look recent.
        looked = awake_seconds() - self._looking_since
        before = self._ask("take")
        verdict, me = judge(before, self._holder.run, is_dead), self._holder.run
        if verdict.state not in ("ours", "open"):
            return verdict, ()
        self._require_no_later_tool(before)
        other = changed_meanwhile(before, verdict.stale, self._holder, looked)
        if other is not None:
            self._undo()
            raise Refused(
                f"the site was changed while this command inspected it: {other.sentence()}",
                hint="run the same command again: it inspects the site again",
            )
        after = dict(before)
        for run in {holder.run for holder in verdict.stale.values()}:
            nodes = [node for node, holder in verdict.stale.items() if holder.run == run]
            after |= self._ask("take", instead=run, nodes=nodes)
        # A run that released its lock elsewhere, but did not reach this node, is complete.
        ended = {v.last.run for v in before.values() if isinstance(v, Vote) and v.last}
        unfinished = [holder for holder in verdict.stale.values() if holder.run not in ended]
        notes = tuple(
            f"took over the lock of {sentence}"
            for sentence in dict.fromkeys(holder.sentence() for holder in unfinished)
        )
        verdict = judge(after, me, is_dead)
        if verdict.state == "ours":
            for note in notes:
                self._say(f"{note}: its process is dead, or its heartbeat stopped")
        return verdict, notes

    def _require_no_later_tool(self, votes: Votes) -> None:
        """Refuse a site that a later version of this tool changed from another laptop."""
        own = self._holder.tool_version
        later = find_later(own, writers(votes))
        if later is not None:
            self._undo()
            raise refusal(later, own, f"what the nodes of the site {self._name} keep")

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
        """Renew the lock; recreate a file that a node lost while no other command could take it."""
        began = awake_seconds()
        silent = began - self._renewed
        votes = self._ask("beat" if silent > SILENT_SECONDS else "keep")
        verdict, need = judge(votes, self._holder.run, lambda _: False), majority(len(votes))
        if len(verdict.ours) >= need:
            self._renewed = max(self._renewed, began)
            return
        if len(votes) - len(verdict.faults) >= need:
            rival = verdict.rival
            by = rival.sentence() if rival else "another command, which has released it"
            self._lost = f"its lock was taken over by {by}"
            self._say(f"{self._lost}: finishing the running playbook, starting no other")

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
                answer = self._nodes.run_as_root(node, script, stdin=line, timeout=SECONDS)
                if answer.code == 0:
                    return read_vote(answer.output)
                why = last_line(answer.errors) or f"code {answer.code}"
                return NoVote(f"{node.name}: {FOLDER} could not be written: {why}", answered=True)
            except NodeUnreachable as error:
                return NoVote(error.message)
            except ValueError as error:
                return NoVote(f"{node.name}: {FOLDER} could not be read: {error}", answered=True)

        voters = [node for node in self._control_plane if nodes is None or node.name in nodes]
        with ThreadPoolExecutor(max_workers=len(voters)) as pool:
            votes = list(pool.map(ask, voters))
        return {node.name: vote for node, vote in zip(voters, votes, strict=True)}

    def _too_few(self, verdict: LockVerdict) -> Refused | NodeUnreachable:
        total = len(self._control_plane)
        first, *others = verdict.faults.values()
        answered = any(none.answered for none in verdict.faults.values())
        return (Refused if answered else NodeUnreachable)(
            f"the site could not be locked on {majority(total)} of {total} control-plane nodes: "
            f"{first.why}",
            hint="see what is wrong: appliance status",
            details=[none.why for none in others],
        )

    def _refusal(self, verdict: LockVerdict) -> Refused:
        who = verdict.rival.sentence() if verdict.rival else "unknown holder"
        return Refused(
            f"another command is at work on this site: {who}",
            hint="wait until it has finished, then run the same command again; to see what it did: "
            "appliance site adopt",
        )


def holder_of(run: Run, reason: str) -> Holder:
    """The content of the lock for a run of this process."""
    return Holder(
        run=run.id,
        command=run.command,
        operator=run.operator,
        host=run.host,
        arguments=run.arguments,
        reason=reason,
        since=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        origin=origin(),
        tool_version=run.tool_version,
    )


def awake_seconds() -> float:
    """Seconds since the boot of this machine, including sleep."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def origin() -> Origin:
    """This process."""
    started = _started(os.getpid()) or 0
    return Origin(_boot(), _namespace(), os.getpid(), started, os.getuid(), _machine())


def is_dead(holder: Holder) -> bool:
    """Whether a holder was a process of this machine that has ended.

    Nothing is known of a process of another machine, another container or an earlier boot of this
    machine: its lock has to expire.
    """
    process = holder.origin
    # Two machines from one snapshot share a boot id, and mostly their process ids.
    if not process.machine or process.machine != _machine():
        return False
    if not process.pid or process.boot != _boot() or process.namespace != _namespace():
        return False
    if os.getuid() not in (0, process.uid):  # /proc may hide processes of other users
        return False
    return _started(process.pid) != process.started


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def _machine() -> str:
    """An identity that differs between clones: machine id, firmware UUID and MAC addresses."""
    paths = [Path("/etc/machine-id"), Path("/sys/class/dmi/id/product_uuid")]
    paths += sorted(Path("/sys/class/net").glob("*/address"))
    parts = []
    for path in paths:
        # Interfaces of containers come and go with them.
        if path.name != "address" or (path.parent / "device").exists():
            with suppress(OSError):
                parts.append(path.read_text(encoding="utf-8").strip())
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _namespace() -> str:
    return str(Path("/proc/self/ns/pid").readlink())


def _started(pid: int) -> int | None:
    """The start of a process in clock ticks; None if it does not exist or is a zombie."""
    with suppress(OSError):
        words = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return None if words[0] in "ZX" else int(words[19])
    return None
