"""Another machine answers under an accepted name, and no Node object says so any more."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from appliance.errors import ApplianceError, NodeUnreachable, PreflightFailed
from appliance.model.node.baseline import Acceptance, passport_of
from appliance.model.plan.planner import plan
from appliance.model.state.cluster.cluster import Cluster, ClusterNode, NoCluster, Unreachable
from appliance.model.state.facts.facts import NodeFacts
from appliance.model.state.observed import Observed
from appliance.workflows.install import InstallRequest, InstallResult, install
from appliance.workflows.node.add import node_add
from appliance.workflows.node.baselines import read_passport
from appliance.workflows.node.joining import JoinRequest
from appliance.workflows.node.rejoin import node_rejoin
from appliance.workflows.session.checks import preflight_with
from appliance.workflows.session.session import Session
from tests import samples
from tests.fakes import FakeArchive, FakeBmcs, FakeEtcd, FakeRack, run
from tests.sessions import fake_session
from tests.unit.health.test_workflow import FakeControlHost

ACCEPT = "appliance node add w2 --replace w2"


class CountingArchive(FakeArchive):
    """Counts how often passports are asked for, and can be too busy for them alone."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0
        self.busy: ApplianceError | None = None

    def names(self, folder: str) -> tuple[str, ...]:
        if folder == "passports":
            self.asked += 1
            if self.busy:
                raise self.busy
        return super().names(folder)


class Bench:
    """An installed rack with the passports of its nodes; w2 is empty, and has no Node object."""

    def __init__(self, serial: str = "SN-foreign") -> None:
        desired = samples.desired()
        self.rack, self.archive = FakeRack(desired), CountingArchive()
        self.rack.documents = {n.name: samples.converged(n, desired) for n in desired.site.nodes}
        self.rack.cluster = samples.cluster(desired)
        for node in desired.site.cluster_members:
            facts = NodeFacts(self.rack.documents[node.name])
            kept = passport_of(
                node, facts, ClusterNode(node.name, ready=True), Acceptance("ada@laptop", "now")
            )
            self.archive.documents[kept.document] = kept.text()
        self.rack.documents["w2"] = samples.bare(desired.site.node("w2"))
        self.rack.documents["w2"]["dmi"]["serial"] = serial
        nodes = {name: one for name, one in self.rack.cluster.nodes.items() if name != "w2"}
        self.rack.cluster = replace(self.rack.cluster, nodes=nodes)

    @property
    def session(self) -> Session:
        judge = preflight_with(FakeControlHost(), self.archive)

        def of_passports(*asked: Any) -> Any:
            # The nodes of the samples have faults that are no matter here.
            return [finding for finding in judge(*asked) if finding.check == "passport"]

        return fake_session(
            self.rack,
            archive=self.archive,
            preflight=of_passports,
            etcd=FakeEtcd(self.rack.desired.site),
            bmcs=FakeBmcs(),
        )

    def install(self) -> InstallResult:
        return install(InstallRequest(self.rack.desired, run()), self.session, lambda _: True)

    def join(self, workflow: Any, **more: Any) -> None:
        request = JoinRequest(self.rack.desired, "w2", run(), **more)
        workflow(request, self.session, lambda *_: True)

    @property
    def is_untouched(self) -> bool:
        return self.rack.plays == []

    @property
    def has_joined(self) -> bool:
        assert isinstance(self.rack.cluster, Cluster)
        return "w2" in self.rack.cluster.nodes

    def spoil(self, text: str) -> None:
        self.archive.documents["passports/w2.json"] = text


def test_an_install_does_not_let_in_another_machine_than_the_accepted_one() -> None:
    bench = Bench()
    with pytest.raises(PreflightFailed) as caught:
        bench.install()
    assert bench.is_untouched
    assert "w2: passport: found a machine with serial SN-foreign" in caught.value.message
    assert "serial SN-w2, which was accepted under this name" in caught.value.message
    assert ACCEPT in (caught.value.hint or "")


def test_the_command_of_the_hint_lets_it_in_and_accepts_it() -> None:
    bench = Bench()
    bench.join(node_add, replace="w2")
    assert bench.has_joined
    kept = read_passport(bench.archive, "w2")
    assert kept is not None
    assert kept.serial == bench.rack.documents["w2"]["dmi"]["serial"]
    assert bench.install().steps == ()


