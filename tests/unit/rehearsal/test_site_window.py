"""The forecast for the site counts every node of it, by the site's own journal."""

from __future__ import annotations

from dataclasses import replace

from appliance.model.upgrade.moves.steps import UpgradeStep
from appliance.model.upgrade.plan import UpgradePlan
from appliance.model.upgrade.rehearsal.site_window import MOST, Took, site_window, taken
from appliance.model.upgrade.window import CONTROL_PLANE, KUBELET, RUNTIME
from tests.unit.rehearsal.test_report import NEW, record

CP = UpgradeStep("control_plane", NEW, ("cp1",), (), "apply")
W1 = UpgradeStep("nodes", NEW, ("w1",), (), "node")
PLAN = UpgradePlan(steps=(CP, W1))
MEASURED = {NEW: {CONTROL_PLANE: 60.0, KUBELET: 10.0, "maintain: evict": 5.0, "return: test": 5.0}}


def test_each_worker_of_a_kind_takes_its_time() -> None:
    found = site_window(PLAN, {"w1": ("w2", "w3")}, (), MEASURED)
    assert (found.median, found.source) == (60 + 3 * 20, "release")


def test_the_journal_of_the_site_counts_before_the_measurements_of_the_release() -> None:
    took = [Took("return: test", ("w2",), 100.0), Took("return: test", ("w3",), 50.0)]
    found = site_window(PLAN, {"w1": ("w2", "w3")}, took, MEASURED)
    # w2 and w3 have records of their own; w1 is taken as the median of all.
    assert found.median == 60 + 3 * 15 + 100 + 50 + 75


def test_every_kind_of_step_that_a_plan_times_is_taken_from_the_journal() -> None:
    changed = record(step=RUNTIME, nodes=("w1",), took_seconds=300.0)
    assert taken([changed]) == (Took(RUNTIME, ("w1",), 300.0),)
    plan = UpgradePlan(steps=(UpgradeStep("runtime", NEW, ("w1",), ()),))
    found = site_window(plan, {}, taken([changed]), {NEW: {RUNTIME: 40.0, **MEASURED[NEW]}})
    assert found.median == 300 + 5 + 5


def test_only_verified_steps_of_an_upgrade_are_taken_without_who_did_them() -> None:
    records = [
        record(),
        record(outcome="failed"),
        record(step="runtime"),
        record(step="return: test", nodes=("w1",), took_seconds=7.0),
    ]
    assert taken(records) == (
        Took("upgrade: control plane", ("cp1",), 61.5),
        Took("return: test", ("w1",), 7.0),
    )
    assert "ada" not in repr(taken(records))


def test_of_a_long_journal_the_newest_steps_are_taken() -> None:
    records = [record(took_seconds=float(n)) for n in range(MOST + 5)]
    found = taken(records)
    assert (len(found), found[-1].seconds) == (MOST, MOST + 4)


def test_the_rest_after_a_pause_counts_as_well() -> None:
    whole = site_window(PLAN, {}, (), MEASURED)
    assert site_window(replace(PLAN, steps=(CP,), rest=(W1,)), {}, (), MEASURED) == whole
