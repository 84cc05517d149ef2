"""The workflow: one node at a time, each verified; refused, killed and run again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from appliance.errors import PlaybookFailed, PreflightFailed, Refused, StepNotVerified
from appliance.model.components.control_plane.kubeconfig_copies import KubeconfigCopy
from appliance.model.plan.play import Play
from appliance.model.site.settings import Node
from appliance.model.state.cluster.cluster import NoCluster
from appliance.workflows.cluster.certificates import (
    RenewalRequest,
    RenewalResult,
    renew_certificates,
)
from tests.fakes import FakeJournal, FakeRack, run
from tests.sessions import fake_session
from tests.unit.certificates.rack import ends, rack


class Site:
    """A rack on which a play renews, and what was asked and recorded."""

    def __init__(self, found: FakeRack) -> None:
        self.rack, self.journal = found, FakeJournal()
        self.asked = 0
        self.played: list[Play] = []
        self.without_effect: set[str] = set()
        self.tested: list[list[str]] = []
        self.copies: tuple[KubeconfigCopy, ...] = (KubeconfigCopy("cp1:~ubuntu/.kube/config"),)
        self.answer: Callable[[], tuple[KubeconfigCopy, ...]] = lambda: self.copies

    def play(self, play: Play, on_task: Any) -> None:
        (node,) = play.limit
        self.played.append(play)
        on_task(node, "Renew", True)
        if node not in self.without_effect:
            ends(self.rack.documents[node])
            self.rack.documents[node]["kubernetes"]["renewal_begun"] = False

    def renew(
        self, *, agree: bool = True, meanwhile: Callable[[], object] = int, **changes: Any
    ) -> RenewalResult:
        def confirm(_plan: object) -> bool:
            self.asked += 1
            meanwhile()
            return agree

        request = RenewalRequest(self.rack.desired.site, run(), 60, **changes)
        self.rack.play = self.play  # type: ignore[method-assign]
        session = fake_session(self.rack, self.journal, try_kubeconfigs=self.try_kubeconfigs)
        return renew_certificates(request, session, confirm)

    def try_kubeconfigs(self, nodes: Sequence[Node]) -> tuple[KubeconfigCopy, ...]:
        self.tested.append([node.name for node in nodes])
        return self.answer()

    @property
    def nodes(self) -> list[str]:
        return [play.limit[0] for play in self.played]


def test_nodes_are_renewed_one_after_the_other_and_a_second_run_does_nothing() -> None:
    site = Site(rack(cp1={"server": 5}, cp3={"admin": 1}))
    assert site.renew().done
    assert site.nodes == ["cp1", "cp3"]
    assert [record.nodes for record in site.journal.records] == [("cp1",), ("cp3",)]
    assert {record.outcome for record in site.journal.records} == {"verified"}
    again = site.renew()
    assert (again.done, again.plan.renewals, site.asked) == (False, (), 1)


def test_a_kubeconfig_is_not_called_faulty_while_its_server_starts() -> None:
    site = Site(rack(cp1={"server": 5}))
    whole, late = site.copies, KubeconfigCopy("cp1", "the API does not answer", may_pass=True)
    answers = [(late,), (late,), whole]
    site.answer = lambda: answers.pop(0)
    assert site.renew().copies == whole
    assert site.tested == [["cp1"]] * 3


def test_a_server_that_never_answers_ends_the_command() -> None:
    site = Site(rack(cp1={"server": 5}))
    site.copies = (KubeconfigCopy("cp1", "the API does not answer", may_pass=True),)
    with pytest.raises(StepNotVerified, match="does not answer"):
        site.renew()


def test_a_dry_run_changes_nothing() -> None:
    site = Site(rack(cp1={"server": 5}))
    assert site.renew(dry_run=True).plan.nodes == ("cp1",)
    assert (site.played, site.asked, site.journal.records) == ([], 0, [])


def test_without_a_yes_nothing_is_changed() -> None:
    site = Site(rack(cp1={"server": 5}))
    with pytest.raises(Refused):
        site.renew(agree=False)
    assert site.played == []


def test_a_refusal_comes_before_the_question() -> None:
    site = Site(rack(cp1={"server": 5}))
    site.rack.cluster = NoCluster()
    with pytest.raises(PreflightFailed):
        site.renew()
    assert (site.asked, site.played) == (0, [])


def test_a_node_that_failed_while_a_person_read_the_plan_stops_it() -> None:
    """Etcd of the node at work restarts: with another member away it has no majority."""
    site = Site(rack(cp1={"server": 5}))

    def lose() -> None:
        site.rack.cluster = NoCluster()

    with pytest.raises(PreflightFailed):
        site.renew(meanwhile=lose)
    assert site.played == []


def test_a_second_operator_who_confirms_late_renews_nothing_again() -> None:
    site = Site(rack(cp1={"server": 5}))

    def other() -> None:
        site.renew()
        site.played.clear()

    with pytest.raises(Refused, match="changed since this was planned"):
        site.renew(meanwhile=other)
    assert site.played == []


def test_a_certificate_that_stays_ends_the_run_before_the_next_node() -> None:
    site = Site(rack(cp1={"server": 5}, cp2={"server": 5}))
    site.without_effect = {"cp1"}
    with pytest.raises(StepNotVerified, match=r"cp1: certificates were renewed, but .*apiserver"):
        site.renew()
    assert site.nodes == ["cp1"]
    site.without_effect.clear()
    assert site.renew().done
    assert site.nodes == ["cp1", "cp1", "cp2"]


def test_a_failed_play_ends_the_run_and_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site(rack(cp1={"server": 5}, cp2={"server": 5}))

    def fail(_play: Play, _on_task: Any) -> None:
        raise PlaybookFailed("cp1: kubeadm certs renew all ended with 1")

    monkeypatch.setattr(site, "play", fail)
    with pytest.raises(PlaybookFailed):
        site.renew()
    assert [record.outcome for record in site.journal.records] == ["failed"]


def test_an_api_without_a_majority_is_said_whatever_was_left_out() -> None:
    site = Site(rack(cp1={"server": -1}))
    site.rack.cluster = NoCluster()
    with pytest.raises(StepNotVerified, match="but no API server answers"):
        site.renew(without=("cp2", "cp3"))


def test_an_api_that_does_not_come_back_is_said() -> None:
    site = Site(rack(cp1={"server": -1}, cp2={"server": -1}, cp3={"server": -1}))
    site.rack.cluster = NoCluster()
    with pytest.raises(StepNotVerified, match="but no API server answers"):
        site.renew()
    # The first node cannot be healthy alone: the API is asked for after the second.
    assert site.nodes == ["cp1", "cp2"]
    inventories: Any = [play.inventory for play in site.played]
    awaited = [one["all"]["vars"]["kubernetes_certificates_await_ready"] for one in inventories]
    assert awaited == [False, True]


def test_every_kubeconfig_that_was_written_is_tested_at_the_end() -> None:
    site = Site(rack(cp1={"server": 5}, cp3={"admin": 1}))
    assert site.renew().copies == site.copies
    assert site.tested == [["cp1", "cp3"]]
    site.renew()
    assert site.tested == [["cp1", "cp3"]], "nothing was written"


def test_a_kubeconfig_that_the_api_does_not_accept_is_named_with_its_cure() -> None:
    site = Site(rack(cp1={"server": 5}))
    bad = "the API answered 401 Unauthorized"
    site.copies = (*site.copies, KubeconfigCopy("/site/.appliance/kubeconfig", bad))
    with pytest.raises(StepNotVerified, match=r"/site/\.appliance/kubeconfig: .* 401") as told:
        site.renew()
    assert told.value.hint is not None
    assert "appliance install --only control_plane" in told.value.hint
    assert told.value.exit_code == 1
