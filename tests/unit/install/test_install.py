"""The install workflow against a fake rack: order, proof, refusal, interruption."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from appliance.errors import (
    BundleRefused,
    Interrupted,
    LeaseLost,
    NodeUnreachable,
    PlaybookFailed,
    PreflightFailed,
    Refused,
    StepNotVerified,
)
from appliance.model.bundle.carry.delta import Delta
from appliance.model.plan.planner import Scope
from appliance.model.plan.play import Play
from appliance.model.site.vault_ref import CA_KEY
from appliance.model.state.observed import Fault
from appliance.model.state.plan import Plan
from appliance.workflows.install import InstallRequest, InstallResult, install
from tests import samples
from tests.fakes import (
    FakeBundle,
    FakeClock,
    FakeJournal,
    FakeObserver,
    FakeRack,
    run,
)
from tests.sessions import fake_session

ALL = [
    "preflight",
    "host",
    "artifacts",
    "runtime",
    "registry",
    "control_plane",
    "network",
    "workers",
]


@dataclass
class Bench:
    """One fake rack with everything an install needs."""

    rack: FakeRack = field(default_factory=lambda: FakeRack(samples.desired()))
    journal: FakeJournal = field(default_factory=FakeJournal)
    clock: FakeClock = field(default_factory=FakeClock)
    observer: FakeObserver = field(default_factory=FakeObserver)
    bundle: FakeBundle | None = field(default_factory=lambda: FakeBundle(samples.manifest()))
    confirm: Callable[[Plan], bool] = lambda plan: True  # noqa: ARG005
    findings: tuple[object, ...] = ()

    def install(self, *, scope: Scope | None = None, dry_run: bool = False) -> InstallResult:
        session = fake_session(
            self.rack,
            self.journal,
            clock=self.clock,
            observer=self.observer,
            bundle=self.bundle,
        )
        request = InstallRequest(
            desired=self.rack.desired,
            run=run(),
            scope=scope or Scope(),
            dry_run=dry_run,
        )
        return install(request, session, self.confirm)


def test_a_bare_rack_is_installed_step_by_step_and_every_step_is_recorded() -> None:
    bench = Bench()
    done = bench.install()
    assert list(done.steps) == ALL
    assert [play.playbook for play in bench.rack.plays] == ALL
    assert [record.step for record in bench.journal.records] == ALL
    assert {record.outcome for record in bench.journal.records} == {"verified"}
    host = bench.journal.records[1]
    assert host.why[0].startswith("cp1: ")
    assert host.before["w1"] != host.after["w1"]
    assert (host.operator, host.bundle_digest) == ("ada", samples.BUNDLE_DIGEST)


def test_a_second_run_costs_one_look_and_changes_nothing() -> None:
    bench = Bench()
    bench.install()
    looks, plays, records = bench.rack.looks, len(bench.rack.plays), len(bench.journal.records)
    done = bench.install()
    assert done.steps == ()
    assert done.plan.steps == ()
    assert (bench.rack.looks, len(bench.rack.plays)) == (looks + 1, plays)
    assert len(bench.journal.records) == records


def test_a_dry_run_plans_and_touches_nothing() -> None:
    bench = Bench()
    done = bench.install(dry_run=True)
    assert [step.name for step in done.plan.steps] == ALL
    assert bench.rack.plays == []
    assert bench.journal.records == []


def test_pods_prove_the_network_on_every_ready_node() -> None:
    bench = Bench()
    bench.install()
    assert bench.rack.proofs[-1] == ("cp1", "w1", "w2")


def test_pods_prove_the_network_once_when_every_node_is_there() -> None:
    bench = Bench()
    bench.install()
    assert len(bench.rack.proofs) == 1
    bench = Bench()
    bench.install(scope=Scope(until="network"))
    assert bench.rack.proofs == [("cp1", "w1", "w2")]


def test_a_cluster_that_needs_time_is_asked_often_and_its_nodes_are_looked_at_seldom() -> None:
    quick, slow = Bench(), Bench()
    quick.install()
    slow.rack.reads_until_pods_are_ready = quick.rack.reads + 30
    began = slow.clock.now()
    slow.install()
    assert slow.rack.reads >= quick.rack.reads + 30
    assert slow.rack.looks - quick.rack.looks == (slow.clock.now() - began) // 5


def test_a_pod_network_that_fails_its_test_is_not_verified() -> None:
    bench = Bench()
    bench.rack.proof_faults = ("w1: no answer from the pod on w2 (10.244.2.3)",)
    with pytest.raises(StepNotVerified, match="no answer from the pod on w2"):
        bench.install()
    assert bench.journal.records[-1].outcome == "not verified"


def test_a_pod_network_that_failed_its_test_is_tested_by_the_next_run() -> None:
    bench = Bench()
    bench.rack.proof_faults = ("w1: no answer from the pod on w2 (10.244.2.3)",)
    with pytest.raises(StepNotVerified):
        bench.install()
    bench.rack.proof_faults = ()
    done = bench.install()
    assert [step.name for step in done.plan.steps] == ["preflight", "network", "workers"]
    assert len(bench.rack.proofs) == 2
    assert bench.install().steps == ()


def test_the_next_run_goes_on_where_a_playbook_failed() -> None:
    bench = Bench()
    bench.rack.fail["registry"] = PlaybookFailed("cp1: no space left on device")
    with pytest.raises(PlaybookFailed):
        bench.install()
    assert bench.journal.records[-1].outcome == "failed"
    assert bench.journal.records[-1].error == "cp1: no space left on device"
    del bench.rack.fail["registry"]
    assert list(bench.install().steps) == ["preflight", *ALL[4:]]


def test_a_step_without_its_outcome_is_not_done() -> None:
    bench = Bench()
    bench.rack.without_effect.add("runtime")
    with pytest.raises(
        StepNotVerified, match="runtime ran, but cp1: Docker does not run"
    ) as caught:
        bench.install()
    assert "w1: Docker does not run" in caught.value.details
    assert bench.rack.plays[-1].playbook == "runtime"
    assert ("verifying", "runtime", "cp1: Docker does not run") in bench.observer.said


def test_an_interrupt_is_recorded_and_named() -> None:
    bench = Bench()
    bench.rack.fail["host"] = KeyboardInterrupt()
    with pytest.raises(Interrupted, match="interrupted during the verification of host"):
        bench.install()
    assert bench.journal.records[-1].outcome == "interrupted"


def test_an_unreachable_node_stops_everything_before_the_first_change() -> None:
    bench = Bench()
    bench.rack.faults["cp1"] = Fault("cp1", "cp1 (198.18.7.1): no SSH on port 22", "ping it")
    with pytest.raises(NodeUnreachable, match="no SSH on port 22") as caught:
        bench.install()
    assert caught.value.exit_code == 4
    assert bench.rack.plays == []
    assert bench.journal.records == []


def test_a_probe_timeout_never_makes_a_member_look_bare() -> None:
    bench = Bench()
    bench.install()
    records, plays = len(bench.journal.records), len(bench.rack.plays)
    bench.rack.documents["cp1"] = {**bench.rack.documents["cp1"], "kubernetes": None}
    with pytest.raises(NodeUnreachable, match="cp1: the probe timed out") as caught:
        bench.install()
    assert caught.value.exit_code == 4
    assert (len(bench.journal.records), len(bench.rack.plays)) == (records, plays)


def test_a_refusal_changes_nothing() -> None:
    bench = Bench()
    bench.install()
    documents = {name: dict(document) for name, document in bench.rack.documents.items()}
    node = bench.rack.desired.site.node("w2")
    bench.rack.documents["w2"] = samples.bare(node)
    bench.rack.documents["w2"]["dmi"] = {"serial": "SN-OTHER"}
    before, records = dict(bench.rack.documents), len(bench.journal.records)
    with pytest.raises(PreflightFailed, match="SN-OTHER") as caught:
        bench.install()
    assert caught.value.exit_code == 3
    assert bench.rack.documents == before
    assert len(bench.journal.records) == records
    assert documents["w1"] == bench.rack.documents["w1"]


def a_delta() -> FakeBundle:
    """A bundle without the first of its files."""
    bundle = FakeBundle(samples.manifest())
    left_out = (bundle.manifest.files[0].path,)
    bundle.delta = Delta("bundle delta", "a" * 64, "b" * 64, left_out)
    return bundle


@pytest.mark.parametrize(
    ("bundle", "sentence"),
    [
        (a_delta(), "is a delta against bbbbbbbbbbbb: 1 file, .* no bundle is stored on the node"),
        (None, "--bundle is missing"),
        (
            FakeBundle(samples.manifest(), ("bin/kubeadm: wrong digest",)),
            "bin/kubeadm: wrong digest",
        ),
        (FakeBundle(replace(samples.manifest(), os="ubuntu-20.04")), "for ubuntu-20.04"),
        (FakeBundle(replace(samples.manifest(), release="k8s-1.24")), "of k8s-1.24 for"),
    ],
)
def test_a_bundle_that_will_not_do_is_refused_before_any_change(
    bundle: FakeBundle | None, sentence: str
) -> None:
    bench = Bench(bundle=bundle)
    with pytest.raises(BundleRefused, match=sentence) as caught:
        bench.install()
    assert caught.value.exit_code == 3
    assert caught.value.hint
    assert bench.rack.plays == []


def test_a_complete_bundle_on_the_services_node_is_not_needed_again() -> None:
    bench = Bench()
    bench.install()
    bench.bundle = None
    certificate = {"path": "/etc/appliance/tls/artifacts.crt", "not_after": "2023-11-24T22:13:20Z"}
    bench.rack.documents["cp1"] = {**bench.rack.documents["cp1"], "certificates": [certificate]}
    reasons = bench.install(dry_run=True).plan.steps[1].reasons
    assert "the bundle server's certificate expires in" in reasons[0].text
    with pytest.raises(StepNotVerified, match="artifacts ran"):  # nobody renews it here
        bench.install()


def test_without_a_yes_nothing_happens() -> None:
    bench = Bench(confirm=lambda _: False)
    with pytest.raises(Refused, match="not confirmed"):
        bench.install()
    assert bench.rack.plays == []


def test_the_run_inventory_names_the_leader_and_holds_no_secret_value() -> None:
    bench = Bench()
    bench.install()
    inventory = bench.rack.plays[-1].inventory["all"]
    assert list(inventory["children"]["appliance_leader"]["hosts"]) == ["cp1"]
    assert inventory["vars"]["site_certificate_ca_key"] == CA_KEY
    assert inventory["hosts"]["w1"]["kubeadm_worker_action"] == "join"
    assert "PRIVATE" not in str(inventory)


def test_joining_workers_bring_the_leader_into_the_play() -> None:
    bench = Bench()
    bench.install()
    assert bench.rack.plays[-1].limit == ("w1", "w2", "cp1")


def test_the_site_is_taken_when_the_first_step_begins_and_for_nothing_else() -> None:
    bench = Bench()
    bench.install(dry_run=True)
    assert bench.journal.begun == 0
    bench.journal.notes = ("took over the lock of somebody",)
    bench.install()
    begun = bench.journal.begun
    assert begun >= len(ALL)
    whys = [record.why[-1] for record in bench.journal.records]
    assert whys[0] == "took over the lock of somebody"
    assert "took over the lock of somebody" not in whys[1:]
    bench.install()
    assert bench.journal.begun == begun, "there was nothing to do"


def test_a_site_that_another_command_holds_is_left_alone() -> None:
    bench = Bench()
    bench.journal.refuse = Refused("another command is at work")
    with pytest.raises(Refused):
        bench.install()
    assert bench.rack.plays == []
    assert bench.journal.records == []
    assert [said[0] for said in bench.observer.said] == ["note", "planned"]


def test_no_step_begins_after_the_site_was_taken_over() -> None:
    bench = Bench()
    carry_out = bench.rack.play

    def taken_over(play: Play, on_task: Callable[[str, str, bool | None], None]) -> None:
        carry_out(play, on_task)
        bench.journal.refuse = LeaseLost("taken over")

    bench.rack.play = taken_over  # type: ignore[method-assign]
    with pytest.raises(LeaseLost):
        bench.install()
    assert [play.playbook for play in bench.rack.plays] == ALL[:1]
    assert [record.outcome for record in bench.journal.records] == ["verified"]
