"""May Run:ai's databases be restored from this backup, and what is lost by it.

What must not be here: how a node does it (``playbooks/module_utils/appliance_restore_course.py``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from appliance.model.backup.names import SEE_BACKUPS, plain_words, stamp
from appliance.model.backup.restoring.database_view import BACKEND, is_name, is_ours
from appliance.model.backup.restoring.file_refusals import (
    of_another_site_or_tool,
    unknown_to_the_journal,
)
from appliance.model.state.plan import Refusal

if TYPE_CHECKING:
    from appliance.model.backup.record import Manifest
    from appliance.model.backup.restoring.database_view import (
        DatabaseView,
        SavedDatabase,
        SavedState,
        SeenDatabase,
    )
    from appliance.model.site.settings import Site

CHECK: Final = "restore"
FOLDER: Final = "/var/lib/appliance/runai/before-restore-"
_HOUR: Final = 3600.0
_MB: Final = 1000 * 1000
# A dump and a second one of what was restored lie on the node, beside what it keeps free.
_RESERVE_BYTES: Final = 4 << 30
_MOST_NAMED: Final = 5


@dataclass(frozen=True)
class DatabaseForecast:
    """One database.

    Attributes:
        name: of the database.
        part: of the backup, with its dump.
        saved: table -> rows in the backup.
        present: table -> rows that are there.
        whole: its dump was restored beside it already.
        swapped: it was restored already, by this restore.
    """

    name: str
    part: str
    saved: Mapping[str, int]
    present: Mapping[str, int]
    whole: bool = False
    swapped: bool = False

    @property
    def lost(self) -> Mapping[str, int]:
        """Table -> how many rows it has more than in the backup: at least as many are lost."""
        more = {table: rows - self.saved.get(table, 0) for table, rows in self.present.items()}
        return {table: rows for table, rows in more.items() if rows > 0}

    def line(self) -> str:
        """The forecast in a sentence."""
        if self.swapped:
            return f"{self.name}: restored already, {sum(self.saved.values())} rows"
        present, saved = sum(self.present.values()), sum(self.saved.values())
        told = f"{self.name}: {present} rows now, {saved} in the backup"
        lost = sorted(self.lost.items(), key=lambda one: (-one[1], one[0]))
        if not lost:
            return f"{told}; what was changed since is lost"
        named = ", ".join(f"{plain_words(t, 80)} {rows}" for t, rows in lost[:_MOST_NAMED])
        return f"{told}; at least {sum(self.lost.values())} rows are lost: {named}"


@dataclass(frozen=True)
class DatabasePlan:
    """What will run, and what forbids it.

    Attributes:
        key: the word for this restore.
        node: where it is carried out.
        backup: the name of the backup.
        point: the recovery point, in UTC.
        age_seconds: how long ago that is.
        databases: those that are restored.
        left_out: databases in the backup without any table, or of this tool.
        stops: workloads that are stopped, with their pods.
        same_form: the backup does not say its version: the form of the tables is compared.
        resumes: it was begun, and did not end.
        gone: databases that earlier restores kept, and that go at the end.
        refusals: what must be fixed first.
    """

    key: str
    node: str
    backup: str
    point: str
    age_seconds: float
    databases: tuple[DatabaseForecast, ...] = ()
    left_out: tuple[str, ...] = ()
    stops: Mapping[str, int] | None = None
    same_form: bool = False
    resumes: bool = False
    gone: tuple[str, ...] = ()
    refusals: tuple[Refusal, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The databases that are restored."""
        return tuple(one.name for one in self.databases)

    @property
    def recovery(self) -> str:
        """The recovery point in words: what came later is lost."""
        return f"{self.point}, {max(0.0, self.age_seconds) / _HOUR:.1f} hours ago"

    @property
    def folder(self) -> str:
        """Where the dumps of the present state go, on the node."""
        return f"{FOLDER}{self.key}"

    def lines(self) -> tuple[str, ...]:
        """The forecast, in sentences."""
        told = [f"goes on with the restore {self.key}"] if self.resumes else []
        told += [
            f"restores Run:ai's databases {', '.join(self.names)} from the backup {self.backup}",
            f"recovery point: {self.recovery}",
            *(one.line() for one in self.databases),
            f"{self.node}: first a dump of the present state, in {self.folder}",
            "then each dump of the backup is restored beside its database, and compared",
            *_stops(self.stops or {}),
            "the old databases stay on the server, under names that are told at the end",
        ]
        if self.gone:
            told.append(f"what earlier restores kept there goes: {', '.join(self.gone)}")
        if self.left_out:
            told.append(
                f"not restored, because nothing of Run:ai is in them: {', '.join(self.left_out)}"
            )
        if self.same_form:
            told.append("the backup does not say its version of Run:ai: tables are compared")
        told.append("namespaces of projects that were made later stay; Run:ai does not know them")
        return tuple(told)


def _stops(stops: Mapping[str, int]) -> Iterator[str]:
    running = {name.rpartition("/")[2]: pods for name, pods in stops.items() if pods}
    if running:
        named = ", ".join(sorted(running)[:_MOST_NAMED])
        more = f" and {len(running) - _MOST_NAMED} more" if len(running) > _MOST_NAMED else ""
        yield f"then stops {len(running)} workloads of runai-backend: {named}{more}"
    yield (
        "users cannot log in to Run:ai until their pods are ready again: some minutes; pods of "
        "jobs go on"
    )


