"""The workflow goes on: what is judged while a node is out, what is owed, what is served again."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Interface
from typing import Any

import pytest

from appliance.errors import PlaybookFailed, PreflightFailed, StepNotVerified
from appliance.model.state.cluster.pods import Budget
from tests import samples
from tests.unit.gpu.test_api_away import away_at_the_install
from tests.unit.patch.bench import UPDATES, Bench, state
from tests.unit.upgrade.rack import web


def out(bench: Bench, name: str) -> None:
    """A first run that fails on a node, which stays out of service."""
    bench.rack.fail_on[name] = PlaybookFailed(f"{name}: killed")
    with pytest.raises(PlaybookFailed):
        bench.patch(nodes=(name,))
    bench.rack.done.clear()


def test_the_evictions_of_other_nodes_are_judged_while_one_is_out() -> None:
    bench = Bench()
    out(bench, "w1")
    twice = frozenset({"team/web-1"})
    bench.drain.pods["w2"] = [web("w2")]
    bench.drain.budgets = [Budget("team", name, twice, 1) for name in ("one", "two")]
    with pytest.raises(PreflightFailed, match="is covered by 2 PodDisruptionBudgets"):
        bench.patch()
    assert bench.rack.done == []


def test_a_budget_that_waits_for_the_node_that_is_out_does_not_keep_it_out() -> None:
    bench = Bench()
    out(bench, "w1")
    bench.drain.pods["w2"] = [web("w2")]
    bench.drain.budgets = [Budget("team", "web", frozenset({"team/web-1"}), 0)]
    found = bench.patch(dry_run=True)
    assert found.plan.refusals == ()
    assert [one.severity for one in found.forecasts["w2"].concerns] == ["blocks"]


def test_a_node_that_is_out_and_comes_back_first_takes_the_pods_of_the_next() -> None:
    bench = Bench()
    out(bench, "w1")
    bench.drain.pods["w2"] = [web("w2")]
    assert bench.patch(dry_run=True).plan.refusals == ()
    assert bench.patch().done
    assert bench.patched == ["w1", "w2", "cp1"]


def test_an_api_that_is_away_when_the_bundle_is_copied_is_waited_for() -> None:
    bench = Bench()
    bench.rack.documents["cp1"]["artifacts"]["bundle_digest"] = "00" * 32
    reads = away_at_the_install(bench)
    assert bench.patch().done
    assert bench.rack.done[0] == "artifacts"
    assert reads[-1] >= reads[2] + 60


def with_services_alone(**more: Any) -> Bench:
    """A services node that is no member of the cluster."""
    bench = Bench(workers=1, **more)
    site = bench.desired.site
    masters = [replace(node, groups=node.groups - {"services"}) for node in site.nodes]
    alone = replace(site.node("cp1"), name="srv", address=IPv4Interface("198.18.7.9/24"))
    alone = replace(alone, groups=frozenset({"services"}))
    bench.desired = replace(bench.desired, site=replace(site, nodes=(alone, *masters)))
    bench.rack.desired = bench.desired
    nodes = {node.name: samples.converged(node, bench.desired) for node in bench.desired.site.nodes}
    bench.rack.documents = nodes
    bench.rack.states["srv"] = state("srv")
    return bench


def test_a_services_node_that_was_killed_before_the_effect_restarts_what_it_owes() -> None:
    bench = with_services_alone()
    packages = {**state("srv").packages, **UPDATES}
    bench.rack.states["srv"] = state("srv", packages=packages, stale=("nfs-mountd.service",))
    done = bench.patch(nodes=("srv",))
    assert done.plan.steps[-1].why == ("srv: nfs-mountd.service still uses a replaced file",)
    assert (bench.patched, bench.patch(nodes=("srv",)).plan.steps) == (["srv"], ())


def test_a_services_node_that_was_killed_before_its_boot_boots() -> None:
    bench = with_services_alone()
    packages = {**state("srv").packages, "linux-firmware": "1.188"}
    bench.rack.states["srv"] = state("srv", packages=packages, unbooted=("linux-firmware",))
    bench.patch(nodes=("srv",))
    assert bench.rack.hosts["srv"]["node_patch_boot_from"] == "boot-1-srv"
    assert bench.patch(nodes=("srv",)).plan.steps == ()


@pytest.mark.parametrize("alone", [True, False], ids=["no member", "member"])
def test_what_the_services_node_offers_is_proved_after_its_patch(alone: bool) -> None:
    bench = with_services_alone() if alone else Bench(workers=1)
    name = bench.desired.site.services_node.name

    def dies(_name: str) -> None:
        bench.rack.documents[name]["registry"]["serving"] = {"ok": False, "error": "refused"}

    bench.rack.after_patch[name] = dies
    with pytest.raises(StepNotVerified) as caught:
        bench.patch(nodes=(name,))
    assert caught.value.message.startswith(f"{name}: its packages are in effect, but ")
    assert caught.value.hint == "repair it: appliance install"
    assert bench.cordoned == []


def test_what_the_services_node_lacked_before_its_patch_is_no_fault_of_the_patch() -> None:
    bench = with_services_alone()
    bench.rack.documents["srv"]["registry"]["serving"] = {"ok": False, "error": "refused"}
    assert bench.patch(nodes=("srv",)).done


def test_no_other_node_is_in_a_batch_with_one_that_is_out() -> None:
    """A budget of its pods may wait for the very node that is out."""
    bench = Bench(workers=3)
    bench.rack.fail_on["w2"] = PlaybookFailed("w2: apt failed")
    with pytest.raises(PlaybookFailed):
        bench.patch(nodes=("w2",))
    bench.rack.batches.clear()
    bench.patch(max_unavailable=2)
    assert bench.rack.batches == [("w2",), ("w1", "w3"), ("cp1",)]
