"""Which nodes get new certificates, in which order, and what forbids it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from appliance.model.components.control_plane.renewal import (
    RenewalPlan,
    awaits_ready,
    plan_renewal,
    renewal_inventory,
)
from appliance.model.state.cluster.cluster import Cluster, NoCluster
from appliance.model.state.observed import Fault, Look, Observed
from tests.fakes import FakeRack
from tests.unit.certificates.rack import rack

AWAY = Fault("cp2", "cp2 (198.18.7.12): no SSH on port 22: no answer within 8 s", "ping it")


def planned(found: FakeRack, within: float = 60, without: Sequence[str] = ()) -> RenewalPlan:
    site = found.desired.site
    look: Look = found.look(site.nodes)
    observed = Observed(look.node_facts, found.cluster, look.faults)
    return plan_renewal(site, observed, look, within, without)


def test_certificates_of_an_authority_that_ended_are_not_renewed() -> None:
    """Nobody would trust them, and the programs that still run would restart with them."""
    plan = planned(rack(cp2={"server": 1, "ca": -1}))
    (refusal,) = plan.refusals
    assert (refusal.node, refusal.seen[:34]) == ("cp2", "/etc/kubernetes/pki/ca.crt, which ")
    assert "does not renew a CA" in refusal.hint
    assert planned(rack(cp2={"server": 1, "ca": 1})).refusals == ()
    assert planned(rack(cp2={"ca": -1})).refusals == ()


DUE: list[tuple[dict[str, Any], int, tuple[str, ...]]] = [
    ({}, 60, ()),
    ({"cp2": {"server": 1}}, 60, ("cp2",)),
    ({"cp2": {"admin": 59}, "cp3": {"server": 61}}, 60, ("cp2",)),
    ({"cp2": {"admin": 59}, "cp3": {"server": 61}}, 90, ("cp2", "cp3")),
    # kubeadm renews neither; the kubelet renews its own, and in its last days is made to.
    ({"cp1": {"ca": 10, "kubelet": 8}}, 60, ()),
    ({"cp1": {"ca": 10, "kubelet": 3}}, 60, ("cp1",)),
    ({"cp1": {"server": 5}, "cp3": {"server": -2}}, 60, ("cp3", "cp1")),
]


@pytest.mark.parametrize(("days", "within", "nodes"), DUE)
def test_nodes_with_too_few_days_are_renewed_the_expired_first(
    days: dict[str, Any], within: int, nodes: tuple[str, ...]
) -> None:
    plan = planned(rack(**days), within)
    assert (plan.nodes, plan.refusals) == (nodes, ())


def test_each_file_is_a_reason() -> None:
    (renewal,) = planned(rack(cp1={"server": 12, "admin": -3})).renewals
    assert [reason.split(" (")[0] for reason in renewal.reasons()] == [
        "/etc/kubernetes/admin.conf expired 3 days ago",
        "/etc/kubernetes/pki/apiserver.crt expires in 12 days",
    ]


def test_a_renewal_that_was_killed_is_finished() -> None:
    found = rack()
    found.documents["cp3"]["kubernetes"]["renewal_begun"] = True
    (renewal,) = planned(found).renewals
    assert renewal.node == "cp3"
    assert renewal.reasons() == ("a renewal was begun and did not end",)


def test_a_node_that_does_not_answer_is_a_refusal_unless_it_is_left_out() -> None:
    found = rack(cp1={"server": 5})
    found.faults["cp2"] = AWAY
    (refusal,) = planned(found).refusals
    assert (refusal.node, refusal.seen) == ("cp2", AWAY.reason)
    assert refusal.hint.endswith("appliance cluster certificates renew --without cp2")
    plan = planned(found, without=("cp2",))
    assert (plan.nodes, plan.refusals, plan.left_out) == (("cp1",), (), ("cp2",))


def unready(found: FakeRack, name: str) -> None:
    cluster = found.cluster
    assert isinstance(cluster, Cluster)
    nodes = {**cluster.nodes, name: replace(cluster.nodes[name], ready=False)}
    found.cluster = replace(cluster, nodes=nodes)


def test_another_node_that_is_not_ready_forbids_it() -> None:
    found = rack(cp1={"server": 5})
    unready(found, "cp3")
    (refusal,) = planned(found).refusals
    assert (refusal.node, refusal.seen) == ("cp3", "not Ready")
    assert planned(found, without=("cp3",)).refusals == ()
    assert planned(rack(), within=60).refusals == ()


def test_an_api_that_is_away_forbids_it_until_something_has_expired() -> None:
    found = rack(cp1={"server": 5})
    found.cluster = NoCluster()
    (refusal,) = planned(found).refusals
    assert refusal.seen.startswith("no API server that answers")
    found = rack(cp1={"server": -1}, cp2={"server": -1}, cp3={"server": -1})
    found.cluster = NoCluster()
    assert planned(found).refusals == ()


AWAITED: list[tuple[int, dict[str, Any], list[bool]]] = [
    (1, {"cp1": {"server": -1}}, [True]),
    (3, {"cp1": {"server": 5}, "cp2": {"server": 5}}, [True, True]),
    # etcd's members no longer trust one another: two of three must be renewed first.
    (3, {f"cp{n}": {"server": -1} for n in (1, 2, 3)}, [False, True, True]),
    (3, {"cp2": {"server": -1}}, [True]),
]


@pytest.mark.parametrize(("masters", "days", "expected"), AWAITED)
def test_health_is_awaited_once_a_majority_can_trust_one_another(
    masters: int, days: dict[str, Any], expected: list[bool]
) -> None:
    found = rack(masters, **days)
    plan = planned(found)
    renewed: list[str] = []
    told = []
    for name in plan.nodes:
        renewed.append(name)
        told.append(awaits_ready(found.desired.site, plan, renewed))
    assert told == expected


def test_the_inventory_has_one_node_and_no_secret() -> None:
    site = rack().desired.site
    found = renewal_inventory(site, site.node("cp2"), 60, await_ready=False)
    assert list(found["all"]["hosts"]) == ["cp2"]
    variables = found["all"]["vars"]
    assert variables["kubernetes_certificates_within_days"] == 60
    assert variables["kubernetes_certificates_await_ready"] is False
    assert not [name for name in variables if name.startswith("vault_")]


def unfinished(*names: str, masters: int = 3, **days: dict[str, float]) -> FakeRack:
    found = rack(masters, **days)
    for name in names:
        found.documents[name]["kubernetes"]["renewal_begun"] = True
        unready(found, name)
    return found


def test_a_node_that_is_away_for_another_reason_forbids_to_finish_a_renewal() -> None:
    """Etcd of the node at work restarts: with the third member away it has no majority."""
    found = unfinished("cp1")
    assert planned(found).refusals == ()
    unready(found, "cp3")
    (refusal,) = planned(found).refusals
    assert (refusal.node, refusal.seen) == ("cp3", "not Ready")
    assert planned(found, without=("cp3",)).refusals == ()


def test_a_node_that_was_left_half_done_comes_before_every_other_one() -> None:
    assert planned(unfinished("cp3", cp1={"server": 5})).nodes == ("cp3", "cp1")
    assert planned(unfinished("cp3", cp1={"server": -5})).nodes == ("cp1", "cp3")


@pytest.mark.parametrize(
    ("masters", "names", "refused"),
    [(1, ("cp1",), False), (3, ("cp1",), True), (3, ("cp1", "cp2"), False), (3, (), False)],
)
def test_an_api_that_is_away_is_explained_only_by_nodes_that_leave_no_majority(
    masters: int, names: tuple[str, ...], refused: bool
) -> None:
    found = unfinished(*names, masters=masters)
    found.cluster = NoCluster()
    assert bool(planned(found).refusals) is refused
