"""A worker that has not joined and is silent is left out; whatever else is silent stops all."""

from __future__ import annotations

from dataclasses import replace

import pytest

from appliance.errors import LeftOut, NodeUnreachable
from appliance.model.plan.left_out import spare_workers
from appliance.model.plan.planner import Scope
from appliance.model.site.settings import Site
from appliance.model.state.cluster.cluster import Cluster, NoCluster, Unreachable
from appliance.model.state.observed import Fault
from appliance.model.state.plan import Plan
from appliance.workflows.session.survey import require_none_left_out
from tests import samples
from tests.unit.install.test_install import ALL, Bench

SILENT = Fault("w2", "w2: no SSH on 10.0.0.12:22: timed out", "is it powered on?")


def bench(*silent: str) -> Bench:
    found = Bench()
    for name in silent:
        found.rack.faults[name] = replace(SILENT, node=name, reason=f"{name}: timed out")
    return found


def without_w2(found: Bench) -> None:
    """The cluster that comes has no such member."""
    take = found.rack._take_effect

    def effect(play: object) -> None:
        take(play)  # type: ignore[arg-type]
        if isinstance(found.rack.cluster, Cluster):
            nodes = {k: v for k, v in found.rack.cluster.nodes.items() if k != "w2"}
            pods = tuple(pod for pod in found.rack.cluster.pods if pod.node != "w2")
            found.rack.cluster = replace(found.rack.cluster, nodes=nodes, pods=pods)

    found.rack._take_effect = effect  # type: ignore[method-assign]


def installed_without_w2() -> Bench:
    found = bench("w2")
    without_w2(found)
    found.install()
    return found


def test_the_first_install_goes_on_without_it_and_says_so_at_the_end() -> None:
    found = bench("w2")
    without_w2(found)
    done = found.install()
    assert list(done.steps) == ALL
    assert {record.outcome for record in found.journal.records} == {"verified"}
    assert ("note", "left out (the other nodes continue): w2: timed out") in found.observer.said
    with pytest.raises(LeftOut, match="w2: timed out") as told:
        require_none_left_out(done.plan)
    assert told.value.exit_code == 1
    assert "appliance install" in (told.value.hint or "")


def test_it_is_in_no_step_and_no_play_while_the_others_still_know_its_name() -> None:
    found = installed_without_w2()
    for play in found.rack.plays:
        assert "w2" not in play.limit
        variables = play.inventory["all"]["vars"]
        assert "w2" not in variables["preflight_peers"]
        assert "w2" in str(variables["host_base_hosts"])
        assert "w2" in play.inventory["all"]["hosts"]
    assert all("w2" not in record.nodes for record in found.journal.records)
    assert all("w2" not in proof for proof in found.rack.proofs)


def test_the_second_run_changes_nothing_and_still_says_so() -> None:
    found = installed_without_w2()
    plays = len(found.rack.plays)
    done = found.install()
    assert done.steps == ()
    assert len(found.rack.plays) == plays
    assert [fault.node for fault in done.plan.left_out] == ["w2"]
    assert {one.nodes for one in done.plan.unseen} == {("w2",)}


def test_once_it_answers_the_same_command_brings_it() -> None:
    found = installed_without_w2()
    found.rack.faults.clear()
    found.rack._take_effect = type(found.rack)._take_effect.__get__(found.rack)  # type: ignore[method-assign]
    done = found.install()
    assert done.plan.left_out == ()
    assert isinstance(found.rack.cluster, Cluster)
    assert found.rack.cluster.nodes["w2"].ready
    assert "w2" in done.plan.choice.joining
    require_none_left_out(done.plan)


def test_a_rehearsal_names_it() -> None:
    plan = bench("w2").install(dry_run=True).plan
    assert [fault.node for fault in plan.left_out] == ["w2"]
    assert all("w2" not in step.nodes for step in plan.steps)


def test_who_is_not_asked_for_is_not_missed() -> None:
    plan = bench("w2").install(scope=Scope(nodes=frozenset({"cp1", "w1"})), dry_run=True).plan
    assert plan.left_out == ()
    plan = bench("w2").install(scope=Scope(only="control_plane"), dry_run=True).plan
    assert plan.left_out == ()


@pytest.mark.parametrize("scope", [Scope(nodes=frozenset({"w2"}))])
def test_named_it_has_to_answer(scope: Scope) -> None:
    found = bench("w2")
    with pytest.raises(NodeUnreachable, match="w2"):
        found.install(scope=scope)
    assert found.rack.plays == []


def test_a_control_plane_node_that_does_not_answer_stops_everything() -> None:
    found = bench("cp1", "w2")
    with pytest.raises(NodeUnreachable, match="2 of 3 nodes cannot be reached") as told:
        found.install()
    assert told.value.details == ("nodes: cp1, w2",)
    assert found.rack.plays == []


def test_a_member_that_does_not_answer_stops_everything() -> None:
    found = Bench()
    found.install()
    found.rack.faults["w2"] = SILENT
    with pytest.raises(NodeUnreachable, match="w2"):
        found.install()


@pytest.mark.parametrize("deceives", [True, False])
def test_a_member_that_lets_us_in_and_tells_nothing_does_not_hold_the_others_up(
    deceives: bool,
) -> None:
    found = Bench()
    found.install()
    found.rack.faults["w2"] = replace(SILENT, answers=True, logged_in=True, deceives=deceives)
    done = found.install()
    assert [fault.node for fault in done.plan.left_out] == ["w2"]
    with pytest.raises(LeftOut):
        require_none_left_out(done.plan)


def test_a_member_that_refuses_ssh_logins_stops_the_install() -> None:
    found = Bench()
    found.install()
    found.rack.faults["w2"] = replace(SILENT, answers=True)
    with pytest.raises(NodeUnreachable, match="w2"):
        found.install()


def test_without_the_api_it_is_unknown_which_workers_have_joined() -> None:
    found = bench("w2")
    found.rack.cluster = Unreachable("timed out", {"cp1": "etcd data"})
    with pytest.raises(NodeUnreachable, match="w2"):
        found.install()


def test_several_are_all_named() -> None:
    found = bench("w1", "w2")
    found.rack.cluster = NoCluster()
    plan = found.install(dry_run=True).plan
    with pytest.raises(LeftOut) as told:
        require_none_left_out(plan)
    assert "w1" in told.value.message
    assert "w2" in told.value.details[0]
    assert plan.step("workers") is None


def with_groups(**groups: set[str]) -> Site:
    site = samples.site()
    return replace(
        site,
        nodes=tuple(
            replace(node, groups=frozenset(groups.get(node.name, node.groups)))
            for node in site.nodes
        ),
    )


def test_what_others_rest_on_is_never_left_out() -> None:
    assert spare_workers(with_groups()) == {"w1", "w2"}
    assert spare_workers(with_groups(w1={"cpu_workers", "system_nodes"})) == {"w2"}
    assert spare_workers(with_groups(w1={"services"})) == {"w2"}
    assert spare_workers(samples.site(nfs={"server": "w2", "path": "/srv/nfs"})) == {"w1"}


def test_a_plan_without_any_raises_nothing() -> None:
    require_none_left_out(Plan((), ()))