@pytest.mark.parametrize("join", [False, True])
def test_the_accepted_machine_comes_back_after_it_was_reinstalled(join: bool) -> None:
    bench = Bench("SN-w2")
    if join:
        bench.join(node_rejoin)
    else:
        bench.install()
    assert bench.has_joined


def test_another_machine_under_a_removed_nodes_credentials_is_no_member_either() -> None:
    bench = Bench()
    desired = bench.rack.desired
    bench.rack.documents["w2"] = samples.converged(desired.site.node("w2"), desired)
    bench.rack.documents["w2"]["dmi"]["serial"] = "SN-foreign"
    with pytest.raises(PreflightFailed, match="SN-foreign"):
        bench.install()
    assert bench.is_untouched


def test_a_placeholder_for_a_serial_proves_nothing() -> None:
    bench = Bench("To Be Filled By O.E.M.")
    bench.install()
    assert bench.has_joined


def test_a_member_whose_hardware_changed_is_no_matter_of_an_install() -> None:
    bench = Bench("SN-w2")
    bench.install()
    bench.rack.documents["w1"]["dmi"]["serial"] = "SN-new-board"
    bench.rack.documents["w1"]["clock"]["service"] = "systemd-timesyncd"
    asked = bench.archive.asked
    bench.rack.cluster = samples.annotated(
        bench.rack.cluster, ["w1"], "appliance.dev/dmi-serial", "SN-new-board"
    )
    findings = bench.session.preflight(
        bench.rack.desired,
        observed := bench.rack.look(bench.rack.desired.site.nodes).node_facts,
        Observed(observed, bench.rack.cluster),
    )
    assert findings == []
    assert bench.archive.asked == asked, "every machine is a member: no passport is asked for"


def test_an_archive_that_cannot_be_read_is_not_one_without_passports() -> None:
    bench = Bench()
    bench.archive.busy = NodeUnreachable("no control-plane node answers: cp1: busy")
    with pytest.raises(NodeUnreachable) as caught:
        bench.install()
    assert bench.is_untouched
    assert "cp1: busy" in caught.value.message
    assert "w2: the machine that was accepted under this name is unknown" in caught.value.message
    assert "control-plane nodes: appliance status" in (caught.value.hint or "")


@pytest.mark.parametrize("text", ["", "{}", "nonsense", '{"node": "w1"}'])
def test_a_passport_that_is_none_is_no_leave(text: str) -> None:
    bench = Bench()
    bench.spoil(text)
    with pytest.raises(PreflightFailed, match=r"passports/w2\.json") as caught:
        bench.install()
    assert bench.is_untouched
    assert ACCEPT in (caught.value.hint or "")
    bench.join(node_add, replace="w2")
    assert bench.has_joined
    assert read_passport(bench.archive, "w2") is not None


def test_a_node_that_never_had_a_passport_joins() -> None:
    bench = Bench()
    del bench.archive.documents["passports/w2.json"]
    bench.install()
    assert bench.has_joined


def test_a_first_install_asks_no_archive() -> None:
    bench = Bench()
    desired = bench.rack.desired
    bench.rack.documents = {node.name: samples.bare(node) for node in desired.site.nodes}
    bench.rack.cluster = NoCluster()
    bench.archive.busy = NodeUnreachable("no control-plane node answers")
    bench.archive.documents.clear()
    findings = bench.session.preflight(
        desired,
        observed := bench.rack.look(desired.site.nodes).node_facts,
        Observed(observed, NoCluster()),
    )
    assert (findings, bench.archive.asked) == ([], 0)


def test_without_an_api_an_empty_machine_is_judged_all_the_same() -> None:
    bench = Bench()
    desired = bench.rack.desired
    seen = bench.rack.look(desired.site.nodes).node_facts
    observed = Observed(seen, Unreachable("the API does not answer", {"cp1": "etcd data"}))
    findings = bench.session.preflight(desired, seen, observed)
    assert [finding.node for finding in findings] == ["w2"]
    assert [one.check for one in plan(desired, observed, findings).refusals] == ["passport"]
