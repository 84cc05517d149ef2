"""The removal of a node against a fake rack: order, documents, refusals, a second run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from appliance.adapters.local.content import runtimes_after
from appliance.errors import (
    ClusterError,
    NodeUnreachable,
    PreflightFailed,
    Refused,
    StepNotVerified,
)
from appliance.model.node.answering import AnsweringMachine
from appliance.model.node.baseline import Passport
from appliance.model.node.bmc.report import BmcReport
from appliance.model.node.left_behind import left_behind
from appliance.model.node.membership import parse_record
from appliance.model.node.removal import RemovalPlan, RemovalRequest, Reset
from appliance.model.plan.play import Play
from appliance.model.state.cluster.cluster import Cluster, Unreachable
from appliance.model.state.facts.facts import NodeFacts
from appliance.model.state.facts.identity import MachineIdentity
from appliance.model.state.nodes.roles import AnchoredObject, RolesView
from appliance.model.state.observed import Fault
from appliance.workflows.node.remove import (
    NodeRemoveRequest,
    RemoveResult,
    node_remove,
    reset_inventory,
)
from tests import samples
from tests.fake_emptying import FakeEmptying
from tests.fakes import FakeArchive, FakeBmcs, FakeClock, FakeEtcd, FakeJournal, FakeRack, run
from tests.sessions import fake_session


@dataclass
class Bench:
    """An installed rack with everything a removal needs."""

    masters: int = 1
    passport: MachineIdentity | None = None
    sick: tuple[str, ...] = ()
    answer: bool = True
    rack: FakeRack = field(init=False)
    etcd: FakeEtcd = field(init=False)
    bmcs: FakeBmcs = field(default_factory=FakeBmcs)
    emptying: FakeEmptying = field(default_factory=FakeEmptying)
    archive: FakeArchive = field(default_factory=FakeArchive)
    journal: FakeJournal = field(default_factory=FakeJournal)
    machines: list[AnsweringMachine] = field(default_factory=list)
    clock: FakeClock = field(default_factory=FakeClock)
    meanwhile: Callable[[], object] = int

    def __post_init__(self) -> None:
        desired = samples.desired(samples.site(self.masters))
        self.rack = FakeRack(desired)
        self.rack.cluster = samples.cluster(desired)
        self.rack.documents = {n.name: samples.converged(n, desired) for n in desired.site.nodes}
        self.etcd = FakeEtcd(desired.site, self.sick)

    @property
    def steps(self) -> list[str]:
        """What the journal has."""
        return [record.step for record in self.journal.records]

    def die(self, name: str) -> None:
        """The machine is off, and the API has noticed."""
        self.rack.faults[name] = Fault(name, f"{name}: no SSH", "ping")
        self.member(name, ready=False)

    def member(self, name: str, **changes: Any) -> None:
        """Change a Node object."""
        assert isinstance(self.rack.cluster, Cluster)
        nodes = dict(self.rack.cluster.nodes)
        nodes[name] = replace(nodes[name], **changes)
        self.rack.cluster = replace(self.rack.cluster, nodes=nodes)

    def remove(
        self, name: str, *, dry_run: bool = False, without_backup: bool = False, **desired: Any
    ) -> RemoveResult:
        session = fake_session(
            self.rack,
            self.journal,
            etcd=self.etcd,
            bmcs=self.bmcs,
            emptying=self.emptying,
            archive=self.archive,
            clock=self.clock,
        )
        if self.passport:
            facts = {"machine": self.passport.serial} if self.passport.serial else {}
            accepted = Passport(name, facts, identity=self.passport)
            self.archive.passports[accepted.document] = accepted.text()
        request = NodeRemoveRequest(
            self.rack.desired.site,
            RemovalRequest(name, **desired),
            run("node remove"),
            runtimes_after(self.rack.desired.release),
            dry_run=dry_run,
            without_backup=without_backup,
        )
        return node_remove(request, session, self.confirm)

    def confirm(
        self, plan: RemovalPlan, forecast: tuple[str, ...], machine: AnsweringMachine
    ) -> bool:
        self.machines.append(machine)
        assert plan.sentences()
        assert bool(forecast) == plan.drain
        self.meanwhile()
        return self.answer


def test_a_worker_is_drained_recorded_emptied_and_forgotten_in_this_order() -> None:
    bench = Bench()
    bench.member("w2", labels={"run.ai/type": "dgx"}, taints=("a=b:NoSchedule",))
    done = bench.remove("w2", reason="sold")
    assert bench.steps == ["drain", "record", "node_reset", "node_object"]
    assert bench.emptying.emptied == ["w2"]
    assert bench.rack.deleted == ["w2"]
    assert [(play.playbook, play.limit) for play in bench.rack.plays] == [("node_reset", ("w2",))]
    record = parse_record(bench.archive.documents["members/w2.json"])
    assert record.removed is not None
    assert record.kept is not None
    assert (record.removed.by, record.removed.reason) == ("ada@laptop", "sold")
    assert (record.removed.serial, record.removed.reset) == ("SN-w2", True)
    assert record.kept.labels == {"run.ai/type": "dgx"}
    assert record.kept.taints == ("a=b:NoSchedule",)
    assert (done.done, done.plan.to_clean) == (True, ())


def test_a_second_run_finds_nothing_to_do() -> None:
    bench = Bench()
    bench.remove("w2")
    records = len(bench.journal.records)
    assert not bench.remove("w2").done
    assert len(bench.journal.records) == records


@pytest.mark.parametrize(
    ("at", "then"),
    [
        ("node_reset", ["node_reset", "node_object"]),
        ("delete", ["node_object"]),
    ],
)
def test_a_removal_that_failed_goes_on_where_it_was(at: str, then: list[str]) -> None:
    bench = Bench()
    bench.rack.fail[at] = ClusterError("w2: the API went away")
    with pytest.raises(ClusterError):
        bench.remove("w2")
    bench.rack.fail.clear()
    before, emptied = len(bench.steps), len(bench.emptying.emptied)
    bench.remove("w2")
    assert [step for step in bench.steps[before:] if step != "drain"] == then
    assert emptied == 1
    assert "w2" not in bench.rack.cluster.nodes  # type: ignore[union-attr]


def test_a_dead_worker_goes_too_and_what_must_be_cleaned_is_said() -> None:
    bench = Bench()
    bench.die("w2")
    done = bench.remove("w2")
    assert bench.steps == ["record", "node_object"]
    assert bench.rack.plays == []
    assert any("/etc/kubernetes" in thing for thing in done.plan.to_clean)
    assert not any("etcd" in thing for thing in done.plan.to_clean)


def test_a_bmc_proves_at_once_what_the_api_has_not_noticed_yet() -> None:
    bench = Bench()
    bench.rack.faults["w2"] = Fault("w2", "w2: no SSH", "ping")
    bench.bmcs.reports["w2"] = BmcReport("SN-w2", powered_off=True)
    done = bench.remove("w2")
    assert bench.steps == ["record", "node_object"]
    assert "the BMC of its machine (serial SN-w2) reports power off" in done.plan.notices[0].text


def test_the_bmc_of_a_machine_that_answers_is_not_asked() -> None:
    bench = Bench()
    bench.remove("w2", dry_run=True)
    assert bench.bmcs.asked == []


def test_a_machine_that_only_cannot_be_looked_at_is_not_dead() -> None:
    bench = Bench()
    full = "w2: the probe exited with 1: No space left on device"
    bench.rack.faults["w2"] = Fault("w2", full, "", answers=True)
    bench.member("w2", ready=False)
    with pytest.raises(PreflightFailed, match="No space left") as caught:
        bench.remove("w2")
    assert "--i-know-it-is-dead" in str(caught.value.hint)
    assert bench.steps == []


def test_a_node_that_is_ready_and_does_not_answer_is_not_dead() -> None:
    bench = Bench()
    bench.rack.faults["w2"] = Fault("w2", "w2: no SSH", "ping")
    with pytest.raises(PreflightFailed, match="found a Ready Node"):
        bench.remove("w2")
    assert (bench.steps, bench.archive.documents) == ([], {})


def test_another_machine_at_the_address_is_left_alone() -> None:
    bench = Bench()
    bench.member("w2", ready=False)
    bench.rack.documents["w2"]["dmi"]["serial"] = "SN-x"
    with pytest.raises(PreflightFailed, match="the old machine may come back"):
        bench.remove("w2")
    done = bench.remove("w2", sworn=True)
    assert bench.rack.plays == []
    assert [notice.text.partition(":")[0] for notice in done.plan.notices] == [
        "the machine is taken as off",
        "another machine (serial SN-x) answers at its address, and is not touched",
    ]


@pytest.mark.parametrize("name", ["cp2", "cp3"])
def test_of_three_control_planes_one_may_go_and_etcd_lets_it_go_first(name: str) -> None:
    bench = Bench(masters=3)
    bench.remove(name)
    assert bench.steps == ["drain", "record", "etcd", "node_reset", "node_object"]
    assert bench.etcd.removed == [name]


def test_a_dead_control_plane_must_never_start_its_etcd_again() -> None:
    bench = Bench(masters=3, sick=("cp3",))
    bench.die("cp3")
    done = bench.remove("cp3")
    assert bench.etcd.removed == ["cp3"]
    assert any("/var/lib/etcd" in thing for thing in done.plan.to_clean)


def test_a_quorum_is_never_given_away() -> None:
    bench = Bench(masters=3, sick=("cp2",))
    with pytest.raises(PreflightFailed) as refused:
        bench.remove("cp3")
    assert refused.value.message == (
        "cp3: etcd: found 1 of the 2 remaining members healthy (cp2 unhealthy), expected at least "
        "2 healthy members, or etcd loses its quorum"
    )
    assert (bench.steps, bench.etcd.removed) == ([], [])


def test_without_an_etcd_that_answers_nothing_is_decided() -> None:
    bench = Bench(masters=3)
    bench.etcd.silent = {"cp1", "cp2"}
    with pytest.raises(NodeUnreachable, match="no other control-plane node can list"):
        bench.remove("cp3")


@pytest.mark.parametrize(
    ("masters", "words"),
    [(1, "the only control-plane node"), (3, "which serves the bundle")],
)
def test_what_the_site_cannot_go_without_stays(masters: int, words: str) -> None:
    with pytest.raises(PreflightFailed) as refused:
        Bench(masters).remove("cp1")
    assert words in " ".join((refused.value.message, *refused.value.details))


def test_who_served_the_registry_stays_until_another_does() -> None:
    bench = Bench(masters=3)
    for name in ("cp1", "cp2"):
        bench.rack.documents[name]["registry"]["configured"] = name == "cp2"
    with pytest.raises(PreflightFailed, match="cp1 does not serve it yet") as refused:
        bench.remove("cp2")
    assert refused.value.hint == "install the registry there first: appliance install"
    bench.rack.documents["cp1"]["registry"]["configured"] = True
    assert bench.remove("cp2").done


def test_a_stateful_service_keeps_its_node_unless_it_is_said() -> None:
    bench = Bench()
    assert isinstance(bench.rack.cluster, Cluster)
    roles = RolesView({}, None, (AnchoredObject("StatefulSet", "runai", "db", "w2"),))
    bench.rack.cluster = replace(bench.rack.cluster, roles=roles)
    with pytest.raises(PreflightFailed, match="StatefulSet runai/db"):
        bench.remove("w2")
    assert bench.remove("w2", allow_move=True).done


def test_pods_that_stay_stop_it_before_anything_is_written() -> None:
    bench = Bench()
    bench.emptying.stuck = StepNotVerified("w2: a budget")
    with pytest.raises(StepNotVerified):
        bench.remove("w2")
    assert (bench.archive.documents, bench.rack.deleted) == ({}, [])


def test_a_machine_that_is_not_empty_afterwards_is_reported() -> None:
    bench = Bench()
    bench.rack.without_effect.add("node_reset")
    with pytest.raises(StepNotVerified, match="it still has its identity as a member"):
        bench.remove("w2")
    assert bench.rack.deleted == []


@pytest.mark.parametrize(
    ("changes", "left"),
    [
        ({}, ()),
        ({"certificates": []}, ()),
        ({"certificates": [{"path": "/etc/appliance/tls/theirs.crt"}]}, ()),
        (
            {"certificates": [{"path": "/etc/appliance/tls/registry.crt", "error": "absent"}]},
            (
                "it still has a certificate of the site, or its key: "
                "/etc/appliance/tls/registry.crt",
            ),
        ),
        (
            {"certificates": None, "unseen": {"certificates": "openssl: no answer in time"}},
            ("certificates is unknown: openssl: no answer in time",),
        ),
    ],
)
def test_keys_of_the_site_on_an_emptied_machine_are_something_left(
    changes: dict[str, Any], left: tuple[str, ...]
) -> None:
    document = samples.bare(samples.site().node("w1")) | changes
    assert left_behind(NodeFacts(document)) == left


def test_nothing_happens_without_a_yes_an_api_or_such_a_node() -> None:
    bench = Bench(answer=False)
    assert not bench.remove("w2", dry_run=True).done
    assert bench.machines == []
    with pytest.raises(Refused, match="not confirmed"):
        bench.remove("w2")
    assert [one.answer for one in bench.machines] == ["host name w2, serial SN-w2"]
    with pytest.raises(Refused, match="no cluster node of this name"):
        bench.remove("w9")
    bench.rack.cluster = Unreachable("no route")
    with pytest.raises(NodeUnreachable, match="no route"):
        bench.remove("w2")
    assert (bench.steps, bench.rack.plays, bench.archive.documents) == ([], [], {})


def test_the_inventory_of_a_reset_needs_no_bundle() -> None:
    site = samples.site()
    told = Reset("m2", ("api", "198.18.7.11"), "c1", "ca")
    socket = "unix:///run/containerd/containerd.sock"
    found: Any = reset_inventory(site, site.node("w2"), told, socket)
    assert found["all"]["hosts"] == {"w2": {"ansible_host": "198.18.7.22"}}
    variables = found["all"]["vars"]
    assert {name: value for name, value in variables.items() if "reset" in name} == {
        "node_reset_users": ["ubuntu"],
        "node_reset_node_name": "w2",
        "node_reset_machine_id": "m2",
        "node_reset_api_hosts": ["api", "198.18.7.11"],
        "node_reset_ca_sha256": "c1",
        "node_reset_vouched": "ca",
        "node_reset_cri_socket": "unix:///run/containerd/containerd.sock",
    }


def test_a_member_too_busy_to_tell_what_it_is_stays() -> None:
    bench = Bench()
    bench.rack.documents["w2"]["kubernetes"] = None
    with pytest.raises(NodeUnreachable, match="w2: the probe timed out"):
        bench.remove("w2")
    assert (bench.rack.deleted, bench.steps, bench.rack.looks) == ([], [], 2)


def test_another_node_that_is_too_busy_stops_no_removal() -> None:
    bench = Bench()
    bench.rack.documents["w1"]["kubernetes"] = None
    assert bench.remove("w2").done


def test_a_machine_with_unknown_contents_is_not_treated_as_empty() -> None:
    bench = Bench()

    def reset(play: Play, on_task: Callable[[str, str, bool | None], None]) -> None:
        on_task("w2", play.playbook, True)
        bench.rack.documents["w2"]["kubernetes"] = None

    bench.rack.play = reset  # type: ignore[method-assign]
    with pytest.raises(StepNotVerified, match="w2: was cleaned, but the probe timed out"):
        bench.remove("w2")
    assert bench.rack.deleted == []
