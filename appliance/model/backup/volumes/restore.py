"""May the data of volumes be restored from a backup, and what becomes of what is there.

What must not be here: how a node does it (``playbooks/module_utils/appliance_volume_restore.py``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from appliance.model.backup.names import SEE_BACKUPS, stamp
from appliance.model.backup.restoring.file_refusals import of_another_site_or_tool
from appliance.model.backup.volumes.choice import CHECK, choose
from appliance.model.backup.volumes.view import SeenVolume
from appliance.model.state.plan import Refusal

if TYPE_CHECKING:
    from appliance.model.backup.record import Manifest
    from appliance.model.backup.volumes.record import Claim, User, VolumeRecord
    from appliance.model.backup.volumes.view import VolumesView
    from appliance.model.site.settings import Site

_MB: Final = 1000 * 1000
_HOUR: Final = 3600.0
_ENTRY_BYTES: Final = 4096
_MOST_USERS: Final = 5
_SCALED: Final = ("deployment", "statefulset", "replicaset")


@dataclass(frozen=True)
class Target:
    """One volume that is restored.

    Attributes:
        record: what the backup has of it.
        folder: of the claim's volume now, directly in the export.
        users: pods that have the claim now.
        made_again: the claim is another one than the backup's, of the same name.
        there, whole, swapped: as the node says (:class:`SeenVolume`).
    """

    record: VolumeRecord
    folder: str
    users: tuple[User, ...] = ()
    made_again: bool = False
    there: bool = True
    whole: bool = False
    swapped: bool = False

    @property
    def claim(self) -> str:
        """``namespace/name`` of the claim."""
        return self.record.claim

    def line(self) -> str:
        """The forecast in a sentence."""
        if self.swapped:
            return f"{self.claim}: restored already"
        told = f"{self.claim}: {self.record.sentence()}"
        if self.made_again:
            told += "; the claim was made again since"
        return told if self.there else f"{told}; its folder is not there"


@dataclass(frozen=True)
class VolumeRestorePlan:
    """What will run, and what forbids it.

    Attributes:
        key: the word for this restore.
        node: that serves the export.
        backup: the name of the backup.
        point: the recovery point, in UTC.
        age_seconds: how long ago that is.
        targets: volumes that are restored.
        known: the journal of the site has the file.
        resumes: it was begun, and did not end.
        kept: folders that earlier restores kept.
        refusals: what must be fixed first.
    """

    key: str
    node: str
    backup: str
    point: str
    age_seconds: float
    targets: tuple[Target, ...] = ()
    known: bool = True
    resumes: bool = False
    kept: tuple[str, ...] = ()
    refusals: tuple[Refusal, ...] = field(default_factory=tuple)

    @property
    def recovery(self) -> str:
        """The recovery point in words: what came later is lost."""
        return f"{self.point}, {max(0.0, self.age_seconds) / _HOUR:.1f} hours ago"

    def lines(self) -> tuple[str, ...]:
        """The forecast, in sentences."""
        told = [f"goes on with the restore {self.key}"] if self.resumes else []
        names = ", ".join(one.claim for one in self.targets)
        told += [
            f"restores the data of {names or 'no volume'} from the backup {self.backup}",
            f"recovery point: {self.recovery}",
            *(one.line() for one in self.targets),
            f"{self.node}: each archive becomes a new folder beside the present one, and is "
            "compared; then it takes the name",
            "the present folders stay in the export, under names that are told at the end",
        ]
        if not self.known:
            told.append("the journal of this site does not know the file: is it yours?")
        if self.kept:
            told.append(f"kept by earlier restores, and never removed: {', '.join(self.kept)}")
        return tuple(told)


@dataclass(frozen=True)
class AskedFor:
    """Who asks for which volumes of which file, and when.

    Attributes:
        names: of claims; empty: all that the backup has.
        known: the journal of the site has the file.
        sha256: of the encrypted file.
        tool_version: of this tool.
        at: seconds since 1970.
        created: when the backup was begun, in seconds since 1970.
    """

    names: tuple[str, ...]
    known: bool
    sha256: str
    tool_version: str
    at: float
    created: float


def new_key(backup: str, at: float) -> str:
    """The word of a restore that begins now; its end says when."""
    return f"{backup}.{stamp(at)}"


def targets_of(
    site: Site, records: Sequence[VolumeRecord], claims: Sequence[Claim], names: Sequence[str]
) -> tuple[tuple[Target, ...], tuple[Refusal, ...]]:
    """The volumes that are restored, and why others cannot be.

    Args:
        site: the site.
        records: what the backup has.
        claims: of the cluster, that are bound.
        names: of claims that were asked for; empty: all of the backup.
    """
    saved = {one.claim: one for one in records}
    wanted = tuple(dict.fromkeys(names)) or tuple(saved)
    faults = [
        Refusal(name, CHECK, "no data of it in the backup", ", ".join(saved) or "any", SEE_BACKUPS)
        for name in wanted
        if name not in saved
    ]
    if not wanted:
        faults.append(Refusal("the backup", CHECK, "no data of volumes", "some", SEE_BACKUPS))
    choice = choose(site, claims, [name for name in wanted if name in saved])
    found = tuple(
        Target(
            saved[one.claim.claim],
            one.folder,
            one.claim.users,
            made_again=one.claim.uid != saved[one.claim.claim].uid,
        )
        for one in choice.volumes
    )
    return found, (*faults, *choice.refusals)


def faults_of(
    site: Site,
    manifest: Manifest,
    targets: Sequence[Target],
    view: VolumesView | None,
    asked: AskedFor,
) -> Iterator[Refusal]:
    """What forbids a restore of volumes, beside what :func:`targets_of` refuses.

    Args:
        site: the site.
        manifest: of the backup.
        targets: volumes, as the node saw them.
        view: what the node says; None: it was not asked.
        asked: who asks.
    """
    about = manifest.about
    yield from of_another_site_or_tool(CHECK, about, site.name, asked.tool_version)
    yield from _shared(targets)
    for one in targets:
        if one.users and not one.swapped:
            yield _used(one)
    if view is None:
        return
    due = [one for one in targets if not (one.whole or one.swapped)]
    needed = sum(one.record.data_bytes + one.record.entries * _ENTRY_BYTES for one in due)
    if needed > view.free_bytes:
        yield Refusal(
            "the export",
            CHECK,
            f"{view.free_bytes // _MB} MB free",
            f"{-(-needed // _MB)} MB: the present folders stay beside the restored ones",
            "remove what earlier restores kept there, or restore fewer volumes: --volume CLAIM",
        )


def _shared(targets: Sequence[Target]) -> Iterator[Refusal]:
    """Volumes that a person gave one folder."""
    first: dict[str, str] = {}
    for one in targets:
        other = first.setdefault(one.folder, one.claim)
        if other != one.claim:
            yield Refusal(
                one.claim,
                CHECK,
                f"the folder {one.folder}, which {other} has, too",
                "a folder of its own",
                f"restore one of both: --volume {one.claim}",
            )


def _used(one: Target) -> Refusal:
    pods = ", ".join(user.pod for user in one.users[:_MOST_USERS])
    return Refusal(
        one.claim,
        CHECK,
        f"pods that use it: {pods}",
        "none: they would go on in the folder that is put aside",
        "stop them, then run the same command again: " + "; ".join(stops_of(one.claim, one.users)),
    )


def stops_of(claim: str, users: Sequence[User]) -> tuple[str, ...]:
    """The commands that stop the pods of a claim."""
    own = claim.partition("/")[0]
    owners = dict.fromkeys((user.namespace or own, user.owner) for user in users)
    return tuple(
        f"kubectl --namespace={namespace} scale {owner} --replicas=0"
        if owner.partition("/")[0] in _SCALED
        else f"kubectl --namespace={namespace} delete {owner}"
        for namespace, owner in owners
    )


def seen_by(targets: Sequence[Target], view: VolumesView) -> tuple[Target, ...]:
    """The same volumes, with what the node says of each."""
    none = SeenVolume(there=False, whole=False, swapped=False)
    found = [(one, view.volumes.get(one.claim, none)) for one in targets]
    return tuple(
        replace(one, there=seen.there, whole=seen.whole, swapped=seen.swapped)
        for one, seen in found
    )
