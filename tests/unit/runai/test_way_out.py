"""The ways out of an upgrade of Run:ai that was begun with a bad vendor bundle."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from appliance.errors import PlaybookFailed, PreflightFailed, Refused, StepNotVerified
from appliance.model.components.base.subject import Subject
from appliance.model.components.runai.checks import vendor_bundle_version
from appliance.model.components.runai.upgrade.plan import UpgradePlan
from appliance.model.state.observed import Observed
from appliance.workflows.runai.abandon import abandon_upgrade
from appliance.workflows.runai.upgrade import RunaiUpgradeRequest, RunaiUpgradeResult
from tests import samples
from tests.fakes import run
from tests.sessions import fake_session
from tests.unit.runai.test_runai_upgrade import STEPS, Bench, refusal
from tests.unit.runai.upgrade_rack import bundle


def begun() -> Bench:
    """A bench whose new vendor bundle could not be prepared."""
    bench = Bench()
    bench.rack.fail = {"runai_prepare": PlaybookFailed("cp1: an image archive is damaged")}
    with pytest.raises(PlaybookFailed):
        bench.upgrade()
    bench.rack.fail = {}
    bench.rack.plays.clear()
    return bench


def helm_begun() -> Bench:
    """A bench on which the backend has the new version, and nothing was taken back."""
    bench = Bench()
    bench.rack.without_effect = {"runai_upgrade"}
    bench.rack.fail = {"runai_rollback": PlaybookFailed("cp1: helm is away")}
    with pytest.raises(StepNotVerified):
        bench.upgrade()
    bench.rack.without_effect, bench.rack.fail = set(), {}
    assert bench.rack.desired.vendor_bundle
    bench.rack.release(bench.rack.desired.vendor_bundle, bench.rack.desired, "runai-backend")
    bench.rack.plays.clear()
    return bench


def mend(bench: Bench) -> str:
    """Another file of the same version is at hand; its digest."""
    sha256 = "9" * 64
    target = replace(bundle("2.8.2"), contents=replace(bundle("2.8.2").contents, sha256=sha256))
    bench.rack.desired = replace(bench.rack.desired, vendor_bundle=target)
    return sha256


def abandon(bench: Bench, *, agree: bool = True, **changes: Any) -> RunaiUpgradeResult:
    def confirm(_plan: UpgradePlan) -> bool:
        return agree

    desired = replace(bench.rack.desired, vendor_bundle=None)
    session = fake_session(bench.rack, bench.journal, observer=bench.observer)
    return abandon_upgrade(RunaiUpgradeRequest(desired, run(), **changes), session, confirm)


def test_a_mended_file_of_the_same_version_takes_the_place_of_the_bad_one() -> None:
    bench = begun()
    sha256 = mend(bench)
    done = bench.upgrade()
    assert (done.done, done.plan.current, bench.played) == (True, "2.7.1", STEPS)
    assert bench.rack.record["target_sha256"] == sha256
    assert bench.rack.record["source"]["version"] == "2.7.1"
    assert done.plan.steps[0].reasons[0].text == "it was begun with another file of Run:ai 2.8.2"


def test_a_mended_file_keeps_the_dump_from_before_helm() -> None:
    bench = helm_begun()
    before = dict(bench.rack.record)
    mend(bench)
    assert bench.upgrade().done
    assert bench.played == STEPS
    given = bench.rack.plays[0].inventory["all"]["vars"]
    assert given["runai_upgrade_has_begun"] is True
    assert given["runai_upgrade_folder"] == before["folder"]
    assert given["runai_upgrade_revisions"] == before["revisions"]
    assert given["runai_upgrade_source"] == before["source"]


def test_another_version_is_refused_and_both_ways_out_are_named() -> None:
    bench = begun()
    bench.rack.desired = replace(bench.rack.desired, vendor_bundle=bundle("2.8.22"))
    said = refusal(bench.rack)
    assert "any complete vendor bundle of 2.8.2" in said
    assert "appliance runai upgrade --abandon" in said


def test_once_helm_began_no_message_offers_to_drop_it() -> None:
    bench = helm_begun()
    bench.rack.desired = replace(bench.rack.desired, vendor_bundle=bundle("2.8.22"))
    assert "--abandon" not in refusal(bench.rack)


def test_an_upgrade_that_changed_nothing_is_dropped_and_another_one_begins() -> None:
    bench = begun()
    done = abandon(bench)
    assert (done.done, done.plan.current, done.plan.target) == (True, "2.7.1", "2.8.2")
    assert bench.played == ["runai_rollback"]
    given = bench.rack.plays[0].inventory["all"]["vars"]
    assert given["runai_upgrade_only_unchanged"] is True
    assert bench.outcomes[-1] == ("runai_rollback", "verified")
    again = abandon(bench)
    assert (again.done, again.plan.steps) == (False, ())
    bench.rack.plays.clear()
    bench.rack.desired = replace(bench.rack.desired, vendor_bundle=bundle("2.8.22"))
    assert bench.upgrade().done
    assert bench.played == STEPS


def test_what_helm_changed_is_not_dropped() -> None:
    bench = helm_begun()
    with pytest.raises(PreflightFailed, match="a release of Run:ai that helm changed"):
        abandon(bench)
    assert bench.played == []


def test_a_dry_run_or_a_no_drops_nothing() -> None:
    bench = begun()
    assert abandon(bench, dry_run=True).plan.steps
    with pytest.raises(Refused):
        abandon(bench, agree=False)
    assert bench.played == []


def test_a_record_that_stays_open_is_told() -> None:
    bench = begun()
    bench.rack.without_effect = {"runai_rollback"}
    with pytest.raises(StepNotVerified, match="its record is still open"):
        abandon(bench)


def test_an_install_names_the_way_out_as_well() -> None:
    bench = begun()
    rack = bench.rack
    observed = Observed(samples.node_facts(rack.documents), rack.cluster)
    node = rack.desired.site.node(rack.node)
    subject = Subject(node, observed.node_facts[rack.node], rack.desired, observed)
    (finding,) = vendor_bundle_version(subject)
    assert "appliance runai upgrade --abandon" in finding.hint
