"""Which volumes a backup can save: folders of the NFS export that a node of the site serves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from appliance.model.backup.names import plain_words
from appliance.model.backup.volumes.record import is_claim
from appliance.model.site.shared_storage import Export, export_of
from appliance.model.state.plan import Refusal

if TYPE_CHECKING:
    from appliance.model.backup.volumes.record import Claim
    from appliance.model.site.settings import Node, Site

CHECK: Final = "volumes"
_MB: Final = 1000 * 1000
_MOST_USERS: Final = 5
_MOST_ELSEWHERE: Final = 20
# An entry takes two headers of tar at most, where its name is short.
_ENTRY_BYTES: Final = 2048


@dataclass(frozen=True)
class ChosenVolume:
    """A volume that can be saved: its claim, and its folder directly in the export."""

    claim: Claim
    folder: str


@dataclass(frozen=True)
class Measured:
    """What the node says of one folder.

    Attributes:
        entries: files, folders and links.
        data_bytes: of all files, without holes.
        fault: why it cannot be read; empty where it can.
    """

    entries: int = 0
    data_bytes: int = 0
    fault: str = ""

    @property
    def most_bytes(self) -> int:
        """The most that its archive can take."""
        return self.data_bytes + self.data_bytes // 1000 + self.entries * _ENTRY_BYTES


@dataclass(frozen=True)
class MeasuredVolumes:
    """What the node with the export says.

    Attributes:
        volumes: claim -> what its folder holds.
        free_bytes: for archives, on that node.
    """

    volumes: Mapping[str, Measured]
    free_bytes: int


@dataclass(frozen=True)
class Choice:
    """The volumes that were asked for.

    Attributes:
        node: that serves the export; None: no node of the site does.
        volumes: that can be saved.
        refusals: why others cannot.
        elsewhere: claims that were not named, and cannot be saved.
    """

    node: Node | None = None
    volumes: tuple[ChosenVolume, ...] = ()
    refusals: tuple[Refusal, ...] = field(default_factory=tuple)
    elsewhere: tuple[str, ...] = ()


def choose(
    site: Site, claims: Sequence[Claim], asked: Sequence[str], *, everything: bool = False
) -> Choice:
    """Choose the volumes that were asked for.

    Args:
        site: the site.
        claims: of the cluster, that are bound.
        asked: ``namespace/name`` of each that was named.
        everything: every volume on the export of the site, too; others are left out.
    """
    export, known = export_of(site), {one.claim: one for one in claims}
    node = export.node if export is not None else None
    chosen: dict[str, ChosenVolume] = {}
    refusals: list[Refusal] = []
    for name in dict.fromkeys(asked):
        found = _chosen(known.get(name), name, export)
        if isinstance(found, Refusal):
            refusals.append(found)
        else:
            chosen[name] = found
    elsewhere = []
    for name in sorted(known) if everything else ():
        found = _chosen(known[name], name, export)
        if isinstance(found, ChosenVolume):
            chosen[name] = found
        elif name not in asked:
            elsewhere.append(plain_words(name, 300))
    if everything and node is None:
        refusals.append(_elsewhere("--volumes", export))
    elif elsewhere and not chosen and export is not None:
        seen = f"no claim on it; elsewhere are {_named(elsewhere)}"
        hint = "compare the servers of kubectl get pv -o wide; or run the command without --volumes"
        refusals.append(_refusal("--volumes", seen, f"claims on {export.source}", hint))
    return Choice(node, tuple(chosen.values()), tuple(refusals), tuple(elsewhere))


def _named(claims: Sequence[str]) -> str:
    more = len(claims) - _MOST_ELSEWHERE
    return ", ".join(claims[:_MOST_ELSEWHERE]) + (f" and {more} more" if more > 0 else "")


def _chosen(claim: Claim | None, name: str, export: Export | None) -> ChosenVolume | Refusal:
    if not is_claim(name):
        return _refusal(name, "no name of a claim", "NAMESPACE/CLAIM", "kubectl get pvc -A")
    if claim is None:
        return _refusal(
            name,
            "no claim of that name that is bound to a volume",
            "one that is",
            "see the claims: kubectl get pvc -A",
        )
    if export is None or export.node is None or not claim.server:
        return _elsewhere(name, export, claim)
    servers = {export.server, export.node.name, export.node.ip}
    above, _, folder = claim.path.rpartition("/")
    if claim.server not in servers or above != export.path.rstrip("/") or not folder:
        return _elsewhere(name, export, claim)
    return ChosenVolume(claim, folder)


def _elsewhere(name: str, export: Export | None, claim: Claim | None = None) -> Refusal:
    place = "not on an NFS export that a node of the site serves"
    if claim is not None:
        told = f"{claim.server}:{claim.path}" if claim.server else claim.path
        place = f"on {plain_words(told, 200)}"
    expected = "a folder of the NFS export that a node of the site serves"
    if export is not None and export.node is not None:
        expected = f"a folder directly in {export.source}"
    return _refusal(
        name,
        place,
        expected,
        "its data is saved by the means of its storage, such as the snapshots of the NFS server; "
        "run the command without this volume",
    )


def _refusal(name: str, seen: str, expected: str, hint: str) -> Refusal:
    return Refusal(plain_words(name, 100), CHECK, seen, expected, hint)


def unfit(choice: Choice, found: MeasuredVolumes) -> Iterator[Refusal]:
    """Why volumes cannot be saved now, by what the node says of their folders."""
    needed = 0
    for one in choice.volumes:
        seen = found.volumes.get(one.claim.claim, Measured(fault="the node does not say"))
        needed += seen.most_bytes
        if seen.fault:
            yield _refusal(
                one.claim.claim,
                f"its folder {plain_words(one.folder, 100)}: {plain_words(seen.fault, 200)}",
                "a folder that can be read",
                "see what is wrong: appliance status",
            )
    if needed > found.free_bytes and choice.node is not None:
        yield _refusal(
            choice.node.name,
            f"{found.free_bytes // _MB} MB free for archives below /var/lib/appliance",
            f"{-(-needed // _MB)} MB; the largest: {_largest(choice, found)}",
            "free space there: appliance cluster cleanup; or save fewer volumes at a time",
        )


def _largest(choice: Choice, found: MeasuredVolumes) -> str:
    sizes = {
        one.claim.claim: seen.most_bytes
        for one in choice.volumes
        if (seen := found.volumes.get(one.claim.claim)) is not None
    }
    first = sorted(sizes, key=lambda claim: (-sizes[claim], claim))[:_MOST_USERS]
    return ", ".join(f"{claim} ({sizes[claim] // _MB} MB)" for claim in first)


def space_needed(found: MeasuredVolumes) -> int:
    """The most bytes that the archives of all volumes take."""
    return sum(one.most_bytes for one in found.volumes.values())


def lines(choice: Choice, found: MeasuredVolumes) -> tuple[str, ...]:
    """What would be saved, in sentences; who writes there is named."""
    told = []
    for one in choice.volumes:
        seen = found.volumes.get(one.claim.claim, Measured())
        told.append(
            f"{choice.node.name if choice.node else ''}: the data of {one.claim.claim}, "
            f"{seen.entries} entries, {seen.data_bytes // _MB} MB, as a crash would leave it"
        )
        if one.claim.users:
            named = ", ".join(user.pod for user in one.claim.users[:_MOST_USERS])
            more = len(one.claim.users) - _MOST_USERS
            told.append(
                f"{one.claim.claim}: pods use it and may write meanwhile: {named}"
                + (f" and {more} more" if more > 0 else "")
            )
    if choice.elsewhere:
        named = _named(choice.elsewhere)
        told.append(f"not in it, because they are not on the export: {named}")
    return tuple(told)
