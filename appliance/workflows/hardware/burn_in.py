"""Load nodes for hours, beyond the life of this laptop; observe, collect and end it.

The nodes load themselves: a unit of systemd on each, with a deadline. Any laptop with the site may
look. What must not be here: what a node does, and the judgement of what it counted.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Protocol

from appliance.errors import NodeUnreachable, PreflightFailed, StepNotVerified
from appliance.model.checks.hardware.trials.burn_in import (
    BurnInRecord,
    Look,
    command,
    document_of,
    order,
    record_of,
    ring,
)
from appliance.model.checks.hardware.trials.burn_in_judged import GIB, span
from appliance.model.checks.hardware.trials.burn_in_refused import refusals
from appliance.model.node.drain import moving
from appliance.model.state.cluster.cluster import Cluster
from appliance.model.state.nodes.node_state import node_states
from appliance.workflows.hardware.records import keep_burn_ins
from appliance.workflows.node.power import Unlocked
from appliance.workflows.session.confirmation import is_late, require_confirmed
from appliance.workflows.session.recording import Recorder
from appliance.workflows.session.survey import observe

if TYPE_CHECKING:
    from appliance.model.site.settings import Node, Site
    from appliance.model.state.journal import Run
    from appliance.workflows.session.session import Session

COMMAND: Final = "hardware burn-in"
WATCH_SECONDS: Final = 60.0


class BurnInNodes(Protocol):
    """The burn-ins of nodes."""

    def ask(self, nodes: Sequence[Node], commands: Mapping[str, str]) -> Mapping[str, Look | str]:
        """Node -> its burn-in after the command for it, or why it did not answer; all at once."""


@dataclass(frozen=True)
class BurnInRequest:
    """What is asked for.

    Attributes:
        hours: how long; None: nothing is started.
        memory_gib: at most, on each node; None: half of what is free.
        again: also where a burn-in is recorded on the node; that record is replaced.
        end: stop what runs.
    """

    site: Site
    nodes: tuple[Node, ...]
    run: Run
    hours: float | None = None
    memory_gib: float | None = None
    again: bool = False
    end: bool = False
    dry_run: bool = False


@dataclass(frozen=True)
class NodeBurnIn:
    """One node's burn-in.

    Attributes:
        record: what was collected; None where there is none.
        reason: why the node did not tell; empty if it did.
    """

    node: str
    record: BurnInRecord | None = None
    reason: str = ""


@dataclass(frozen=True)
class BurnInResult:
    """What was to be done in words, whether it was done, the nodes, and what was not kept."""

    nodes: tuple[NodeBurnIn, ...]
    planned: tuple[str, ...] = ()
    done: bool = False
    missed: tuple[str, ...] = ()


def burn_in(
    request: BurnInRequest,
    session: Session,
    nodes: BurnInNodes,
    confirm: Callable[[Sequence[str]], bool],
) -> BurnInResult:
    """Start or end burn-ins where that is asked for, and collect what all of the nodes tell.

    Raises:
        NodeUnreachable: a node that something is to be done with did not answer; nothing was.
        PreflightFailed: the cluster needs a node, or pods run on it; nothing was changed.
        Refused: not confirmed; nothing was changed.
        StepNotVerified: a node does not do what it was told to; the others are named.
    """
    looks = nodes.ask(request.nodes, dict.fromkeys(_names(request.nodes), command("look")))
    todo = _todo(request, looks)
    sentences = tuple(_sentence(request, node, looks[node.name]) for node in todo)
    if not todo:
        return _collected(request, session, looks, sentences)
    _require_answers(request, looks, todo)
    maintained = _require_allowed(request, session, todo) if not request.end else frozenset()
    if request.dry_run:
        return _collected(request, session, looks, sentences)
    observed_at = session.clock.monotonic()
    require_confirmed(confirm(sentences))
    if is_late(session.clock, observed_at) and not request.end:
        # A node may have been returned to service meanwhile.
        maintained = _require_allowed(request, session, todo)
    commands = _commands(request, todo, maintained)
    recorder = Recorder(request.run, replace(session, lock=Unlocked()))
    verb = "end" if request.end else "start"
    with recorder.run_step(f"burn-in: {verb}", _names(todo), sentences):
        told = nodes.ask(todo, commands)
        _require_done(request, told)
    return replace(_collected(request, session, {**looks, **told}, sentences), done=True)


def collect(request: BurnInRequest, session: Session, nodes: BurnInNodes) -> BurnInResult:
    """What the nodes tell now; nothing is started or ended."""
    looks = nodes.ask(request.nodes, dict.fromkeys(_names(request.nodes), command("look")))
    return _collected(request, session, looks, ())


def _names(nodes: Sequence[Node]) -> list[str]:
    return [node.name for node in nodes]


def _todo(request: BurnInRequest, looks: Mapping[str, Look | str]) -> tuple[Node, ...]:
    """The nodes that something is to be done with."""
    found = []
    for node in request.nodes:
        look = looks[node.name]
        status = look.status if isinstance(look, Look) else None
        runs = isinstance(look, Look) and look.running is not False
        start = request.hours is not None and (status is None or request.again)
        if (request.end and (runs or isinstance(look, str))) or (start and not runs):
            found.append(node)
    return tuple(found)


def _sentence(request: BurnInRequest, node: Node, look: Look | str) -> str:
    if request.end:
        if not isinstance(look, Look) or look.state is None:
            return f"{node.name}: end the burn-in, if one runs"
        by = f" that {look.state.by} started" if look.state.by else ""
        return f"{node.name}: end the burn-in{by}, after {span(look.state.seconds)}"
    length = span((request.hours or 0) * 3600)
    memory = "half of the free memory"
    if request.memory_gib is not None:
        memory = f"at most {request.memory_gib:g} GiB of memory"
    known = " again" if isinstance(look, Look) and look.state is not None else ""
    return (
        f"{node.name}: burn in{known} for {length}: processors, {memory}, a file of at most "
        "2 GiB, the network; the node is slow meanwhile"
    )


def _require_answers(
    request: BurnInRequest, looks: Mapping[str, Look | str], todo: Sequence[Node]
) -> None:
    silent = [f"{name}: {look}" for name, look in looks.items() if isinstance(look, str)]
    # A node that hangs does not keep the others under load: they are ended, and it is named.
    ends_some = request.end and any(isinstance(looks[node.name], Look) for node in todo)
    if silent and not ends_some:
        raise NodeUnreachable(
            silent[0],
            hint="repair it or leave it out; see: appliance status",
            details=silent[1:],
        )
    unclear = [
        name for name, look in looks.items() if isinstance(look, Look) and look.running is None
    ]
    if unclear and not request.end:
        raise NodeUnreachable(
            f"{unclear[0]}: its systemd does not tell whether a burn-in runs",
            hint=f"look there: appliance node ssh {unclear[0]}",
        )


def _require_allowed(
    request: BurnInRequest, session: Session, todo: Sequence[Node]
) -> frozenset[str]:
    """Refuse nodes that others need; return the names of those that are in maintenance."""
    site = request.site
    observed, _ = observe(site, session.nodes, session.cluster)
    states, cluster = node_states(site, observed), observed.cluster
    members = cluster.nodes if isinstance(cluster, Cluster) else {}
    joined = [node.name for node in todo if node.name in members]
    views = session.drain.views(joined) if joined else {}
    pods = {name: len(moving(view.pods)) for name, view in views.items()}
    found = list(refusals(site, todo, cluster, states, pods))
    if found:
        raise PreflightFailed(
            found[0].why,
            hint=found[0].hint,
            details=[f"{one.why}  hint: {one.hint}" for one in found[1:]],
        )
    return frozenset(node.name for node in todo if states[node.name].maintenance is not None)


def _commands(
    request: BurnInRequest, todo: Sequence[Node], maintained: frozenset[str]
) -> Mapping[str, str]:
    if request.end:
        return dict.fromkeys(_names(todo), command("end"))
    addresses, word = [node.ip for node in todo], secrets.token_hex(16)
    by, seconds = (request.run.id, f"{request.run.operator}@{request.run.host}"), request.hours or 0
    memory = request.memory_gib
    bounds = {} if memory is None else {"most_memory": int(memory * GIB)}
    return {
        node.name: command(
            "start",
            {
                **order(by, seconds * 3600, node.ip, ring(addresses, number), word),
                "maintained": node.name in maintained,
                **bounds,
            },
        )
        for number, node in enumerate(todo)
    }


def _require_done(request: BurnInRequest, told: Mapping[str, Look | str]) -> None:
    """Raise unless each node shows what it was told to do."""
    bad = {name: why for name, look in told.items() if (why := _missed(request, look))}
    if bad:
        (first, why), *others = bad.items()
        good = [f"done: {name}" for name in told if name not in bad]
        raise StepNotVerified(
            f"{first}: {why}",
            hint="look at the node, then run the same command again: it does the rest",
            details=[*(f"{name}: {reason}" for name, reason in others), *good],
        )


def _missed(request: BurnInRequest, look: Look | str) -> str:
    if isinstance(look, str):
        return look
    if look.refused is not None:
        return look.refused
    if request.end:
        return "" if look.running is False else "its unit still runs"
    if look.state is None or look.state.id != request.run.id:
        return "its burn-in wrote no state"
    ended = look.state.ended
    return "" if ended is None and look.running else f"it does not run: {ended or 'no reason told'}"


def _collected(
    request: BurnInRequest,
    session: Session,
    looks: Mapping[str, Look | str],
    sentences: tuple[str, ...],
) -> BurnInResult:
    """Keep what the nodes told, beside the passports too where there are some."""
    at = datetime.fromtimestamp(session.clock.now(), UTC).isoformat(timespec="seconds")
    found: list[NodeBurnIn] = []
    kept: dict[str, BurnInRecord] = {}
    tellers, taken = _tellers(looks), list[str]()
    for name, look in looks.items():
        if isinstance(look, str):
            found.append(NodeBurnIn(name, reason=look))
            continue
        record = _record(name, look, at, request.run.tool_version)
        if record is not None:
            document = document_of(record.burn_in.machine, name)
            before = record_of(session.documents.read(document))
            if before is not None and before == record.model_copy(update={"at": before.at}):
                record = before
            if before is not None and _is_of_another(before, name, request.site):
                taken.append(
                    f"the burn-in of {name} is not kept: its machine, "
                    f"{record.burn_in.machine.words()}, is recorded as that of {before.node}; if "
                    f"it was moved, remove .appliance/{document} in the site's directory"
                )
            elif not request.dry_run and len(tellers[document]) == 1:
                session.documents.keep(document, record.text())
                kept[name] = record
        found.append(NodeBurnIn(name, record))
    missed = keep_burn_ins(kept, session.archive)
    told = (*_told_twice(looks, tellers), *taken, *missed)
    return BurnInResult(tuple(found), sentences, missed=told)


def _is_of_another(before: BurnInRecord, name: str, site: Site) -> bool:
    """Whether a machine was recorded under the name of another node that the site still has."""
    return before.node != name and any(node.name == before.node for node in site.nodes)


def _tellers(looks: Mapping[str, Look | str]) -> Mapping[str, list[str]]:
    """Document -> the nodes that tell its machine: of several, the last would replace it."""
    found: dict[str, list[str]] = {}
    for name, look in looks.items():
        if isinstance(look, Look) and look.state is not None:
            found.setdefault(document_of(look.state.machine, name), []).append(name)
    return found


def _told_twice(looks: Mapping[str, Look | str], tellers: Mapping[str, list[str]]) -> Iterator[str]:
    for first, *others in tellers.values():
        look = looks[first]
        if others and isinstance(look, Look) and look.state is not None:
            yield (
                f"the burn-ins of {' and '.join((first, *others))} are not kept: they tell the "
                f"same machine, {look.state.machine.words()}"
            )


def _record(name: str, look: Look, at: str, tool_version: str) -> BurnInRecord | None:
    if look.state is None or look.status is None:
        return None
    return BurnInRecord(
        schema=1,
        node=name,
        at=at,
        tool_version=tool_version,
        status=look.status,
        burn_in=look.state,
    )
