"""Kubelets that did not renew their own certificate: which, in which order, and how it ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from appliance.errors import PlaybookFailed, PreflightFailed, StepNotVerified
from appliance.model.components.control_plane.kubelets import kubelet_inventory, leader_of
from appliance.model.components.control_plane.renewal import RenewalPlan, plan_renewal
from appliance.model.plan.play import Play
from appliance.model.state.cluster.cluster import Cluster, NoCluster
from appliance.model.state.observed import Fault, Look, Observed
from appliance.workflows.cluster.certificates import (
    RenewalRequest,
    RenewalResult,
    renew_certificates,
)
from tests.fakes import FakeJournal, FakeRack, run
from tests.sessions import fake_session
from tests.unit.certificates.rack import ends, kubelet_ends, rack


def planned(found: FakeRack, without: Sequence[str] = ()) -> RenewalPlan:
    site = found.desired.site
    look: Look = found.look(site.nodes)
    observed = Observed(look.node_facts, found.cluster, look.faults)
    return plan_renewal(site, observed, look, 60, without)


def ready(found: FakeRack, name: str, *, is_so: bool) -> None:
    cluster = found.cluster
    assert isinstance(cluster, Cluster)
    nodes = {**cluster.nodes, name: replace(cluster.nodes[name], ready=is_so)}
    found.cluster = replace(cluster, nodes=nodes)


def removed(found: FakeRack, name: str) -> None:
    cluster = found.cluster
    assert isinstance(cluster, Cluster)
    nodes = {one: node for one, node in cluster.nodes.items() if one != name}
    found.cluster = replace(cluster, nodes=nodes)


def test_a_kubelet_in_its_last_week_is_due_and_no_other() -> None:
    plan = planned(rack(w1={"kubelet": 3}, cp2={"kubelet": -1}, cp3={"kubelet": 8}))
    assert [(one.node, one.has_expired) for one in plan.kubelets] == [("cp2", True), ("w1", False)]
    assert (plan.renewals, plan.refusals) == ((), ())
    assert plan.work == (("kubelet_certificate", "cp2"), ("kubelet_certificate", "w1"))


def test_a_renewal_that_was_killed_is_due_although_the_certificate_is_new() -> None:
    found = rack()
    found.documents["w1"]["kubernetes"]["kubelet_renewal_begun"] = True
    (one,) = planned(found).kubelets
    assert (one.node, one.has_expired) == ("w1", False)
    assert one.reasons() == ("a renewal of its kubelet's certificate was begun and did not end",)


def test_a_node_that_was_removed_does_not_register_itself_again() -> None:
    found = rack(w1={"kubelet": -3})
    removed(found, "w1")
    assert planned(found).kubelets == ()


def test_a_worker_is_left_out_by_name_and_one_that_is_silent_is_told() -> None:
    assert planned(rack(w1={"kubelet": -3}), without=("w1",)).kubelets == ()
    found = rack()
    found.faults["w1"] = Fault("w1", "no SSH on port 22: no answer within 8 s", "ping it")
    plan = planned(found)
    assert (plan.kubelets, plan.refusals, plan.unseen) == ((), (), ("w1",))


def test_a_control_plane_node_that_its_kubelet_took_away_forbids_nothing() -> None:
    found = rack(cp1={"server": 5}, cp2={"kubelet": -1})
    ready(found, "cp2", is_so=False)
    plan = planned(found)
    assert (plan.nodes, plan.refusals) == (("cp1", "cp2"), ())
    ready(found, "cp3", is_so=False)
    assert [refusal.node for refusal in planned(found).refusals] == ["cp3"]


def test_a_kubelet_that_has_to_ask_is_refused_while_no_api_can_answer() -> None:
    found = rack(w1={"kubelet": -3})
    found.cluster = NoCluster()
    (refusal,) = planned(found).refusals
    assert (refusal.node, refusal.seen) == ("w1", "no API server that answers")
    away: dict[str, Any] = {name: {"kubelet": -1, "server": -1} for name in ("cp1", "cp2", "cp3")}
    found = rack(w1={"kubelet": -3}, **away)
    found.cluster = NoCluster()
    assert planned(found).refusals == ()


@pytest.mark.parametrize(("ahead", "refused"), [(0, []), (-9e9, []), (86_400, ["cp1"])])
def test_a_node_whose_clock_is_ahead_signs_nothing(ahead: float, refused: list[str]) -> None:
    """Its certificate would be of the future, and no later run would find it due."""
    found = rack(cp1={"kubelet": -1}, w1={"kubelet": -1})
    site = found.desired.site
    facts = {
        name: replace(one, received_at=(one.epoch or 0.0) - ahead)
        for name, one in found.look(site.nodes).node_facts.items()
    }
    plan = plan_renewal(site, Observed(facts, found.cluster), Look(facts), 60)
    assert [refusal.node for refusal in plan.refusals] == refused


def test_an_authority_that_ended_signs_nothing() -> None:
    found = rack(w1={"kubelet": -3})
    ends(found.documents["w1"], kubelet=-3, ca=-1)
    assert [refusal.node for refusal in planned(found).refusals] == ["w1"]


def test_the_token_is_made_where_the_node_is_ready() -> None:
    found = rack()
    site = found.desired.site
    ready(found, "cp1", is_so=False)
    assert isinstance(found.cluster, Cluster)
    assert leader_of(site, found.cluster, ()).name == "cp2"
    assert leader_of(site, found.cluster, ("cp2",)).name == "cp3"
    assert leader_of(site, None, ()).name == "cp1"
    inventory = kubelet_inventory(site, site.node("w1"), site.node("cp2"))["all"]
    assert list(inventory["hosts"]) == ["w1", "cp2"]
    assert inventory["vars"]["kubelet_certificate_leader"] == "cp2"
    assert not [name for name in inventory["vars"] if "token" in name]


class Site:
    """A rack on which plays renew."""

    def __init__(self, found: FakeRack) -> None:
        self.rack, self.journal = found, FakeJournal()
        self.played: list[tuple[str, str]] = []
        self.failing: set[str] = set()
        self.never_ready: set[str] = set()
        self.on_play: Any = None

    def play(self, play: Play, on_task: Any) -> None:
        (node,) = play.limit
        self.played.append((play.playbook, node))
        on_task(node, "Renew", True)
        if node in self.failing:
            raise PlaybookFailed(f"{node}: the kubelet has no new certificate")
        document = self.rack.documents[node]
        if play.playbook == "kubelet_certificate":
            for one in document["kubernetes"]["pki"]:
                if "kubelet" in one["path"]:
                    one["not_after"] = "2099-01-01T00:00:00Z"
            document["kubernetes"]["kubelet_renewal_begun"] = False
            if isinstance(self.rack.cluster, Cluster) and node not in self.never_ready:
                ready(self.rack, node, is_so=True)
        else:
            ends(document)
        if self.on_play:
            self.on_play()

    def renew(self, **changes: Any) -> RenewalResult:
        request = RenewalRequest(self.rack.desired.site, run(), 60, **changes)
        self.rack.play = self.play  # type: ignore[method-assign]
        session = fake_session(self.rack, self.journal, try_kubeconfigs=lambda _nodes: ())
        return renew_certificates(request, session, lambda _plan: True)


def test_an_ended_kubelet_is_renewed_and_its_node_ready_and_a_second_run_does_nothing() -> None:
    site = Site(rack(w1={"kubelet": -3}))
    ready(site.rack, "w1", is_so=False)
    assert site.renew().done
    assert site.played == [("kubelet_certificate", "w1")]
    assert [(one.step, one.outcome) for one in site.journal.records] == [
        ("kubelet_certificate", "verified")
    ]
    assert site.renew().plan.work == ()


def test_the_kubelet_of_a_control_plane_comes_before_its_programs_and_a_worker_after() -> None:
    days: dict[str, Any] = {"cp1": {"kubelet": -9, "server": -9}, "w1": {"kubelet": -9}}
    site = Site(rack(1, **days))
    cluster, site.rack.cluster = site.rack.cluster, NoCluster()

    def answer() -> None:
        if ("kubernetes_certificates", "cp1") in site.played:
            site.rack.cluster = cluster

    site.on_play = answer
    assert site.renew().done
    assert site.played == [
        ("kubelet_certificate", "cp1"),
        ("kubernetes_certificates", "cp1"),
        ("kubelet_certificate", "w1"),
    ]


def test_a_worker_that_fails_does_not_stop_the_others() -> None:
    site = Site(rack(w1={"kubelet": -3}, w2={"kubelet": -3}))
    site.failing = {"w1"}
    with pytest.raises(PlaybookFailed, match="w1: the kubelet has no new"):
        site.renew()
    assert [node for _, node in site.played] == ["w1", "w2"]
    site.failing = {"w1", "w2"}
    kubelet_ends(site.rack.documents["w2"], -3)
    with pytest.raises(PlaybookFailed, match="kubelets of w1, w2 have no new"):
        site.renew()
    site.failing = set()
    assert site.renew().done


def test_a_control_plane_node_that_fails_stops_everything() -> None:
    site = Site(rack(cp2={"kubelet": -3}, cp1={"server": 5}, w1={"kubelet": -3}))
    site.failing = {"cp2"}
    with pytest.raises(PlaybookFailed):
        site.renew()
    assert site.played == [("kubelet_certificate", "cp2")]


def test_a_node_that_does_not_become_ready_is_said() -> None:
    site = Site(rack(w1={"kubelet": -3}))
    ready(site.rack, "w1", is_so=False)
    site.never_ready = {"w1"}
    with pytest.raises(StepNotVerified, match=r"w1: its kubelet has a new .* not Ready"):
        site.renew()


def test_a_worker_that_turns_out_to_be_no_member_is_left_alone() -> None:
    """Without an API the plan could not know."""
    days: dict[str, Any] = {"cp1": {"server": -9}, "w1": {"kubelet": -9}}
    site = Site(rack(1, **days))
    removed(site.rack, "w1")
    cluster, site.rack.cluster = site.rack.cluster, NoCluster()

    def answer() -> None:
        site.rack.cluster = cluster

    site.on_play = answer
    site.renew()
    assert site.played == [("kubernetes_certificates", "cp1")]


def test_without_an_api_nothing_is_begun() -> None:
    site = Site(rack(w1={"kubelet": -3}))
    site.rack.cluster = NoCluster()
    with pytest.raises(PreflightFailed):
        site.renew()
    assert site.played == []
