"""Several nodes in one batch: emptied at the same time, and back at the same time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from appliance.errors import (
    ClusterError,
    Interrupted,
    LeaseLost,
    StepNotVerified,
)
from appliance.model.plan.play import Play
from appliance.model.state.cluster.pods import Budget
from appliance.model.state.nodes.maintenance import maintenance_of
from appliance.model.state.observed import Fault
from tests.unit.upgrade.batch_scene import GRACE, SHARED, Scene
from tests.unit.upgrade.rack import TAG


def test_the_pods_of_every_node_are_asked_before_the_first_wait() -> None:
    scene = Scene()
    assert scene.both().ended
    (first, at), (second, then) = scene.evictions
    assert ({first, second}, at) == ({"web-1", "web-2"}, then)
    took = [one.took_seconds for one in scene.journal.records if one.step == "maintain: evict"]
    assert GRACE <= sum(took) < 2 * GRACE


def test_a_batch_has_one_record_of_each_step_and_one_test_with_every_node() -> None:
    scene = Scene()
    assert scene.both().ended
    names = ("maintain: cordon", "maintain: evict", "upgrade: kubelet")
    assert scene.of_the_batch == [
        (step, ("w1", "w2"))
        for step in (*names, "return: untaint", "return: test", "return: uncordon")
    ]
    assert scene.rack.proofs[-1] == ("w1", "w2", "cp1")
    assert scene.cordoned == []


def test_facts_of_every_node_are_kept_before_the_first_pod_is_asked() -> None:
    scene = Scene()
    kept: list[int] = []
    scene.on = lambda what: kept.append(_photographs(scene)) if what[:5] == "evict" else None
    assert scene.both().ended
    assert set(kept) == {2}


def _photographs(scene: Scene) -> int:
    marks = [maintenance_of(node.annotations) for node in scene.rack.api.nodes.values()]
    return sum(mark.photograph in scene.archive.documents for mark in marks if mark)


def test_a_node_that_does_not_answer_keeps_the_whole_batch_in_service() -> None:
    scene = Scene()

    def falls_silent(what: str) -> None:
        if what == "mark w2 cordon":
            scene.rack.faults["w2"] = Fault("w2", "w2: no answer on port 22", "ping it")

    scene.on = falls_silent
    with pytest.raises(ClusterError, match="no answer on port 22"):
        scene.both()
    assert (scene.evictions, scene.cordoned) == ([], [])
    scene.rack.faults.clear()
    scene.on = lambda _what: None
    assert scene.both().ended


def test_a_budget_that_both_share_lets_one_go_after_the_other() -> None:
    scene = Scene()

    def one_at_a_time(what: str) -> None:
        if what == "mark w1 cordon":
            scene.drain.budgets = [Budget("team", "web", SHARED, 1)]

    scene.on = one_at_a_time
    assert scene.both().ended
    (_, first), (_, second) = scene.evictions
    assert second - first >= GRACE


def test_a_budget_that_holds_one_node_up_gives_the_whole_batch_back() -> None:
    scene = Scene()
    scene.close_budget_of("team/web-2")
    with pytest.raises(StepNotVerified, match=r"w2: pod team/web-2.*has allowed no disruption"):
        scene.both()
    assert [name for name, _ in scene.evictions] == ["web-1"], "the other was emptied meanwhile"
    assert scene.cordoned == []
    assert "kubelet w1" not in scene.rack.done
    scene.on, scene.drain.budgets = lambda _what: None, []
    assert scene.both().ended


def test_of_a_batch_the_node_whose_test_fails_stays_out_and_the_other_is_back() -> None:
    scene = Scene()
    tested = scene.rack.run_network_test

    def test(nodes: Sequence[str], image: str, *, dns: bool = True) -> tuple[str, ...]:
        bad = "w2" in nodes
        return ("w2: DNS does not answer",) if bad else tested(nodes, image, dns=dns)

    scene.rack.run_network_test = test  # type: ignore[method-assign]
    with pytest.raises(StepNotVerified, match="w2: w2: DNS does not answer") as failed:
        scene.both()
    assert failed.value.details[-1].startswith("w2 stays out of service")
    assert scene.cordoned == ["w2"]
    assert scene.rack.api.nodes["w1"].version == TAG
    scene.rack.run_network_test = tested  # type: ignore[method-assign]
    assert scene.both().ended
    assert scene.cordoned == []


def test_of_a_batch_the_node_that_is_not_ready_stays_out_and_is_waited_for_once() -> None:
    scene = Scene()

    def breaks(what: str) -> None:
        if what == "mark w2 return":
            _set_ready(scene, "w2", ready=False)

    scene.on = breaks
    with pytest.raises(StepNotVerified, match="w2: not ready for service") as failed:
        scene.both()
    assert failed.value.details[-1].startswith("w2 stays out of service")
    assert scene.cordoned == ["w2"]
    tests = [one for one in scene.journal.records if one.step == "return: test"]
    assert [(one.nodes, one.outcome) for one in tests[-2:]] == [
        (("w1", "w2"), "not verified"),
        (("w1",), "verified"),
    ]
    scene.on = lambda _what: None
    _set_ready(scene, "w2", ready=True)
    assert scene.both().ended
    assert scene.cordoned == []


def _set_ready(scene: Scene, name: str, *, ready: bool) -> None:
    nodes = scene.rack.api.nodes
    changed = {**nodes, name: replace(nodes[name], ready=ready)}
    scene.rack.cluster = replace(scene.rack.api, nodes=changed)


def test_ctrl_c_while_pods_end_gives_every_node_back() -> None:
    scene = Scene()
    scene.at_rest = _interrupt
    with pytest.raises(Interrupted) as stopped:
        scene.both()
    assert [line for line in stopped.value.details if line.startswith("restored: ")] == [
        f"restored: {name} takes pods again; evicted pods do not move back" for name in ("w1", "w2")
    ]
    assert scene.cordoned == []
    scene.at_rest = lambda: None
    assert scene.both().ended


def _interrupt() -> None:
    raise KeyboardInterrupt


def test_ctrl_c_during_the_test_ends_it_and_nothing_else_is_tried() -> None:
    scene = Scene()
    tested, asked = scene.rack.run_network_test, list[object]()

    def interrupted(nodes: Any, *_: Any, **__: Any) -> Any:
        asked.append(nodes)
        raise KeyboardInterrupt

    scene.on = lambda what: (
        setattr(scene.rack, "run_network_test", interrupted) if what == "mark w1 return" else None
    )
    with pytest.raises(Interrupted) as stopped:
        scene.both()
    assert len(asked) == 1
    assert stopped.value.details[-1].startswith("w1, w2 stays out of service")
    assert scene.cordoned == ["w1", "w2"]
    scene.on = lambda _what: None
    scene.rack.run_network_test = tested  # type: ignore[method-assign]
    assert scene.both().ended
    assert scene.cordoned == []


def test_ctrl_c_while_a_node_is_tested_alone_leaves_the_next_as_it_is() -> None:
    scene = Scene()
    tested, asked = scene.rack.run_network_test, list[tuple[str, ...]]()

    def fails_then_interrupts(nodes: Sequence[str], image: str, *, dns: bool = True) -> Any:
        if nodes[0] != "w1":
            return tested(nodes, image, dns=dns)
        asked.append(tuple(nodes))
        if len(asked) > 1:
            raise KeyboardInterrupt
        return ("w1: w2 is not reached",)

    scene.rack.run_network_test = fails_then_interrupts  # type: ignore[method-assign]
    with pytest.raises(Interrupted) as stopped:
        scene.both()
    assert asked == [("w1", "w2", "cp1"), ("w1", "cp1")]
    assert stopped.value.details[-1].startswith("w1, w2 stays out of service")
    scene.rack.run_network_test = tested  # type: ignore[method-assign]
    assert scene.both().ended
    assert scene.cordoned == []


def test_once_the_site_is_lost_no_node_of_the_batch_is_changed() -> None:
    scene = Scene()

    def lost() -> None:
        scene.journal.refuse = LeaseLost("lost the site lock", hint="appliance status")

    scene.at_rest = lost
    with pytest.raises(LeaseLost) as stopped:
        scene.both()
    assert [line.partition(" ")[0] for line in stopped.value.details] == ["w1", "w2"]
    assert scene.cordoned == ["w1", "w2"]
    scene.journal.refuse, scene.at_rest = None, lambda: None
    assert scene.both().ended
    assert scene.cordoned == []


def changes_of(scene: Scene) -> list[str]:
    """The changes that a whole run of a batch makes on its nodes."""
    seen: list[str] = []
    scene.on = seen.append
    assert scene.both().ended
    return seen


def test_a_run_that_is_killed_at_any_change_of_a_batch_is_ended_by_the_next() -> None:
    changes = changes_of(Scene())
    assert len(changes) > len(("cordon", "evict", "out", "return", "clear")) * 2
    for number in range(len(changes)):
        scene, left = Scene(), iter(range(number))

        def killed(_what: str, left: Any = left) -> None:
            if next(left, None) is None:
                raise SystemExit

        scene.on = killed
        with pytest.raises(SystemExit):
            scene.both()
        scene.on = lambda _what: None
        assert scene.both().ended, changes[number]
        assert scene.cordoned == [], changes[number]
        assert scene.rack.api.nodes["w2"].version == TAG


def test_ctrl_c_while_nodes_are_renewed_waits_for_none_and_tests_none() -> None:
    scene = Scene()
    played, pauses = scene.rack.play, list[float]()

    def interrupted(play: Play, on_task: Callable[[str, str, bool | None], None]) -> None:
        if play.limit != ("w1", "w2") or play.playbook != "kubernetes_upgrade":
            played(play, on_task)
            return
        scene.at_rest = lambda: pauses.append(scene.clock.now())
        raise KeyboardInterrupt

    scene.rack.play = interrupted  # type: ignore[method-assign]
    with pytest.raises(Interrupted) as stopped:
        scene.both()
    assert (pauses, scene.rack.proofs) == ([], [("cp1", "w1")])
    assert stopped.value.details[-1].startswith("w1, w2 stays out of service")
    scene.rack.play, scene.at_rest = played, lambda: None  # type: ignore[method-assign]
    assert scene.both().ended
    assert scene.cordoned == []