@dataclass(frozen=True)
class Asked:
    """Who asks for which file, and when.

    Attributes:
        known: the journal of the site has the file.
        sha256: of the encrypted file.
        tool_version: of this tool.
        at: seconds since 1970.
        created: when the backup was begun, in seconds since 1970.
    """

    known: bool
    sha256: str
    tool_version: str
    at: float
    created: float


def plan_databases(
    site: Site, manifest: Manifest, saved: SavedState, view: DatabaseView, asked: Asked
) -> DatabasePlan:
    """Plan a restore of Run:ai's databases.

    Args:
        site: as its files have it.
        manifest: of the backup, every part of which was compared.
        saved: what the backup has of the databases.
        view: what the node says.
        asked: who asks for which file, and when.
    """
    about, begun = manifest.about, view.record
    resumes = begun is not None and begun.is_open_of(asked.sha256)
    key = begun.key if resumes and begun else f"{about.id}.{stamp(asked.at)}"
    wanted = wanted_of(saved)
    databases = tuple(
        DatabaseForecast(name, one.part, one.rows, *_seen(view.databases.get(name)))
        for name, one in sorted(wanted.items())
        if is_name(name)
    )
    node = site.vendor_node.name
    faults = (
        *_of_the_file(site, manifest, saved, asked),
        *_of_the_backend(node, view),
        *_of_the_versions(node, saved, view),
        *(() if view.fault else _of_the_databases(node, databases, view)),
        *(() if view.fault else _of_space(node, manifest, databases, view)),
    )
    return DatabasePlan(
        key=key,
        node=node,
        backup=about.id,
        point=about.created,
        age_seconds=asked.at - asked.created,
        databases=databases,
        left_out=tuple(sorted(set(saved.databases) - set(wanted))),
        stops=view.writers,
        same_form=BACKEND not in saved.versions,
        resumes=resumes,
        gone=() if resumes else view.kept,
        refusals=faults,
    )


def wanted_of(saved: SavedState) -> Mapping[str, SavedDatabase]:
    """The databases of a backup that have tables, without those of this tool."""
    return {n: one for n, one in saved.databases.items() if one.rows and not is_ours(n)}


def _seen(found: SeenDatabase | None) -> tuple[Mapping[str, int], bool, bool]:
    return ({}, False, False) if found is None else (found.rows, found.whole, found.swapped)


def _refusal(where: str, seen: str, expected: str, hint: str) -> Refusal:
    return Refusal(where, CHECK, seen, expected, hint)


def _of_the_file(
    site: Site, manifest: Manifest, saved: SavedState, asked: Asked
) -> Iterator[Refusal]:
    about = manifest.about
    yield from of_another_site_or_tool(CHECK, about, site.name, asked.tool_version)
    if not asked.known:
        yield unknown_to_the_journal(
            CHECK, about, "a dump runs with all rights of the database server"
        )
    if not wanted_of(saved):
        why = next((m.why for m in about.missing if m.what.startswith("runai")), "no dump in it")
        yield _refusal(about.id, f"no database of Run:ai: {why}", "one at least", SEE_BACKUPS)
    for name, one in wanted_of(saved).items():
        if not is_name(name):
            yield _refusal(
                about.id,
                f"a database of the name {plain_words(name, 60)!r}",
                "letters, digits, '_', '.' and '-'",
                SEE_BACKUPS,
            )
        elif manifest.part(one.part) is None:
            yield _refusal(about.id, f"no dump of the database {name}", one.part, SEE_BACKUPS)


def _of_the_backend(node: str, view: DatabaseView) -> Iterator[Refusal]:
    if view.fault:
        yield _refusal(
            node,
            view.fault,
            "a database server of Run:ai that answers",
            "see what is wrong: appliance status; without Run:ai: appliance install --only runai",
        )
        return
    found = view.versions.get(BACKEND)
    if found is None or found.status != "deployed":
        yield _refusal(
            node,
            f"the Helm release {BACKEND} is {found.status if found else 'not there'}",
            "deployed",
            "end what was begun: appliance runai upgrade FILE, or appliance install --only runai",
        )


def _of_the_versions(node: str, saved: SavedState, view: DatabaseView) -> Iterator[Refusal]:
    before, now = saved.versions.get(BACKEND), view.versions.get(BACKEND)
    if before and now and before.version != now.version:
        yield _refusal(
            node,
            f"Run:ai {now.version}",
            f"{before.version}, as the backup has it: the tables of another version differ",
            f"use a backup of Run:ai {now.version}, or install {before.version} first: "
            "appliance docs upgrade-runai",
        )


def _of_the_databases(
    node: str, databases: tuple[DatabaseForecast, ...], view: DatabaseView
) -> Iterator[Refusal]:
    for one in databases:
        if view.databases.get(one.name) is None:
            yield _refusal(
                node,
                f"no database {one.name} on the server",
                "it, even if empty: the new one gets its owner and rights",
                "let Run:ai make it: appliance install --only runai",
            )


def _of_space(
    node: str,
    manifest: Manifest,
    databases: tuple[DatabaseForecast, ...],
    view: DatabaseView,
) -> Iterator[Refusal]:
    """Dumps of the present state are no larger than the databases, and stay."""
    present = sum(seen.bytes for seen in view.databases.values() if seen is not None)
    dumps = [manifest.part(one.part) for one in databases]
    largest = max((part.size for part in dumps if part is not None), default=0)
    needed = present + 2 * largest + _RESERVE_BYTES
    if view.free_bytes < needed:
        yield _refusal(
            node,
            f"{view.free_bytes // _MB} MB free for dumps",
            f"{-(-needed // _MB)} MB",
            "free space below /var/lib/appliance: appliance cluster cleanup",
        )
