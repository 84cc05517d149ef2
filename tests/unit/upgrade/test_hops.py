"""Two releases in one run, with the change of the container runtime between them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest

from appliance.errors import BundleRefused, Interrupted, PlaybookFailed, PreflightFailed
from appliance.model.state.observed import Observed
from appliance.model.state.upgrade import mark_of
from appliance.model.upgrade.observed import node_versions
from tests.unit.upgrade.rack import NEW, NEXT, NEXT_TAG, TAG, Bench, web

FIRST = [
    *("artifacts", "kubernetes_images", "apply cp1", "kubelet cp1"),
    *("node w1", "kubelet w1", "node w2", "kubelet w2"),
]
CHANGE = ["artifacts", "kubernetes_images", "runtime w1", "runtime w2", "runtime cp1"]
SECOND = ["apply cp1", "kubelet cp1", "node w1", "kubelet w1", "node w2", "kubelet w2"]


def done(bench: Bench) -> list[str]:
    """What plays did, without what is only done again where a run goes on."""
    return [what for what in bench.rack.done if what.partition(" ")[0] not in ("evict", "snapshot")]


def whole(bench: Bench) -> None:
    """Assert that every node has the last release, and that nothing is left of the upgrade."""
    site = bench.desired.site
    for node in site.cluster_members:
        found = node_versions(node, Observed({}, bench.rack.api))
        assert found is not None
        assert {text for _, text in found.texts()} == {NEXT_TAG}
        assert found.runtime == "containerd"
        assert found.maintenance is None
    assert bench.cordoned == []
    assert mark_of(bench.rack.cluster) is None


def test_two_releases_in_one_run_with_the_runtime_changed_between_them() -> None:
    bench = Bench(to=NEXT)
    bench.drain.pods["w1"] = [web("w1")]
    result = bench.upgrade()
    assert (result.done, result.ended) == (True, True)
    assert done(bench) == [*FIRST, *CHANGE, *SECOND]
    assert bench.chosen == [NEXT]
    whole(bench)
    again = bench.upgrade()
    assert (again.done, again.plan.steps) == (False, ())


def test_the_dry_run_shows_the_whole_path_and_its_evictions() -> None:
    bench = Bench(to=NEXT)
    bench.drain.pods["w1"] = [web("w1")]
    found = bench.upgrade(dry_run=True)
    assert [hop.release for hop in found.plan.hops] == [NEW, NEXT]
    assert [(step.release, step.kind) for step in found.plan.steps[6:10]] == [
        *((NEXT, "artifacts"), (NEXT, "kubernetes_images"), (NEXT, "runtime"), (NEXT, "runtime")),
    ]
    assert (bench.rack.plays, bench.chosen) == ([], [])


def test_each_release_is_played_with_its_own_bundle() -> None:
    bench = Bench(to=NEXT)
    bench.upgrade()
    seen = [
        (play.playbook, play.inventory["all"]["vars"].get("kubernetes_upgrade_version"))
        for play in bench.rack.plays
        if play.playbook == "kubernetes_images"
    ]
    assert seen == [("kubernetes_images", "1.23.17"), ("kubernetes_images", "1.24.17")]


@pytest.mark.parametrize("absent", [NEW, NEXT])
def test_a_bundle_that_is_not_there_refuses_before_the_first_change(absent: str) -> None:
    bench = Bench(to=NEXT)
    supplies = {name: one for name, one in bench.supplies.items() if name != absent}
    with pytest.raises(BundleRefused, match=f"expected the bundle of {absent}"):
        bench.upgrade(supplies=supplies)
    assert (bench.rack.plays, bench.chosen, mark_of(bench.rack.cluster)) == ([], [], None)


def test_the_second_bundle_may_come_after_a_pause_between_the_releases() -> None:
    bench = Bench(to=NEXT)
    supplies = {NEW: bench.supplies[NEW]}
    result = bench.upgrade(supplies=supplies, pause_after=NEW)
    assert (result.ended, result.plan.paused_after) == (False, NEW)
    assert done(bench) == FIRST
    mark = mark_of(bench.rack.cluster)
    assert mark is not None
    assert (mark.release, mark.over) == (NEXT, False)
    assert bench.upgrade().ended
    assert done(bench) == [*FIRST, *CHANGE, *SECOND]
    whole(bench)


def test_a_pause_after_a_node_stops_at_each_of_its_returns() -> None:
    bench = Bench(to=NEXT)
    seen = []
    while not bench.upgrade(pause_after="w1").ended:
        seen.append(done(bench)[-1])
        assert bench.cordoned == []
    assert seen == ["kubelet w1", "runtime w1", "kubelet w1"]
    whole(bench)


class Killed(BaseException):
    """The process is gone: nothing of it is cleaned up by an error's handling."""


