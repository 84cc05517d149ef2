"""Copies backups of control-plane nodes to a place for backups; nothing of either is changed.

A file of another content is never replaced, and what a killed copy left goes once the node holds
the whole of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from appliance.adapters.backup.fetching import Tell, bring_beside, bring_file
from appliance.adapters.backup.on_nodes import NodeFolder, OnNode
from appliance.adapters.backup.places import FolderPlace, Room
from appliance.adapters.backup.reader import read_beside, require_content
from appliance.errors import ApplianceError, NotHealthy, Refused
from appliance.model.backup.holdings import Held, unfit
from appliance.model.backup.names import PARTIAL_SUFFIX, SIDECAR_SUFFIX, SUFFIX

if TYPE_CHECKING:
    from collections.abc import Sequence

    from appliance.adapters.backup.places import Place
    from appliance.model.backup.record import Sidecar

# By so much the clocks of a node and of this machine may differ.
CLOCKS_APART_SECONDS: Final = 3600.0


@dataclass(frozen=True)
class OfNode:
    """A backup of a node.

    Attributes:
        node: its name.
        held: the backup, as the node describes it.
        why: why it is not taken for one of the site's; empty: it is.
    """

    node: str
    held: Held
    why: str = ""


@dataclass(frozen=True)
class Fetched:
    """What became of one backup.

    Attributes:
        of: which one.
        outcome: ``fetched``, ``there`` (it was there before), or ``failed``.
        error: why it failed; None: it did not.
    """

    of: OfNode
    outcome: Literal["fetched", "there", "failed"]
    error: ApplianceError | None = None


def chosen(
    found: Sequence[OnNode], site: str, newest: int, now: float
) -> tuple[tuple[OfNode, ...], tuple[OfNode, ...]]:
    """The newest whole backups of a site, the oldest of them first; and what is none of its.

    Args:
        found: what each node holds.
        site: the name of the site.
        newest: how many, of all nodes together.
        now: in seconds since 1970. One that is of a time to come would stay the newest till then.
    """
    every = [
        OfNode(one.node, held, unfit(held, site) or _of_a_time_to_come(held, now))
        for one in found
        for held in one.held
    ]
    every.sort(key=lambda one: (one.held.moment, one.held.id, one.node))
    fit = [one for one in every if not one.why]
    return tuple(fit[-newest:]), tuple(one for one in every if one.why)


def _of_a_time_to_come(held: Held, now: float) -> str:
    if held.moment <= now + CLOCKS_APART_SECONDS:
        return ""
    return "its name says a time to come: see the clocks of the node and of this machine (date -u)"


def fetch(
    wanted: Sequence[OfNode], folders: Mapping[str, NodeFolder], target: Place, tell: Tell
) -> tuple[Fetched, ...]:
    """Copy backups, one after the other; one that fails leaves the others.

    Args:
        wanted: which ones; of each something is known.
        folders: node -> where they are.
        target: where they go.
        tell: told how far it is.
    """
    return tuple(_fetched(one, folders[one.node], target, tell) for one in wanted)


def _fetched(one: OfNode, source: NodeFolder, target: Place, tell: Tell) -> Fetched:
    sidecar = one.held.sidecar
    if sidecar is None:
        raise AssertionError(f"nothing is known of {one.held.id}")
    try:
        return Fetched(one, "fetched" if _copied(sidecar, source, target, tell) else "there")
    except ApplianceError as error:
        return Fetched(one, "failed", error)


def _copied(sidecar: Sidecar, source: NodeFolder, target: Place, tell: Tell) -> bool:
    """Copy what the target lacks of one backup; whether it lacked something.

    Raises:
        Refused: the target has something else of that name, or no room.
        NotHealthy: what came is not what the node wrote down.
        NodeUnreachable, CommandFailed: the node does not answer, or the target took nothing.
    """
    backup = sidecar.about.id
    sizes = target.sizes()
    has_file, has_beside = backup + SUFFIX in sizes, backup + SIDECAR_SUFFIX in sizes
    if has_beside:
        _require_same(sidecar, target)
    if has_file and sizes[backup + SUFFIX] != sidecar.size:
        raise _other(target, backup)
    if has_file and has_beside:
        return False
    _remove_half(backup, sizes, target)
    if has_file:
        _require_content(sidecar, target)
    else:
        _copy(sidecar, source, target, tell)
    if not has_beside:
        bring_beside(sidecar, target)
    return True


def _copy(sidecar: Sidecar, source: NodeFolder, target: Place, tell: Tell) -> None:
    room = None
    if isinstance(target, FolderPlace):
        room = Room(target.folder, "name another place: --to PLACE")
        room.require(sidecar.size)
    bring_file(source, sidecar, target, tell, room)
    name = sidecar.about.id + SUFFIX
    try:
        # What the place holds is read once more before it counts: decision 240.
        require_content(target, name, sidecar.size, sidecar.sha256)
    except NotHealthy:
        # This process wrote it, under a name that was free.
        with suppress(OSError):
            target.remove(name)
        raise


def _require_content(sidecar: Sidecar, target: Place) -> None:
    """What is there already is the same: a copy was killed before it wrote what lies beside it."""
    try:
        require_content(target, sidecar.about.id + SUFFIX, sidecar.size, sidecar.sha256)
    except NotHealthy as error:
        raise _other(target, sidecar.about.id) from error


def _require_same(sidecar: Sidecar, target: Place) -> None:
    backup = sidecar.about.id
    try:
        there = read_beside(target, backup)
    except NotHealthy as error:
        raise _other(target, backup) from error
    if (there.size, there.sha256) != (sidecar.size, sidecar.sha256):
        raise _other(target, backup)


def _other(target: Place, backup: str) -> Refused:
    return Refused(
        f"{target.told} has a different file named {backup}, which stays",
        hint="name another place with --to; or see what it is, and move it away",
    )


def _remove_half(backup: str, sizes: Mapping[str, int], target: Place) -> None:
    """Remove what a copy that was killed left: the node holds the whole of it."""
    for name in (backup + SUFFIX, backup + SIDECAR_SUFFIX):
        with suppress(OSError):
            target.give_up(name)
        if name + PARTIAL_SUFFIX in sizes:
            with suppress(OSError):
                target.remove(name + PARTIAL_SUFFIX)
