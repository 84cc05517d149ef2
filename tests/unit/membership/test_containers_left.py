"""Containers of pods that outlive the reset of their node: no removal calls that done."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from appliance.errors import StepNotVerified
from appliance.model.node.left_behind import left_behind
from appliance.model.plan.play import Play
from appliance.model.state.facts.facts import NodeFacts
from tests import samples
from tests.unit.membership.test_node_remove import Bench

UNSEEN = {"runtime.docker.containers_of_pods": "/run/docker.sock: timed out"}


def after_reset(bench: Bench, change: Callable[[dict[str, Any]], object]) -> None:
    """What the machine shows once the role has run."""
    play = bench.rack.play

    def reset(order: Play, on_task: Callable[[str, str, bool | None], None]) -> None:
        play(order, on_task)
        change(bench.rack.documents["w2"])

    bench.rack.play = reset  # type: ignore[method-assign, assignment]


def running(count: int) -> Callable[[dict[str, Any]], object]:
    """Docker tells this number of containers of pods."""
    return lambda document: document["runtime"].update(docker={"containers_of_pods": count})


def test_containers_of_pods_that_still_run_stop_a_removal_and_are_tried_again() -> None:
    bench = Bench()
    after_reset(bench, running(7))
    for _ in range(2):
        with pytest.raises(StepNotVerified, match="w2: was cleaned, but 7 containers of pods"):
            bench.remove("w2")
    assert [play.playbook for play in bench.rack.plays] == ["node_reset"] * 2
    assert bench.rack.deleted == []
    after_reset(bench, running(0))
    assert bench.remove("w2").done
    assert bench.rack.deleted == ["w2"]
    assert not bench.remove("w2").done


def test_a_docker_that_does_not_answer_after_the_reset_is_not_treated_as_empty() -> None:
    bench = Bench()
    after_reset(bench, lambda document: document.update(unseen=UNSEEN))
    with pytest.raises(StepNotVerified, match="containers_of_pods is unknown"):
        bench.remove("w2")
    with pytest.raises(StepNotVerified, match="containers_of_pods is unknown"):
        bench.remove("w2")
    assert (bench.rack.deleted, len(bench.rack.plays)) == ([], 2)


def test_a_docker_that_does_not_answer_after_a_verified_removal_changes_nothing() -> None:
    bench = Bench()
    bench.remove("w2")
    bench.rack.documents["w2"]["unseen"] = UNSEEN
    assert bench.remove("w2").plan.is_empty


def test_an_old_document_that_does_not_tell_of_them_is_as_it_was() -> None:
    document = samples.bare(samples.site().node("w1"))
    document["runtime"]["docker"] = {"version": "20.10", "containers_running": 3}
    assert left_behind(NodeFacts(document)) == ()
