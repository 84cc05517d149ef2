"""An upgrade that goes on after a pause: what may have changed is judged again, before anything."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from appliance.errors import PlaybookFailed, PreflightFailed
from appliance.model.node.drain import DrainView
from appliance.model.state.cluster.pods import Budget
from tests.unit.upgrade.rack import Bench, web
from tests.unit.upgrade.test_upgrade_workflow import judged

KUBELET = "/var/lib/kubelet/pki/kubelet-client-current.pem"
# The fakes' nodes tell this time; a window and a day later is beyond it.
SOON, LATER = "2023-11-15T12:00:00+00:00", "2023-12-15T00:00:00+00:00"


def ends(node: str, end: str) -> Callable[[Bench], None]:
    def change(bench: Bench) -> None:
        for one in bench.rack.documents[node]["kubernetes"]["pki"]:
            if "not_after" in one:
                one["not_after"] = end

    return change


def full(node: str) -> Callable[[Bench], None]:
    def change(bench: Bench) -> None:
        for one in bench.rack.documents[node]["filesystems"]:
            one["free_bytes"] = 1000

    return change


def held(node: str) -> Callable[[Bench], None]:
    def change(bench: Bench) -> None:
        bench.drain.pods[node] = [web(node)]
        bench.drain.budgets = [Budget("team", "web", frozenset(("team/web-1",)), 0, "maxSurge 0")]

    return change


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (ends("cp1", SOON), "apiserver.crt"),
        (ends("w2", SOON), "kubelet-client-current.pem"),
        (full("w2"), "bytes free"),
        (held("w2"), "team/web"),
    ],
    ids=["a certificate of a master", "a certificate of a worker", "a full disk", "a budget"],
)
def test_what_changed_in_a_pause_is_refused_before_the_next_step(
    change: Callable[[Bench], None], says: str
) -> None:
    bench = judged()
    bench.upgrade(pause_after="w1")
    change(bench)
    before = list(bench.rack.done)
    with pytest.raises(PreflightFailed, match=says):
        bench.upgrade()
    assert bench.rack.done == before


def test_pods_that_a_stopped_run_moved_are_waited_for() -> None:
    bench = judged()
    bench.upgrade(pause_after="w1")
    held("w2")(bench)
    began, views = bench.clock.now(), bench.drain.views

    def later(asked: Sequence[str]) -> dict[str, DrainView]:
        if bench.clock.now() - began > 30:
            bench.drain.budgets = [replace(one, allowed=1) for one in bench.drain.budgets]
        return views(asked)

    bench.drain.views = later  # type: ignore[method-assign]
    assert bench.upgrade().ended


@pytest.mark.parametrize(
    "change",
    [full("w1"), held("w1"), ends("cp1", LATER)],
    ids=["a full disk of a node that has it", "a budget of such a node", "a later certificate"],
)
def test_what_concerns_no_step_that_is_left_stops_nothing(change: Callable[[Bench], None]) -> None:
    bench = judged()
    bench.upgrade(pause_after="w1")
    change(bench)
    assert bench.upgrade().ended


def test_while_a_node_is_out_a_budget_of_this_moment_is_asked_at_its_turn() -> None:
    bench = judged()
    bench.rack.fail_on["w1"] = PlaybookFailed("w1: no space")
    with pytest.raises(PlaybookFailed):
        bench.upgrade()
    assert bench.cordoned == ["w1"]
    bench.drain.pods["w2"] = [web("w2")]
    budget = Budget("team", "web", frozenset(("team/web-1",)), 0, "minAvailable 1")
    bench.drain.budgets = [budget]
    clear = bench.drain.clear

    def back(node: str, **more: object) -> None:
        clear(node, **more)  # type: ignore[arg-type]
        bench.drain.budgets = [replace(budget, allowed=1)]

    bench.drain.clear = back  # type: ignore[method-assign]
    assert bench.upgrade().ended
    assert "evict web-1" in bench.rack.done
