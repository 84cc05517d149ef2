"""Where operands restart Docker: nothing moves before its node is empty."""

from __future__ import annotations

from dataclasses import replace

import pytest

from appliance.errors import (
    PlaybookFailed,
    StepNotVerified,
)
from appliance.model.checks.preflight import preflight
from appliance.model.components.gpu.in_turn import digest_of_values, node_by_node
from appliance.model.state.certificates import values_digest
from appliance.model.state.observed import Observed
from tests.contract import tree
from tests.unit.gpu.upgrade_rack import Bench

# Group of the play -> the role that runs there, and its entry point.
ENTRIES = (
    ("appliance_gpu_upgrade_operator", "gpu_operator", "main"),
    ("appliance_gpu_upgrade_driver", "gpu_driver", "upgrade"),
    ("appliance_gpu_upgrade_operands", "gpu_operator", "renew_node"),
)


def test_driver_of_a_container_waits_for_empty_nodes_and_is_settled_at_the_end() -> None:
    bench = Bench(loaded="515.65.01", driver="container")
    found = bench.upgrade()
    assert [step.kind for step in found.plan.steps] == ["operator", "node", "node", "settle"]
    assert bench.rack.done == ["operator", "operands w1", "operands w2", "operator"]
    assert not any(step.reboots for step in found.plan.steps)
    values = [
        play.inventory["all"]["vars"]["gpu_operator_values"]["daemonsets"].get("updateStrategy")
        for play in bench.rack.plays
    ]
    assert values == ["OnDelete", "OnDelete", "OnDelete", None]
    release = bench.rack.api.releases[0]
    assert release.values_sha256 == digest_of_values(bench.desired)
    assert bench.upgrade().plan.steps == ()


def test_a_run_that_was_killed_before_the_end_settles_a_container() -> None:
    bench = Bench(loaded="515.65.01", driver="container")
    bench.fails("w2", PlaybookFailed("w2: its driver's pod does not start"))
    with pytest.raises(PlaybookFailed):
        bench.upgrade()
    middle = digest_of_values(node_by_node(bench.desired))
    assert bench.rack.api.releases[0].values_sha256 == middle
    # An install would let the operands of w2 roll under its pods.
    look = bench.rack.look(bench.desired.site.nodes)
    observed = Observed(look.node_facts, bench.rack.cluster)
    found = preflight(bench.desired, look.node_facts, observed)
    assert {one.step for one in found if one.check == "gpu_operator_upgrade"} == {"gpu"}
    again = bench.upgrade()
    assert [step.kind for step in again.plan.steps] == ["node", "settle"]
    assert again.plan.proved == ("w1",)
    assert bench.cordoned == []


def test_a_driver_of_the_site_itself_is_left_alone() -> None:
    bench = Bench(loaded="535.54.03", driver="preinstalled")
    found = bench.upgrade()
    # The operator's toolkit restarts Docker, so each node is emptied first.
    assert [step.kind for step in found.plan.steps] == ["operator", "node", "node", "settle"]
    assert bench.rack.done == ["operator", "operands w1", "operands w2", "operator"]
    assert bench.rack.driver_of("w1") == "535.54.03"
    assert not any(step.reboots for step in found.plan.steps)


def test_the_values_in_the_middle_differ_only_in_how_pods_are_replaced() -> None:
    desired = Bench(loaded="515.65.01", driver="container").desired
    middle, end = digest_of_values(node_by_node(desired)), digest_of_values(desired)
    assert middle != end
    assert digest_of_values(node_by_node(Bench().desired)) == digest_of_values(Bench().desired)
    assert values_digest({}) not in (middle, end)


def test_operands_do_not_roll_while_a_node_is_of_an_older_template() -> None:
    bench = Bench(loaded="515.65.01", driver="container")
    bench.upgrade()
    bench.rack._pods(bench.rack.manifest.images["driver:525.60.13-ubuntu20.04"], "0ld", "w1")
    again = bench.upgrade(dry_run=True)
    assert [(step.kind, step.nodes) for step in again.plan.steps] == [("node", ("w1",))]
    assert again.plan.proved == ("w2",)


def test_a_pod_that_became_old_meanwhile_stops_before_the_operands_may_roll() -> None:
    bench = Bench(loaded="515.65.01", driver="container")
    play = bench.rack.play

    def late(*words: object) -> None:
        play(*words)  # type: ignore[arg-type]
        if bench.rack.done[-1] == "operands w2":
            bench.rack._pods(bench.rack.manifest.images["driver:525.60.13-ubuntu20.04"], "0", "w1")

    bench.rack.play = late  # type: ignore[assignment,method-assign]
    with pytest.raises(StepNotVerified, match="w1: driver: its pod is not the bundle's"):
        bench.upgrade()
    assert bench.rack.done == ["operator", "operands w1", "operands w2"]
    bench.rack.play = play  # type: ignore[method-assign]
    assert bench.upgrade().done
    assert bench.rack.done[3:] == ["operands w1", "operator"]


@pytest.mark.parametrize("mode", ["host", "container", "preinstalled"])
def test_each_play_is_given_what_its_roles_require(mode: str) -> None:
    bench = Bench(loaded="515.65.01" if mode == "container" else "525.60.13", driver=mode)
    bench.upgrade()
    roles = {role.name: role for role in tree.roles()}
    seen = set()
    for play in bench.rack.plays:
        everything = play.inventory["all"]
        for group, role, entry in ENTRIES:
            for name in everything["children"][group]["hosts"]:
                assert name in play.limit
                given = {**everything["vars"], **everything["hosts"][name]}
                spec = roles[role].specs[entry]["options"]
                required = {key for key, option in spec.items() if option.get("required")}
                assert required - given.keys() == set()
                seen.add(entry)
    assert seen == {"main", "upgrade" if mode == "host" else "renew_node"}


def test_no_node_goes_out_before_the_operator_has_written_its_daemon_sets() -> None:
    bench = Bench(loaded="515.65.01", driver="container")
    began, read = bench.clock.now(), bench.rack.read
    seen: list[tuple[float, int]] = []

    def slow(*words: object) -> object:
        stack = bench.rack.api.gpu_stack
        late = bench.clock.now() - began
        if stack and bench.rack.done == ["operator"] and late < 60:
            templates = {**stack.templates, f"operand-{late // 10:.0f}": "new"}
            bench.rack.cluster = replace(
                bench.rack.api, gpu_stack=replace(stack, templates=templates)
            )
        seen.append((late, len(bench.rack.done)))
        return read(*words)  # type: ignore[arg-type]

    bench.rack.read = slow  # type: ignore[assignment,method-assign]
    assert bench.upgrade().done
    first = min(late for late, done in seen if done > 1)
    assert first >= 50 + 30
