"""``runai upgrade`` never loses the one dump, and never takes back what may have changed data."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from appliance.errors import PlaybookFailed, PreflightFailed, Refused, StepNotVerified
from appliance.model.components.runai.upgrade.plan import UpgradePlan
from appliance.model.plan.play import Play
from appliance.workflows.runai.upgrade import RunaiUpgradeRequest, upgrade_runai
from tests.fakes import run
from tests.sessions import fake_session
from tests.unit.backup.test_freshness import WANTED
from tests.unit.runai.test_runai_upgrade import STEPS, Bench, plan_of


def names(plan: UpgradePlan) -> list[str]:
    return [step.name for step in plan.steps]


def prepared() -> Bench:
    """A bench on which helm was not begun: the bundle's play of the upgrade had no effect."""
    bench = Bench()
    bench.rack.without_effect = {"runai_upgrade"}
    bench.rack.fail = {"runai_rollback": PlaybookFailed("cp1: helm is away")}
    with pytest.raises(StepNotVerified):
        bench.upgrade()
    bench.rack.without_effect, bench.rack.fail = set(), {}
    bench.rack.plays.clear()
    return bench


def test_a_fresh_backup_is_asked_for_before_the_first_change_alone() -> None:
    bench = Bench()
    site = bench.rack.desired.site
    settings = site.settings.model_copy(update={"backup": WANTED})
    desired = replace(bench.rack.desired, site=replace(site, settings=settings))
    bench.rack.desired = desired
    with pytest.raises(PreflightFailed, match="no backup of this site is known"):
        bench.upgrade()
    assert (bench.played, bench.asked) == ([], 0)
    assert not bench.upgrade(dry_run=True).done
    begun = prepared()
    begun.rack.desired = desired
    assert begun.upgrade().plan.resumes
    said = str(begun.observer.said)
    assert "warning: an upgrade of Run:ai: no backup of this site is known" in said
    assert bench.upgrade(without_backup=True).done


def test_a_second_operator_who_confirms_late_does_not_run_a_plan_that_is_over() -> None:
    bench = Bench()

    def meanwhile(_plan: UpgradePlan) -> bool:
        bench.upgrade()
        bench.rack.plays.clear()
        return True

    session = fake_session(
        bench.rack,
        bench.journal,
        read_claimed_volumes=bench.rack.read_claimed_volumes,
        observer=bench.observer,
        choose_vendor_bundle=bench.choose_vendor_bundle,
    )
    request = RunaiUpgradeRequest(bench.rack.desired, run())
    with pytest.raises(Refused, match="changed since it was planned"):
        upgrade_runai(request, session, meanwhile)
    # Its first step would have replaced the dump by one of the upgraded database.
    assert bench.played == []
    assert bench.rack.record["source"]["version"] == "2.7.1"


def test_what_was_verified_is_not_taken_back_where_only_a_later_look_failed() -> None:
    bench = Bench()
    whole = bench.rack.play

    def leaves_a_pod(play: Play, on_task: Any) -> None:
        whole(play, on_task)
        if play.playbook == "runai_upgrade":
            bench.rack.release(bench.rack.installed, bench.rack.desired, "runai-cluster")

    bench.rack.play = leaves_a_pod  # type: ignore[method-assign]
    with pytest.raises(StepNotVerified, match="were verified, so nothing was taken back") as caught:
        bench.upgrade()
    assert "runai_rollback" not in bench.played
    assert "appliance plan" in str(caught.value.hint)


def test_a_play_that_was_cut_off_after_its_verification_is_not_taken_back() -> None:
    bench = Bench()
    whole = bench.rack.play

    def is_cut_off(play: Play, on_task: Any) -> None:
        whole(play, on_task)
        if play.playbook == "runai_upgrade":
            raise PlaybookFailed("cp1: the connection was lost")

    bench.rack.play = is_cut_off  # type: ignore[method-assign]
    with pytest.raises(PlaybookFailed, match="nothing was taken back"):
        bench.upgrade()
    assert bench.played == STEPS


@pytest.mark.parametrize(("age", "again"), [(60, False), (3 * 86400, True)])
def test_a_dump_from_before_helm_is_made_anew_when_it_is_old(age: int, again: bool) -> None:
    bench = prepared()
    now = bench.rack.documents[bench.rack.node]["clock"]["epoch"]
    bench.rack.record["dump"]["taken"] = now - age
    plan = plan_of(bench.rack)
    assert names(plan) == (STEPS if again else ["runai_upgrade"])
    if again:
        assert "the dump of the database is 72 hours old" in plan.steps[0].reasons[0].text
        assert bench.upgrade().done
        assert bench.played == STEPS


def test_releases_that_are_back_while_the_record_is_open_have_a_dump_of_their_own_time() -> None:
    """A rollback was killed before its note; users went on with the old version for days."""
    bench = prepared()
    bench.rack.release(bench.rack.installed, bench.rack.desired, "runai-backend", "runai-cluster")
    plan = plan_of(bench.rack)
    assert names(plan) == STEPS
    assert "other revisions than those that were saved" in plan.steps[0].reasons[0].text
    assert bench.upgrade().done
    assert bench.rack.record["revisions"] == {"runai-backend": 2, "runai-cluster": 2}


@pytest.mark.parametrize("loss", ["old", "gone"])
def test_once_helm_began_no_dump_takes_the_place_of_the_one_from_before(loss: str) -> None:
    bench = prepared()
    target = bench.rack.desired.vendor_bundle
    assert target is not None
    bench.rack.release(target, bench.rack.desired, "runai-backend")
    if loss == "old":
        bench.rack.record["dump"]["taken"] = 1.0
    else:
        bench.rack.record["dump_is_there"] = False
    assert names(plan_of(bench.rack)) == ["runai_upgrade"]
    assert bench.upgrade().done
    given = bench.rack.plays[-1].inventory["all"]["vars"]
    assert given["runai_upgrade_has_begun"] is True


def test_where_nothing_was_taken_back_the_same_command_goes_on_and_the_page_has_the_way() -> None:
    bench = Bench()
    bench.rack.fail = {
        "runai_upgrade": PlaybookFailed("cp1: a pod is not ready"),
        "runai_rollback": PlaybookFailed("cp1: the new version changed the database"),
    }
    with pytest.raises(PlaybookFailed, match="was not restored: cp1: the new version") as caught:
        bench.upgrade()
    # A helm rollback by hand first would start the old version on the new database.
    assert "helm" not in str(caught.value.hint)
    assert "run the same command again: it goes on" in str(caught.value.hint)
    assert "appliance docs upgrade-runai" in str(caught.value.hint)