def killing(bench: Bench, at: int) -> Callable[..., None]:
    """Kill the run at that play of the rack: before it, in its middle, or after it."""
    play, seen = bench.rack.play, [0]

    def killed(*words: Any) -> None:
        seen[0] += 1
        if seen[0] == (at + 1) // 2 and at % 2:
            raise Killed
        play(*words)
        if seen[0] == at // 2 and not at % 2:
            raise Killed

    return killed


# Before and after each of the plays of a whole run.
MOMENTS = [(1, at) for at in range(1, 31)] + [(3, at) for at in range(1, 51, 4)]


@pytest.mark.parametrize(("masters", "at"), MOMENTS)
def test_killed_around_any_play_the_same_command_ends_it(masters: int, at: int) -> None:
    bench = Bench(masters=masters, to=NEXT)
    play = bench.rack.play
    bench.rack.play = killing(bench, at)  # type: ignore[method-assign]
    with pytest.raises(Killed):
        bench.upgrade()
    bench.rack.play = play  # type: ignore[method-assign]
    mark = mark_of(bench.rack.cluster)
    assert mark is not None
    assert mark.release == NEXT
    assert bench.upgrade().ended
    whole(bench)


@pytest.mark.parametrize("victim", ["w1", "w2", "cp1", "cp2"])
def test_killed_in_the_middle_of_a_change_of_runtime_the_same_command_ends_it(victim: str) -> None:
    bench = Bench(masters=3, to=NEXT)
    change = bench.rack._runtime

    def half(name: str) -> None:
        if name == victim:
            nodes = bench.rack.api.nodes
            stopped = {**nodes, name: replace(nodes[name], ready=False)}
            bench.rack.cluster = replace(bench.rack.api, nodes=stopped)
            raise Killed
        change(name)

    bench.rack._runtime = half  # type: ignore[method-assign]
    with pytest.raises(Killed):
        bench.upgrade()
    assert bench.cordoned == [victim]

    def again(name: str) -> None:
        nodes = bench.rack.api.nodes
        started = {**nodes, name: replace(nodes[name], ready=True)}
        bench.rack.cluster = replace(bench.rack.api, nodes=started)
        change(name)

    bench.rack._runtime = again  # type: ignore[method-assign]
    assert bench.upgrade().ended
    images = [play.limit for play in bench.rack.plays if play.playbook == "kubernetes_images"]
    # Its runtime may be stopped: nothing is pulled there before it is changed.
    assert victim not in images[2][1:]
    whole(bench)


@pytest.mark.parametrize("name", ["w1", "cp1"])
def test_a_node_whose_runtime_does_not_change_stays_out_and_the_rest_stops(name: str) -> None:
    bench = Bench(to=NEXT)
    bench.upgrade(pause_after=NEW)
    bench.rack.fail_on[name] = PlaybookFailed(f"{name}: containerd did not start")
    with pytest.raises(PlaybookFailed) as failed:
        bench.upgrade()
    assert failed.value.details[-1].startswith(f"{name} stays out of service")
    assert bench.cordoned == [name]
    assert not any(what.startswith("apply") for what in done(bench)[len(FIRST) :])
    assert {node.version for node in bench.rack.api.nodes.values()} == {TAG}
    assert bench.upgrade().ended
    whole(bench)


def test_a_node_that_was_left_out_is_left_out_again_where_the_path_goes_on() -> None:
    bench = Bench(masters=3, to=NEXT)
    with pytest.raises(Interrupted):
        bench.upgrade(
            without=("w2",),
            pausing=lambda: nullcontext(lambda: bench.rack.done.count("apply cp1") == 2),
        )
    with pytest.raises(PreflightFailed) as refused:
        bench.upgrade()
    assert refused.value.hint == (
        f"leave out what was left out before: appliance cluster upgrade --to {NEXT} --without w2"
    )
    assert bench.upgrade(without=("w2",)).ended
