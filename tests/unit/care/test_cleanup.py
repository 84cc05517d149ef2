"""``cluster cleanup``: what is shown goes, and nothing else; a kill anywhere is ended by it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from appliance.errors import Refused, StepNotVerified
from appliance.model.backup.freshness import NEWEST
from appliance.model.backup.kept import KeptBackups
from appliance.model.state.cluster.cluster import Unreachable
from appliance.model.upkeep.care.items import AREAS
from appliance.workflows.cluster.cleanup import CleanupRequest, CleanupResult, cleanup
from tests import samples
from tests.fakes import run
from tests.unit.backup.test_freshness import WANTED, text
from tests.unit.care.acts import Acts, Killed
from tests.unit.care.test_records import RUN, record
from tests.unit.care.world import SITE, World


def request(world: World, **changes: Any) -> CleanupRequest:
    return replace(CleanupRequest(world.desired, run("cluster cleanup")), **changes)


def clean(world: World, session: Any = None, **changes: Any) -> CleanupResult:
    return cleanup(request(world, **changes), session or world.session(), lambda _: True)


def test_a_dry_run_and_a_no_change_nothing() -> None:
    world = World()
    assert {one.area for one in clean(world, dry_run=True).due} == set(AREAS)
    with pytest.raises(Refused, match="not confirmed"):
        cleanup(request(world), world.session(), lambda _: False)
    assert world.acts.done == []


def test_each_area_is_a_step_and_the_registry_comes_before_the_mirror() -> None:
    world = World()
    session = world.session()
    done = clean(world, session)
    assert list(done.freed) == list(AREAS)
    steps = [one.step for one in session.journal.records[1:]]
    assert steps == [f"cleanup: {area}" for area in AREAS]
    acts = world.acts.done
    assert acts.index("delete pause") < acts.index("collected") < acts.index("bundle 1111")
    assert set(world.images_on.values()) == {()}, "the bundle's list shows which are ours"
    again = clean(world)
    assert (again.due, again.done) == ((), False)


def test_after_a_kill_at_any_act_the_same_command_ends_it() -> None:
    whole = World()
    clean(whole)
    for number in range(len(whole.acts.done)):
        for after in (False, True):
            acts = Acts()
            acts.kill_at, acts.after = number, after
            world = World(acts)
            with pytest.raises(Killed):
                clean(world)
            held = {(one.repository, *one.tags) for one in world.held.revisions or ()}
            assert {("pause", "3.6"), ("busybox", "1"), ("runai/app", "2")} <= held
            acts.again()
            world.etcd.recovering.clear()
            clean(world)
            assert world.held == whole.held, (number, after)
            assert world.folders == whole.folders
            assert world.images_on == whole.images_on
            assert set(acts.done) == set(whole.acts.done), (number, after)


def test_more_than_was_shown_is_refused() -> None:
    world = World()

    def agree_late(_: CleanupResult) -> bool:
        second = replace(world.held.bundles[0], digest="9" * 64, release="r0")
        world.held = replace(world.held, bundles=(second, *world.held.bundles))
        return True

    with pytest.raises(Refused, match="more would go than was shown"):
        cleanup(request(world), world.session(), agree_late)
    assert world.acts.done == []


def test_what_is_unknown_keeps_everything_of_the_supply() -> None:
    world = World()
    world.silent = ("w1: no answer",)
    found = clean(world, dry_run=True)
    assert {one.area for one in found.due} == {"etcd", "records"}
    assert "w1: no answer" in {one.why for one in found.items}
    world = World()
    world.cluster = Unreachable("no answer")
    found = clean(world, dry_run=True)
    assert {one.area for one in found.due} == {"etcd"}


def test_one_area_alone() -> None:
    world = World()
    assert list(clean(world, areas=("images",)).freed) == ["images"]
    assert list(clean(world, areas=("mirror",)).freed) == []
    assert list(clean(world, areas=("registry",)).freed) == ["registry"]
    assert list(clean(world, areas=("mirror",)).freed) == ["mirror"]


def test_a_release_that_the_operator_keeps_stays() -> None:
    world = World()
    assert not clean(world, kept=frozenset({"r1"}), areas=("mirror", "registry")).freed.get(
        "mirror"
    )
    assert "1" * 64 in world.bundle_digests()


def test_backups_whose_place_is_not_mounted_keep_everything() -> None:
    site = replace(SITE, settings=SITE.settings.model_copy(update={"backup": WANTED}))
    world = World(desired=samples.desired(site))
    session = world.session()
    session.documents.texts[NEWEST] = text(1, site.name)
    found = clean(world, session, dry_run=True)
    assert {one.area for one in found.due} == {"etcd", "records"}
    assert any("is not where the site keeps backups" in one.why for one in found.items)
    kept = clean(world, session, dry_run=True, kept=frozenset({"r2"}))
    assert "mirror" in {one.area for one in kept.due}


def _backed_up(world: World, *noted: tuple[str, str, str]) -> Any:
    """A session whose journal has these backups: place, sha256, what else is told."""
    session = world.session()
    for number, (place, sha256, more) in enumerate(noted, start=1):
        line = f"rack-2026092{number}T141320Z: 10 bytes, sha256 {sha256}, to {place}{more}"
        session.journal.records.append(
            record(RUN.id, sequence=number, command="cluster backup create", why=(line,))
        )
    return session


THERE, GONE = "a" * 64, "b" * 64
# What the journal has, what /mnt/backups holds, and what is said of it.
PLACES: dict[str, tuple[tuple[tuple[str, str, str], ...], KeptBackups, str]] = {
    "mounted, but empty": (
        (("/mnt/backups", GONE, ""),),
        KeptBackups(),
        "/mnt/backups has none of the backups that the journal knows there, the newest "
        "rack-20260921T141320Z",
    ),
    "another share": (
        (("/mnt/backups", GONE, ", 2 missing"),),
        KeptBackups(frozenset({"r9"}), frozenset({"c" * 64})),
        "/mnt/backups has none of the backups",
    ),
    "unreadable": (
        (("/mnt/backups", THERE, ""),),
        KeptBackups(unknown="/mnt/backups cannot be read: Permission denied"),
        "Permission denied",
    ),
    "older ones were let go": (
        (("/mnt/backups", GONE, ""), ("/mnt/backups", THERE, "")),
        KeptBackups(frozenset({"r2"}), frozenset({THERE})),
        "",
    ),
    "one that went elsewhere": (
        (("/mnt/backups", THERE, ""), ("/media/stick", GONE, "")),
        KeptBackups(frozenset({"r2"}), frozenset({THERE})),
        "/media/stick has none of the backups",
    ),
    "nothing was ever written": ((), KeptBackups(), ""),
}


@pytest.mark.parametrize("case", PLACES)
def test_a_place_without_the_journals_backups_is_no_sign_that_nothing_is_needed(case: str) -> None:
    noted, held, why = PLACES[case]
    site = replace(SITE, settings=SITE.settings.model_copy(update={"backup": WANTED}))
    world = World(desired=samples.desired(site))
    world.backups["/mnt/backups"] = held
    found = clean(world, _backed_up(world, *noted), dry_run=True)
    kept = {one.area for one in found.due}.isdisjoint({"registry", "mirror", "images"})
    assert kept is bool(why)
    assert any(why in one.why for one in found.items)
    if why:
        assert any("--keep-release" in one.why for one in found.items)


def test_a_site_that_asks_for_no_backups_knows_those_of_its_journal() -> None:
    world = World()
    found = clean(world, _backed_up(world, ("/mnt/backups", GONE, "")), dry_run=True)
    assert {one.area for one in found.due} == {"etcd", "records"}


def test_a_registry_that_lacks_something_afterwards_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    real = world._registry

    def and_breaks(removed: Any) -> None:
        real(removed)
        services = world.desired.site.services_node.name
        world.documents[services]["registry"]["images"].popitem()

    monkeypatch.setattr(world, "_registry", and_breaks)
    with pytest.raises(StepNotVerified, match="the registry lacks 1 of") as told:
        clean(world, areas=("registry",))
    assert told.value.hint == "bring it back: appliance install --only registry"
