"""Rejoin and add against a fake rack: proof first, then an install of that node alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from appliance.errors import NodeUnreachable, PlaybookFailed, PreflightFailed, Refused
from appliance.model.node.answering import AnsweringMachine
from appliance.model.node.baseline import Passport
from appliance.model.node.bmc.report import BmcReport
from appliance.model.node.membership import MemberRecord, Removal, parse_record
from appliance.model.plan.play import Play
from appliance.model.state.cluster.cluster import Cluster, NoCluster
from appliance.model.state.nodes.node_metadata import NodeMetadata
from appliance.model.state.observed import Fault
from appliance.model.state.plan import Plan
from appliance.workflows.node.add import node_add
from appliance.workflows.node.joining import JoinRequest, JoinResult
from appliance.workflows.node.rejoin import node_rejoin
from tests import samples
from tests.fakes import (
    FakeArchive,
    FakeBmcs,
    FakeClock,
    FakeEtcd,
    FakeJournal,
    FakeObserver,
    FakeRack,
    run,
)
from tests.sessions import fake_session

LABELS = {"run.ai/type": "dgx"}
GONE = Removal("ada", "now", serial="SN-w2")


@dataclass
class Bench:
    """An installed rack, of which one node is lost."""

    masters: int = 1
    rack: FakeRack = field(init=False)
    etcd: FakeEtcd = field(init=False)
    bmcs: FakeBmcs = field(default_factory=FakeBmcs)
    archive: FakeArchive = field(default_factory=FakeArchive)
    journal: FakeJournal = field(default_factory=FakeJournal)
    shown: list[tuple[str, ...]] = field(default_factory=list)
    machines: list[AnsweringMachine] = field(default_factory=list)
    clock: FakeClock = field(default_factory=FakeClock)
    observer: FakeObserver = field(default_factory=FakeObserver)
    meanwhile: Callable[[], object] = int

    def __post_init__(self) -> None:
        desired = samples.desired(samples.site(self.masters))
        self.rack = FakeRack(desired)
        self.rack.cluster = samples.cluster(desired)
        self.rack.documents = {n.name: samples.converged(n, desired) for n in desired.site.nodes}
        self.etcd = FakeEtcd(desired.site)

    @property
    def cluster(self) -> Cluster:
        """As it is now."""
        assert isinstance(self.rack.cluster, Cluster)
        return self.rack.cluster

    def wipe(self, name: str, **member: Any) -> None:
        """The machine is empty; its Node is what is said."""
        self.rack.documents[name] = samples.bare(self.rack.desired.site.node(name))
        nodes = dict(self.cluster.nodes)
        nodes[name] = replace(nodes[name], **{"ready": False, "labels": LABELS, **member})
        self.rack.cluster = replace(self.cluster, nodes=nodes)

    def forget(self, name: str, record: MemberRecord | None = None) -> None:
        """The cluster has no such Node."""
        nodes = {key: node for key, node in self.cluster.nodes.items() if key != name}
        self.rack.cluster = replace(self.cluster, nodes=nodes)
        if record:
            self.write_down(record)

    def write_down(self, document: MemberRecord | Passport) -> None:
        """The control-plane nodes keep this document."""
        self.archive.put(document.document, document.text())

    def call(self, workflow: Any, name: str, **more: Any) -> JoinResult:
        session = fake_session(
            self.rack,
            self.journal,
            archive=self.archive,
            etcd=self.etcd,
            bmcs=self.bmcs,
            clock=self.clock,
            observer=self.observer,
        )

        def confirm(_plan: Plan, said: tuple[str, ...], machine: AnsweringMachine) -> bool:
            self.shown.append(said)
            self.machines.append(machine)
            self.meanwhile()
            return True

        request = JoinRequest(self.rack.desired, name, run(), **more)
        done: JoinResult = workflow(request, session, confirm)
        return done

    def rejoin(self, name: str, **more: Any) -> JoinResult:
        return self.call(node_rejoin, name, **more)

    def add(self, name: str, **more: Any) -> JoinResult:
        return self.call(node_add, name, **more)

    def variables(self, playbook: str, name: str) -> dict[str, Any]:
        """What the role of a play was told of a host."""
        (play,) = (play for play in self.rack.plays if play.playbook == playbook)
        found: dict[str, Any] = play.inventory["all"]["hosts"][name]
        return found


def test_a_wiped_worker_gets_back_what_its_node_object_had() -> None:
    bench = Bench()
    bench.wipe("w2", taints=("a=b:NoSchedule",))
    done = bench.rejoin("w2")
    assert "workers" in done.installed.steps
    assert {play.limit for play in bench.rack.plays if play.playbook == "host"} == {("w2",)}
    assert bench.variables("workers", "w2")["kubeadm_worker_remove_stale_node"] is True
    assert bench.rack.put_backs == [("w2", NodeMetadata(LABELS, {}, ("a=b:NoSchedule",)))]
    assert bench.cluster.nodes["w2"].labels["run.ai/type"] == "dgx"
    assert bench.shown == [
        ("w2: the same machine (serial SN-w2) answers, and it is empty",),
    ]
    assert parse_record(bench.archive.documents["members/w2.json"]) == MemberRecord("w2")


def test_a_removed_worker_comes_back_with_what_was_written_down() -> None:
    bench = Bench()
    bench.wipe("w2")
    bench.forget("w2", MemberRecord("w2", GONE, NodeMetadata(LABELS)))
    bench.rejoin("w2")
    assert bench.rack.put_backs == [("w2", NodeMetadata(LABELS))]
    assert parse_record(bench.archive.documents["members/w2.json"]).removed is None


def test_what_it_had_is_written_down_before_the_old_node_object_goes() -> None:
    bench = Bench()
    bench.wipe("w2")
    bench.rack.fail["workers"] = KeyboardInterrupt()
    with pytest.raises(BaseException, match="interrupted"):
        bench.rejoin("w2")
    record = parse_record(bench.archive.documents["members/w2.json"])
    assert record.kept == NodeMetadata(LABELS)
    # The killed run had deleted the Node object: the next one has the document alone.
    bench.rack.fail.clear()
    bench.forget("w2", record)
    bench.rejoin("w2")
    assert bench.rack.put_backs == [("w2", NodeMetadata(LABELS))]


def test_what_is_back_is_forgotten_although_another_run_had_put_it_back() -> None:
    """Else a label that is taken away next year would be called missing."""
    bench = Bench()
    nodes = {**bench.cluster.nodes}
    nodes["w2"] = replace(nodes["w2"], labels=LABELS)
    bench.rack.cluster = replace(bench.cluster, nodes=nodes)
    bench.write_down(MemberRecord("w2", None, NodeMetadata(LABELS)))
    bench.rejoin("w2")
    assert bench.rack.put_backs == []
    assert parse_record(bench.archive.documents["members/w2.json"]) == MemberRecord("w2")


@pytest.mark.parametrize("name", ["cp1", "cp2", "cp3"])
def test_any_of_three_control_planes_joins_a_living_one(name: str) -> None:
    bench = Bench(masters=3)
    bench.wipe(name)
    bench.rejoin(name)
    told = bench.variables("control_plane", name)
    assert told["kubeadm_control_plane_action"] == "join"
    assert told["kubeadm_control_plane_remove_stale_node"] is True
    (play,) = (play for play in bench.rack.plays if play.playbook == "control_plane")
    leader = play.inventory["all"]["vars"]["kubeadm_control_plane_leader"]
    assert leader != name
    assert name not in (play.inventory["all"]["children"]["appliance_leader"]["hosts"])


def test_a_control_plane_does_not_come_back_to_an_etcd_without_quorum() -> None:
    bench = Bench(masters=3)
    bench.etcd = FakeEtcd(bench.rack.desired.site, sick=("cp2",))
    bench.wipe("cp1")
    bench.etcd.found[0] = replace(bench.etcd.found[0], healthy=False)
    with pytest.raises(PreflightFailed, match="1 of etcd's 3 members healthy"):
        bench.rejoin("cp1")
    bench.etcd.silent = {"cp2", "cp3"}
    with pytest.raises(NodeUnreachable, match="no other control-plane node"):
        bench.rejoin("cp1")
    assert (bench.rack.plays, bench.journal.records, bench.archive.documents) == ([], [], {})


def test_other_hardware_is_refused_until_it_is_said_to_replace() -> None:
    bench = Bench()
    bench.wipe("w2")
    bench.rack.documents["w2"]["dmi"]["serial"] = "SN-x"
    for workflow in (bench.rejoin, bench.add):
        with pytest.raises(PreflightFailed) as refused:
            workflow("w2")
        assert "found DMI serial SN-x, expected SN-w2" in refused.value.message
        assert "appliance node add w2 --replace w2" in (refused.value.hint or "")
    with pytest.raises(PreflightFailed, match="the old machine may come back"):
        bench.add("w2", replace="w2")
    assert bench.rack.plays == []
    bench.add("w2", replace="w2", sworn=True)
    assert bench.rack.put_backs == [("w2", NodeMetadata(LABELS))]


def test_a_node_object_that_others_deleted_is_made_up_for_by_the_passport() -> None:
    bench = Bench()
    bench.wipe("w2")
    bench.forget("w2")
    facts = {"machine": "SN-w2"}
    bench.write_down(Passport("w2", facts, NodeMetadata(LABELS)))
    bench.rejoin("w2")
    assert bench.rack.put_backs == [("w2", NodeMetadata(LABELS))]


def test_what_was_kept_at_the_removal_is_newer_than_the_passport() -> None:
    bench = Bench()
    bench.wipe("w2")
    newer = NodeMetadata({"run.ai/type": "newer"})
    bench.forget("w2", MemberRecord("w2", GONE, newer))
    bench.write_down(Passport("w2", {"machine": "SN-w2"}, NodeMetadata(LABELS)))
    bench.rejoin("w2")
    assert bench.rack.put_backs == [("w2", newer)]


def test_a_control_plane_that_was_away_at_its_removal_never_starts_its_old_etcd() -> None:
    bench = Bench(masters=3)
    record = MemberRecord("cp2", Removal("ada", "now", serial="SN-cp2"), NodeMetadata(LABELS))
    bench.forget("cp2", record)
    assert bench.rack.documents["cp2"]["kubernetes"]["etcd_data"]["present"]
    with pytest.raises(PreflightFailed, match="the data of a member that etcd has removed") as no:
        bench.rejoin("cp2")
    assert "appliance node remove cp2" in (no.value.hint or "")
    assert bench.rack.plays == []


def test_the_bmc_of_the_old_machine_proves_that_it_is_off() -> None:
    bench = Bench()
    bench.wipe("w2", ready=True)
    bench.rack.documents["w2"]["dmi"]["serial"] = "SN-x"
    with pytest.raises(PreflightFailed, match="found a Ready Node"):
        bench.add("w2", replace="w2")
    bench.bmcs.reports["w2"] = BmcReport("SN-w2", powered_off=True)
    done = bench.add("w2", replace="w2")
    assert "reports power off" in done.said[0]
    assert bench.rack.put_backs == [("w2", NodeMetadata(LABELS))]


def test_a_removed_node_is_known_by_its_serial_too() -> None:
    bench = Bench()
    bench.wipe("w2")
    bench.forget("w2", MemberRecord("w2", GONE, NodeMetadata(LABELS)))
    bench.rack.documents["w2"]["dmi"]["serial"] = "SN-x"
    with pytest.raises(PreflightFailed, match="expected SN-w2"):
        bench.rejoin("w2")


def test_a_machine_takes_the_place_of_another_name_with_what_that_had() -> None:
    bench = Bench()
    bench.wipe("w2")
    bench.forget("w2")
    with pytest.raises(Refused, match="cannot replace w1, which is still a member"):
        bench.add("w2", replace="w1")
    with pytest.raises(Refused, match="cannot replace w9: no record"):
        bench.add("w2", replace="w9")
    bench.write_down(MemberRecord("w9", GONE, NodeMetadata(LABELS)))
    bench.add("w2", replace="w9")
    assert bench.rack.put_backs == [("w2", NodeMetadata(LABELS))]


def test_a_new_node_is_added_and_never_rejoined() -> None:
    bench = Bench()
    bench.wipe("w2")
    bench.forget("w2")
    with pytest.raises(Refused, match="was never a member") as refused:
        bench.rejoin("w2")
    assert refused.value.hint == "to add it as a new node: appliance node add w2"
    assert "workers" in bench.add("w2").installed.steps
    assert bench.rack.put_backs == []


def test_a_member_that_works_is_left_as_it_is() -> None:
    bench = Bench()
    bench.write_down(MemberRecord("w2", GONE))
    done = bench.rejoin("w2")
    assert done.installed.steps == ()
    assert done.said == ("w2: is already a member",)
    assert parse_record(bench.archive.documents["members/w2.json"]).removed is None


def test_who_or_what_does_not_answer_is_named() -> None:
    bench = Bench()
    bench.rack.faults["w2"] = Fault("w2", "w2: no SSH", "ping")
    with pytest.raises(NodeUnreachable, match="w2: no SSH"):
        bench.rejoin("w2")
    bench.rack.faults.clear()
    bench.rack.cluster = NoCluster()
    with pytest.raises(NodeUnreachable, match="the cluster does not answer"):
        bench.rejoin("w2")
    with pytest.raises(Refused, match="no cluster node of this name"):
        bench.add("w9")


def test_an_install_alone_brings_back_a_wiped_worker_with_what_it_had() -> None:
    from appliance.workflows.install import InstallRequest, install

    bench = Bench()
    bench.wipe("w2")
    session = fake_session(bench.rack, bench.journal, archive=bench.archive)
    install(InstallRequest(bench.rack.desired, run()), session, lambda _plan: True)
    assert bench.rack.put_backs == [("w2", NodeMetadata(LABELS))]


@pytest.mark.parametrize("workflow", [node_rejoin, node_add])
def test_a_member_whose_probe_timed_out_is_not_joined_again(workflow: Any) -> None:
    bench = Bench()
    bench.forget("w2", MemberRecord("w2", removed=GONE))
    bench.rack.documents["w2"]["kubernetes"] = None
    with pytest.raises(NodeUnreachable, match="w2: the probe timed out"):
        bench.call(workflow, "w2")
    assert (bench.rack.plays, bench.rack.deleted, bench.rack.looks) == ([], [], 2)


@pytest.mark.parametrize("workflow", [node_rejoin, node_add])
def test_the_other_members_get_the_name_of_a_node_that_joins(workflow: Any) -> None:
    bench = Bench()
    resolver = bench.rack.documents["cp1"]["resolver"]
    known = resolver["hosts"]
    resolver["hosts"] = {address: names for address, names in known.items() if "w2" not in names}
    bench.forget("w2", MemberRecord("w2", removed=GONE) if workflow is node_rejoin else None)
    bench.rack.documents["w2"] = samples.bare(bench.rack.desired.site.node("w2"))
    done = bench.call(workflow, "w2")
    host = next(step for step in done.installed.plan.steps if step.name == "host")
    assert set(host.nodes) == {"cp1", "w2"}
    assert bench.rack.documents["cp1"]["resolver"]["hosts"] == known


@pytest.mark.parametrize("fault", ["its play fails", "its swap stays on", "it went away"])
def test_another_member_with_a_fault_of_its_own_stops_no_join(
    monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    """Of w1 only its names were asked for: what else is wrong there is for the next install."""
    bench = Bench()
    resolver = bench.rack.documents["w1"]["resolver"]
    known = resolver["hosts"]
    resolver["hosts"] = {address: names for address, names in known.items() if "w2" not in names}
    bench.wipe("w2")
    play = bench.rack.play

    def with_fault(asked: Play, on_task: Callable[[str, str, bool | None], None]) -> None:
        if asked.playbook == "host" and "w1" in asked.limit and fault != "its swap stays on":
            if fault == "it went away":
                bench.rack.faults["w1"] = Fault("w1", "w1: no SSH: timed out", "is it on?")
            raise PlaybookFailed("w1: /etc/hosts:3 gives w2 the address 192.0.2.9")
        play(asked, on_task)

    monkeypatch.setattr(bench.rack, "play", with_fault)
    if fault == "its swap stays on":
        bench.rack.documents["w1"]["swap"]["active"] = ["/swapfile"]
    done = bench.rejoin("w2")
    assert "node_metadata" in done.installed.steps
    assert bench.cluster.nodes["w2"].ready
    notes = [said[1] for said in bench.observer.said if said[0] == "note" and "w1: " in said[1]]
    assert bool(notes) == (fault != "its swap stays on")
    assert bench.rack.plays[-1].limit == ("w1",) or notes, "whoever hangs does so when w2 is there"
    failed = [one.step for one in bench.journal.records if one.outcome != "verified"]
    assert failed == (["host: other members"] if notes else [])
    told = next(one for one in bench.journal.records if one.step == "host: other members")
    assert (set(told.before), set(told.after)) == ({"w1"}, {"w1"})


def test_the_node_that_joins_still_stops_where_its_own_play_fails() -> None:
    bench = Bench()
    bench.rack.documents["w1"]["resolver"]["hosts"] = {}
    bench.wipe("w2")
    bench.rack.fail["host"] = PlaybookFailed("w2: no space left on /etc")
    with pytest.raises(PlaybookFailed, match="w2: no space"):
        bench.rejoin("w2")
    assert [play.limit for play in bench.rack.plays if play.playbook == "host"] == [("w2",)]
