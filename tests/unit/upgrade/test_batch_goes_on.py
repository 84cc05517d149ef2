"""What is left of a batch that failed is ended by the next run, and is said as it is."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from appliance.errors import ClusterRefused, Interrupted, StepNotVerified
from appliance.model.node.drain import DrainView
from appliance.model.state.cluster.pods import Budget
from tests.unit.upgrade.batch_scene import Scene
from tests.unit.upgrade.rack import TAG, web


def test_a_node_that_is_given_back_is_not_said_to_stay_out() -> None:
    """An earlier run was killed while it moved pods: this one gives the node back, too."""
    scene = Scene()

    def killed(what: str) -> None:
        if what == "evict web-1":
            raise SystemExit

    scene.on = killed
    with pytest.raises(SystemExit):
        scene.both()
    assert scene.cordoned == ["w1", "w2"]
    scene.on = lambda _what: None
    scene.drain.budgets = [Budget("team", "web", frozenset({"team/web-2"}), 0)]
    with pytest.raises(StepNotVerified) as failed:
        scene.both()
    assert scene.cordoned == []
    assert not [line for line in failed.value.details if "stays out of service" in line]


def test_a_budget_that_waits_for_a_node_that_is_out_does_not_keep_it_out() -> None:
    """An earlier run left w1 out; until it is back, nothing of w2's pods may go."""
    scene = Scene(workers=3)
    tested = scene.rack.run_network_test

    def test(nodes: Sequence[str], image: str, *, dns: bool = True) -> tuple[str, ...]:
        bad = nodes[0] == "w1"
        return ("w1: DNS does not answer",) if bad else tested(nodes, image, dns=dns)

    scene.rack.run_network_test = test  # type: ignore[method-assign]
    with pytest.raises(StepNotVerified):
        scene.both()
    assert scene.cordoned == ["w1"]
    scene.rack.run_network_test = tested  # type: ignore[method-assign]
    scene.drain.pods["w3"] = [web("w3", "web-3")]
    scene.drain.budgets = [Budget("team", "web", frozenset({"team/web-3"}), 0)]

    def back(what: str) -> None:
        if what == "clear w1":
            scene.drain.budgets = []

    scene.on = back
    assert scene.both().ended
    assert scene.cordoned == []


def test_where_the_last_mark_of_a_batch_cannot_be_written_every_node_is_given_back() -> None:
    scene = Scene()

    def refuses(what: str) -> None:
        if what == "mark w2 out of service":
            raise ClusterRefused("w2: a webhook denied the request")

    scene.on = refuses
    with pytest.raises(ClusterRefused) as failed:
        scene.both()
    assert scene.cordoned == []
    assert [line for line in failed.value.details if line.startswith("restored: ")] == [
        f"restored: {name} takes pods again; evicted pods do not move back" for name in ("w1", "w2")
    ]
    assert not [line for line in failed.value.details if "stays out of service" in line]
    scene.on = lambda _what: None
    assert scene.both().ended


@pytest.mark.parametrize("batch", [("w1", "w2"), ("w1",)], ids=["together", "alone"])
def test_ctrl_c_between_two_steps_of_a_return_names_the_nodes_that_stay_out(
    batch: tuple[str, ...],
) -> None:
    scene = Scene()
    asked = scene.drain.view

    def interrupted(node: str) -> DrainView:
        api = scene.rack.api.nodes
        if all(api[name].version == TAG and api[name].unschedulable for name in batch):
            raise KeyboardInterrupt
        return asked(node)

    scene.drain.view = interrupted  # type: ignore[method-assign]
    with pytest.raises(Interrupted) as stopped:
        scene.upgrade(max_unavailable=len(batch))
    assert stopped.value.details[-1].startswith(f"{', '.join(batch)} stays out of service")
    scene.drain.view = asked  # type: ignore[method-assign]
    assert scene.both().ended
    assert scene.cordoned == []
