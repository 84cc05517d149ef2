"""The forecast of the window: by the site's journal, else as the release was measured."""

from __future__ import annotations

from typing import Any

import pytest

from appliance.model.state.journal import Record
from appliance.model.upgrade.moves.steps import UpgradeStep
from appliance.model.upgrade.plan import UpgradePlan
from appliance.model.upgrade.window import Clock
from tests.fakes import RUN_A
from tests.unit.upgrade.situations import NEW

MEASURED = {
    NEW: {"upgrade: kubelet": 20.0, "maintain: evict": 30.0, "return: test": 10.0, "api away": 84.0}
}


def record(step: str, node: str, took: float, outcome: Any = "verified") -> Record:
    names = (RUN_A, 1, "cluster upgrade", step, (node,), (), "2026-01-01T00:00:00+00:00", took)
    return Record(*names, outcome, "ada", "1")


NODE = UpgradeStep("nodes", NEW, ("w1",), ("old",), "node")
PAIR = UpgradeStep("nodes", NEW, ("w1", "w2"), ("old",), "node")
JOURNAL = [
    record("upgrade: kubelet", "w1", 10),
    record("upgrade: kubelet", "w1", 14),
    record("upgrade: kubelet", "w1", 90),
    record("upgrade: kubelet", "w1", 900, "failed"),
    record("maintain: evict", "w9", 5),
    record("return: test", "w1", 3),
]
CASES: list[tuple[list[Record], UpgradeStep, tuple[float, float, str]]] = [
    ([], NODE, (60, 60, "release")),
    # The nodes of a batch are emptied, renewed and tested at the same time.
    ([], PAIR, (60, 60, "release")),
    # One part that nobody measured for one of them makes it as unsure as that one.
    ([*JOURNAL, record("return: test", "w2", 30)], PAIR, (49, 125, "journal")),
    (JOURNAL, NODE, (22, 98, "journal")),
    # One part that only the release knows makes it an estimate of the release.
    (JOURNAL[:3], NODE, (54, 130, "release")),
    ([], UpgradeStep("control_plane", NEW, ("cp1",), (), "apply"), (0, 0, "unknown")),
]


@pytest.mark.parametrize(("records", "step", "expected"), CASES)
def test_a_step_is_estimated(
    records: list[Record], step: UpgradeStep, expected: tuple[float, float, str]
) -> None:
    found = Clock(records, MEASURED).of_step(step)
    assert (found.median, found.worst, found.source) == expected


def test_the_window_is_the_sum_of_its_steps() -> None:
    plan = UpgradePlan(steps=(NODE, PAIR))
    assert Clock([], MEASURED).of_plan(plan).sentence() == (
        "about 2 min (measured once, in a lab; a rack may take longer)"
    )
    assert Clock([], {}).of_plan(plan).sentence() == "nobody has measured it"


def test_only_a_sites_own_journal_promises_a_worst_case() -> None:
    twice = [*JOURNAL, record("maintain: evict", "w9", 5), record("return: test", "w1", 11)]
    known = Clock(twice, MEASURED).of_step(NODE).sentence()
    assert known == "26 s, at worst 106 s (by this site's journal)"
    half = [*JOURNAL, record("maintain: evict", "w9", 5)]
    assert Clock(half, MEASURED).of_step(NODE).sentence() == (
        "about 22 s (by this site's journal, with a single measurement; it may take longer)"
    )
    part = Clock(JOURNAL[:3], MEASURED).of_step(NODE).sentence()
    assert "at worst" not in part


def test_a_batch_with_one_node_that_was_measured_once_knows_no_worst_case() -> None:
    twice = [*JOURNAL, *JOURNAL]
    assert "at worst" in Clock(twice, MEASURED).of_step(PAIR).sentence()
    once = Clock([*twice, record("return: test", "w2", 30)], MEASURED).of_step(PAIR).sentence()
    assert once.startswith("about 49 s (by this site's journal, with a single measurement")


ONE, THREE = ("cp1",), ("cp1", "cp2", "cp3")
AWAY = {
    **{"api away": 29.0, "api away: runtime": 45.0, "api away: kubelet": 7.0},
    "api away: several control planes": 1.8,
}
KUBEADM = UpgradeStep("control_plane", NEW, ("cp1",), (), "apply")
STOPPING = [
    (KUBEADM, ONE, 29.0),
    (UpgradeStep("runtime", NEW, ("cp1",), ()), ONE, 45.0),
    (UpgradeStep("nodes", NEW, ("cp1",), ()), ONE, 7.0),
    (KUBEADM, THREE, 1.8),
    (UpgradeStep("runtime", NEW, ("cp1",), ()), THREE, 1.8),
]


@pytest.mark.parametrize(("step", "masters", "seconds"), STOPPING)
def test_each_step_that_stops_an_api_server_says_how_long_the_api_is_away(
    step: UpgradeStep, masters: tuple[str, ...], seconds: float
) -> None:
    found = Clock([], {NEW: AWAY}).api_away(step, masters)
    assert found is not None
    assert (found.median, found.source) == (seconds, "release")
    unmeasured = Clock([], {}).api_away(step, masters)
    assert unmeasured is not None
    assert unmeasured.source == "unknown"


def test_a_sites_own_measurement_comes_first() -> None:
    found = Clock([record("api away", "cp1", 12)], {NEW: AWAY}).api_away(KUBEADM, ONE)
    assert found is not None
    assert (found.median, found.source) == (12, "journal")


def test_a_worker_stops_no_api() -> None:
    assert Clock([], {NEW: AWAY}).api_away(PAIR, ONE) is None
    images = UpgradeStep("kubernetes_images", NEW, ("cp1",), ())
    assert Clock([], {NEW: AWAY}).api_away(images, ONE) is None


def test_seconds_below_ten_keep_their_tenths() -> None:
    found = Clock([], {NEW: AWAY}).api_away(KUBEADM, THREE)
    assert found is not None
    assert found.sentence().startswith("about 1.8 s (measured once, in a lab")
