"""Clean up what fills the disks: etcd, the registry, the mirror, nodes and this machine.

Each area is one step of the run. What goes is decided anew under the lock and before each area, by
what is on the disks; so the same command ends what a killed one began. What must not be here: what
may go (:mod:`appliance.model.upkeep.care`), or how a node removes it (the roles).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from appliance.errors import ClusterError, StepNotVerified
from appliance.model.components.registry import unmet
from appliance.model.plan.play import Play
from appliance.model.plan.steps import CLEANUP
from appliance.model.state.cluster.cluster import Unreachable
from appliance.model.state.observed import Observed
from appliance.model.upkeep.care.inventory import cleanup_inventory
from appliance.model.upkeep.care.items import AREAS, Area, Item, going, total
from appliance.model.upkeep.care.supply import Verdict
from appliance.workflows.cluster.cleaning.etcd import clean_etcd
from appliance.workflows.cluster.cleaning.look import Looked, look
from appliance.workflows.session.confirmation import require_as_shown, require_confirmed
from appliance.workflows.session.recording import AGAIN, Recorder

if TYPE_CHECKING:
    from appliance.model.state.desired import Desired
    from appliance.model.state.journal import Run
    from appliance.workflows.session.session import Session

COMMAND: Final = "cluster cleanup"
WHY: Final[dict[Area, str]] = {
    "etcd": "free pages, or the alarm NOSPACE",
    "registry": "images and blobs that nothing needs",
    "mirror": "bundles that nothing needs",
    "images": "images that nothing needs",
    "records": "runs that are over",
}


@dataclass(frozen=True)
class CleanupRequest:
    """What was asked for, by whom.

    Attributes:
        areas: what is looked at; each of :data:`AREAS` where none is named.
        kept: releases whose bundle and images stay, beside those that are found to be needed.
        dry_run: only look.
    """

    desired: Desired
    run: Run
    areas: tuple[Area, ...] = AREAS
    kept: frozenset[str] = frozenset()
    dry_run: bool = False


@dataclass(frozen=True)
class CleanupResult:
    """What was found, and what went.

    Attributes:
        items: everything that was looked at.
        freed: area -> bytes; only of areas that were carried out.
    """

    items: tuple[Item, ...]
    freed: dict[Area, int] = field(default_factory=dict)
    done: bool = False

    @property
    def due(self) -> tuple[Item, ...]:
        """What goes."""
        return going(self.items)


def cleanup(
    request: CleanupRequest, session: Session, confirm: Callable[[CleanupResult], bool]
) -> CleanupResult:
    """Look, ask, remove, and look again.

    Raises:
        NodeUnreachable: the services node does not answer; nothing was changed.
        Refused: not confirmed, or more would go than was shown; nothing was changed.
        ClusterError: etcd or the services node refused; the same command goes on.
        PlaybookFailed: a node refused; the same command goes on.
        StepNotVerified: it is still there, or something that is needed is missing.
    """
    found = CleanupResult(_look(request, session, request.areas).items)
    if request.dry_run or not found.due:
        return found
    require_confirmed(confirm(found))
    shown = {one.key for one in found.due}
    with session.lock:
        now = _look(request, session, request.areas)
        more = [one for one in going(now.items) if one.key not in shown]
        require_as_shown((), tuple(more), "more would go than was shown")
        freed = _Cleaning(request, session, shown).carry_out(going(now.items))
    return replace(found, freed=freed, done=True)


def _look(request: CleanupRequest, session: Session, areas: tuple[Area, ...]) -> Looked:
    return look(request.desired, session, areas, request.kept)


class _Cleaning:
    """One run, after everything that could refuse it."""

    def __init__(
        self, request: CleanupRequest, session: Session, shown: set[tuple[str, str, str]]
    ) -> None:
        self._request, self._session, self._shown = request, session, shown
        self._recorder = Recorder(request.run, session)

    def carry_out(self, due: Sequence[Item]) -> dict[Area, int]:
        """Every area in order: the list of a bundle is needed until its images are gone."""
        freed: dict[Area, int] = {}
        for area in AREAS:
            ours = [one for one in due if one.area == area]
            if not ours:
                continue
            names = tuple(sorted({one.node for one in ours}))
            with self._recorder.run_step(f"cleanup: {area}", names, _why(area, ours)):
                freed[area] = self._area(area, ours)
        return freed

    def _area(self, area: Area, due: Sequence[Item]) -> int:
        if area == "etcd":
            return clean_etcd(self._request.desired.site, self._session.care.etcd, self._session)
        if area == "records":
            return self._records(due)
        return self._play(area)

    def _records(self, due: Sequence[Item]) -> int:
        runs, freed = self._session.care.runs, 0
        for one in due:
            try:
                kind, _, name = one.what.partition(" ")
                if kind == "run":
                    runs.remove_run(name.partition(":")[0])
                else:
                    runs.remove_facts(one.what.removeprefix("facts of "))
            except FileNotFoundError:
                continue
            except OSError as error:
                raise ClusterError(f"{one.what}: not removed: {error}", hint=AGAIN) from error
            freed += one.size_bytes or 0
        return freed

    def _play(self, area: Area) -> int:
        """Play the roles of one area, by what is there now, and look again."""
        now = self._now(area)
        due = going(now.items)
        services = self._request.desired.site.services_node
        before = self._missing()
        for bundle in now.verdict.bundles if area == "mirror" else (None,):
            digest = bundle.digest if bundle else ""
            if bundle and not any(bundle.name == one.what for one in due):
                continue
            inventory = cleanup_inventory(
                self._request.desired, area, now.verdict, due, removed_digest=digest
            )
            names = tuple(sorted({one.node for one in due}))
            self._session.playbooks.play(
                Play(self._request.run.id, CLEANUP.name, names, inventory), self._on_task
            )
        left = [one for one in going(self._now(area).items) if one.key in self._shown]
        if left:
            raise StepNotVerified(f"{left[0].node}: {left[0].what} is still there", hint=AGAIN)
        lost = [text for text in self._missing() if text not in before]
        if lost:
            raise StepNotVerified(
                f"{services.name}: {lost[0]}",
                hint="bring it back: appliance install --only registry",
                details=lost[1:],
            )
        return total(due)

    def _now(self, area: Area) -> Looked:
        # The registry's part decides whether a bundle's list is needed still.
        areas: tuple[Area, ...] = (area,)
        found = _look(self._request, self._session, areas)
        items = tuple(
            one if not one.goes or one.key in self._shown else replace(one, goes=False)
            for one in found.items
        )
        return Looked(items, _only(found.verdict, items, area))

    def _missing(self) -> tuple[str, ...]:
        """What the registry lacks of the release, by the probe of the services node."""
        desired = self._request.desired
        services = desired.site.services_node
        observed = self._session.nodes.look([services])
        if services.name not in observed.node_facts:
            return ()
        seen = Observed(observed.node_facts, Unreachable("not asked"))
        return tuple(unmet.images(services, desired, seen))

    def _on_task(self, name: str, task: str, changed: bool | None) -> None:
        self._session.observer.task(CLEANUP.name, name, task, changed=changed)


def _only(verdict: Verdict, items: Sequence[Item], area: Area) -> Verdict:
    """The verdict on images, without those that were not shown."""
    if area == "mirror":
        return verdict
    names = {one.what for one in items if one.goes}
    return replace(verdict, images={n: d for n, d in verdict.images.items() if n in names})


def _why(area: Area, due: Sequence[Item]) -> tuple[str, ...]:
    shown = [f"{one.node}: {one.what}: {one.why}" for one in due[:20]]
    more = [f"and {len(due) - len(shown)} more"] if len(due) > len(shown) else []
    return (f"{WHY[area]}: {len(due)}", *shown, *more)
