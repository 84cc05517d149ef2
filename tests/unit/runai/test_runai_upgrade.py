"""``runai upgrade``: planned from what is observed, verified, resumed, and taken back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from appliance.errors import (
    ConfigError,
    Interrupted,
    NodeUnreachable,
    PlaybookFailed,
    PreflightFailed,
    Refused,
    StepNotVerified,
)
from appliance.model.components.runai.upgrade.plan import UpgradePlan, plan_upgrade
from appliance.model.components.runai.upgrade.record import RETAIN
from appliance.model.plan.play import Play
from appliance.model.state.cluster.cluster import Cluster, Unreachable
from appliance.model.state.findings import Finding
from appliance.model.state.observed import Fault, Observed
from appliance.workflows.runai.upgrade import (
    RunaiUpgradeRequest,
    RunaiUpgradeResult,
    upgrade_runai,
)
from tests import samples
from tests.fakes import FakeJournal, FakeObserver, run
from tests.sessions import fake_session
from tests.unit.runai.upgrade_rack import UpgradeRack, bundle

STEPS = ["runai_backup", "runai_prepare", "runai_upgrade"]


class Bench:
    """A rack, and what was asked and recorded."""

    def __init__(self, rack: UpgradeRack | None = None) -> None:
        self.rack = rack or UpgradeRack()
        self.journal, self.observer = FakeJournal(), FakeObserver()
        self.asked = 0
        self.named: list[str] = []
        self.closed = False

    def choose_vendor_bundle(self, file: str) -> None:
        if self.closed:
            raise Refused("site.yml could not be written", hint="write it yourself")
        self.named.append(file)

    def upgrade(self, *, agree: bool = True, **changes: Any) -> RunaiUpgradeResult:
        def confirm(_plan: UpgradePlan) -> bool:
            self.asked += 1
            return agree

        session = fake_session(
            self.rack,
            self.journal,
            read_claimed_volumes=self.rack.read_claimed_volumes,
            observer=self.observer,
            choose_vendor_bundle=self.choose_vendor_bundle,
        )
        request = RunaiUpgradeRequest(self.rack.desired, run(), **changes)
        return upgrade_runai(request, session, confirm)

    @property
    def played(self) -> list[str]:
        return [play.playbook for play in self.rack.plays]

    @property
    def outcomes(self) -> list[tuple[str, str]]:
        return [(record.step, record.outcome) for record in self.journal.records]


def plan_of(rack: UpgradeRack, **changes: Any) -> UpgradePlan:
    observed = Observed(samples.node_facts(rack.documents), rack.cluster)
    return plan_upgrade(rack.desired, observed, rack.volumes, **changes)


def test_volumes_and_database_come_first_and_helm_last_and_a_second_run_does_nothing() -> None:
    bench = Bench()
    done = bench.upgrade()
    assert bench.played == STEPS
    assert bench.outcomes == [(step, "verified") for step in STEPS]
    assert (done.done, done.plan.current, done.plan.target) == (True, "2.7.1", "2.8.2")
    again = bench.upgrade()
    assert (again.done, again.plan.steps, bench.asked) == (False, (), 1)


def test_site_yml_names_the_bundle_at_the_end_and_after_a_kill_before_that() -> None:
    bench = Bench()
    bench.upgrade(dry_run=True)
    assert bench.named == []
    assert bench.upgrade().named
    assert bench.named == ["runai-2.8.2.tar"]
    assert bench.upgrade().named
    assert len(bench.named) == 2


def test_another_file_of_the_installed_version_is_not_named() -> None:
    bench = Bench()
    bench.upgrade()
    other = bundle("2.8.2")
    target = replace(other, contents=replace(other.contents, sha256="e" * 64))
    bench.rack.desired = replace(bench.rack.desired, vendor_bundle=target)
    assert not bench.upgrade().named


def test_a_site_yml_that_cannot_be_written_stops_nothing_and_is_told() -> None:
    bench = Bench()
    bench.closed = True
    assert not bench.upgrade().named
    assert ("note", "site.yml could not be written: write it yourself") in bench.observer.said


def test_a_plan_tells_the_version_of_each_part_and_why_each_step_is_due() -> None:
    plan = plan_of(UpgradeRack())
    assert [(part.release, part.version, part.is_due) for part in plan.parts] == [
        ("runai-backend", "2.7.1", True),
        ("runai-cluster", "2.7.1", True),
    ]
    backup, _, upgrade = plan.steps
    assert [reason.text for reason in backup.reasons] == [
        "volume pvc-postgresql of runai-backend/pvc-postgresql has the reclaim policy Delete, "
        "not Retain",
        "values and RunaiConfig are not saved",
        "the backend's database is not dumped",
    ]
    assert [reason.text for reason in upgrade.reasons] == [
        "runai-backend is 2.7.1",
        "runai-cluster is 2.7.1",
    ]


def test_the_changed_values_are_told_before_helm() -> None:
    bench = Bench()
    assert bench.upgrade().differences == ("runai-backend: grafana.enabled: true is new",)
    told = [said[0:2] for said in bench.observer.said if said[0] in ("started", "note")]
    note = ("note", "values: runai-backend: grafana.enabled: true is new")
    assert told.index(note) < told.index(("started", "runai_upgrade"))


def test_a_dry_run_changes_nothing() -> None:
    bench = Bench()
    assert [step.name for step in bench.upgrade(dry_run=True).plan.steps] == STEPS
    assert (bench.played, bench.asked, bench.journal.records) == ([], 0, [])


def test_without_a_yes_nothing_is_changed() -> None:
    bench = Bench()
    with pytest.raises(Refused):
        bench.upgrade(agree=False)
    assert bench.played == []


@pytest.mark.parametrize("killed", STEPS)
@pytest.mark.parametrize("late", [False, True], ids=["before its effect", "after its effect"])
def test_the_same_command_resumes_wherever_it_was_killed(killed: str, late: bool) -> None:
    bench = Bench()
    rack = bench.rack
    whole = rack.play

    def dies(play: Play, on_task: Any) -> None:
        if late:
            whole(play, on_task)
        if play.playbook == killed:
            raise KeyboardInterrupt
        if not late:
            whole(play, on_task)

    rack.play = dies  # type: ignore[method-assign]
    with pytest.raises(Interrupted):
        bench.upgrade()
    assert "runai_rollback" not in bench.played, "a person goes on"
    rack.play = whole  # type: ignore[method-assign]
    rack.plays.clear()
    done = bench.upgrade()
    left = STEPS[STEPS.index(killed) + late :]
    assert bench.played == left
    assert done.done is bool(left)
    assert rack.record["verified"]
    assert rack.record["source"]["version"] == "2.7.1"


def test_a_run_that_died_between_backend_and_cluster_part_goes_on_with_the_same_values() -> None:
    bench = Bench()
    bench.rack.without_effect = {"runai_upgrade"}
    bench.rack.fail = {"runai_rollback": PlaybookFailed("cp1: helm is away")}
    with pytest.raises(StepNotVerified):
        bench.upgrade()
    before = dict(bench.rack.record)
    target = bench.rack.desired.vendor_bundle
    assert target is not None
    bench.rack.release(target, bench.rack.desired, "runai-backend")
    bench.rack.without_effect, bench.rack.fail = set(), {}
    plan = plan_of(bench.rack)
    assert [(part.version, part.is_due) for part in plan.parts] == [
        ("2.8.2", False),
        ("2.7.1", True),
    ]
    assert [step.name for step in plan.steps] == ["runai_upgrade"]
    assert bench.upgrade().done
    # The revisions and the dump are those from before the first helm.
    assert bench.rack.record["revisions"] == before["revisions"]


def test_a_failure_takes_the_releases_back_and_the_next_run_begins_anew() -> None:
    bench = Bench()
    bench.rack.fail = {"runai_upgrade": PlaybookFailed("cp1: a pod is not ready")}
    with pytest.raises(PlaybookFailed, match=r"a pod is not ready; .* 2\.7\.1 were restored"):
        bench.upgrade()
    assert bench.played == [*STEPS, "runai_rollback"]
    assert bench.outcomes[-2:] == [("runai_upgrade", "failed"), ("runai_rollback", "verified")]
    bench.rack.fail = {}
    bench.rack.plays.clear()
    assert bench.upgrade().done
    # A dump from before the failure is not that of the database now.
    assert bench.played == STEPS
    first, second = (
        play.inventory["all"]["vars"]["runai_upgrade_folder"]
        for play in (bench.rack.plays[0], bench.rack.plays[1])
    )
    assert first == second == "/var/lib/appliance/runai/before-2.8.2-2"


def test_a_failure_before_helm_takes_nothing_back() -> None:
    bench = Bench()
    bench.rack.fail = {"runai_prepare": PlaybookFailed("cp1: the registry is away")}
    with pytest.raises(PlaybookFailed, match=r"^cp1: the registry is away$"):
        bench.upgrade()
    assert bench.played == ["runai_backup", "runai_prepare"]


def test_where_taking_back_fails_the_exact_way_is_told() -> None:
    bench = Bench()
    bench.rack.fail = {
        "runai_upgrade": PlaybookFailed("cp1: a pod is not ready"),
        "runai_rollback": PlaybookFailed("cp1: helm is away"),
    }
    with pytest.raises(PlaybookFailed, match="was not restored: cp1: helm is away") as caught:
        bench.upgrade()
    told = caught.value.details
    assert "by hand, on cp1: helm rollback runai-cluster 1 --namespace runai" in told
    assert "by hand, on cp1: helm rollback runai-backend 1 --namespace runai-backend" in told
    assert any("/x/database.sql" in line for line in told)


def test_a_lost_project_takes_the_releases_back() -> None:
    bench = Bench()
    bench.rack.fail = {
        "runai_upgrade": PlaybookFailed("cp1: 1 projects from before are missing, first team-a")
    }
    with pytest.raises(PlaybookFailed, match="first team-a"):
        bench.upgrade()
    assert bench.played[-1] == "runai_rollback"


def test_a_policy_that_was_not_changed_stops_before_the_bundle() -> None:
    bench = Bench()
    whole = bench.rack.play

    def forgets(play: Play, on_task: Any) -> None:
        volumes = bench.rack.volumes
        whole(play, on_task)
        bench.rack.volumes = volumes

    bench.rack.play = forgets  # type: ignore[method-assign]
    with pytest.raises(StepNotVerified, match=f"Delete, not {RETAIN}"):
        bench.upgrade()
    assert bench.played == ["runai_backup"]


def refusal(rack: UpgradeRack, **changes: Any) -> str:
    first, *_ = plan_of(rack, **changes).refusals
    return f"{first.sentence()}; {first.hint}"


def test_a_hop_that_is_not_carried_out_is_refused_before_any_question() -> None:
    bench = Bench(UpgradeRack("2.7.1", "2.13.9"))
    with pytest.raises(PreflightFailed, match="another chart") as caught:
        bench.upgrade()
    assert "take this hop first" in str(caught.value.hint)
    assert (bench.asked, bench.played) == (0, [])


def test_the_same_version_has_nothing_to_do() -> None:
    plan = plan_of(UpgradeRack("2.7.1", "2.7.1"))
    assert (plan.steps, plan.refusals) == ((), ())


def test_a_downgrade_is_refused() -> None:
    assert "no way back to an older one" in refusal(UpgradeRack("2.8.2", "2.7.1"))


def test_another_upgrade_that_did_not_end_is_named() -> None:
    bench = Bench()
    bench.rack.without_effect = {"runai_prepare"}
    with pytest.raises(StepNotVerified):
        bench.upgrade()
    bench.rack.desired = replace(bench.rack.desired, vendor_bundle=bundle("2.8.22"))
    said = refusal(bench.rack)
    assert "an upgrade from 2.7.1 to 2.8.2 that did not end" in said
    assert "with any complete vendor bundle of 2.8.2" in said


def test_run_ai_has_to_be_well_before() -> None:
    rack = UpgradeRack()
    assert isinstance(rack.cluster, Cluster)
    pods = tuple(replace(pod, ready=False) for pod in rack.cluster.vendor_pods)
    rack.cluster = replace(rack.cluster, vendor_pods=pods)
    assert "runai-backend-backend-1 is not ready" in refusal(rack)


def test_a_release_that_was_changed_by_hand_is_refused() -> None:
    rack = UpgradeRack()
    rack.release(bundle("2.6.1"), rack.desired, "runai-backend")
    assert "installed from another vendor bundle" in refusal(rack)
    assert plan_of(rack).parts[0].version == ""


def test_a_system_node_that_is_not_ready_is_refused() -> None:
    rack = UpgradeRack()
    assert isinstance(rack.cluster, Cluster)
    label = {"node-role.kubernetes.io/runai-system": ""}
    member = replace(rack.cluster.nodes["w1"], ready=False, labels=label)
    rack.cluster = replace(rack.cluster, nodes={**rack.cluster.nodes, "w1": member})
    assert refusal(rack).startswith("w1: runai_upgrade: found a node with Run:ai's system role")


def test_space_for_a_dump_comes_beside_the_bundle() -> None:
    rack = UpgradeRack()
    # 20 GB for the vendor's bundle, as an install asks for, and 5 GB for the dump.
    rack.documents[rack.node]["filesystems"][0]["free_bytes"] = 24 * 10**9
    assert "found 24.0 GB free on /, expected 25.0 GB" in refusal(rack)
    rack.documents[rack.node]["filesystems"][0]["free_bytes"] = 25 * 10**9
    assert plan_of(rack).refusals == ()


def test_checks_before_an_install_refuse_an_upgrade_too_but_for_the_version() -> None:
    finding = Finding("cp1", "vendor_bundle_space", "error", "1 GB", "20 GB", "make space")
    other = replace(finding, check="vendor_bundle_version")
    warning = replace(finding, severity="warning")
    assert plan_of(UpgradeRack(), findings=[other, warning]).refusals == ()
    assert "vendor_bundle_space" in refusal(UpgradeRack(), findings=[finding])


@pytest.mark.parametrize("version", ["2.7.1", "2.8.2"])
def test_a_damaged_bundle_says_that_alone(version: str) -> None:
    rack = UpgradeRack()
    damaged = bundle(version, faults=("it is truncated",))
    rack.desired = replace(rack.desired, vendor_bundle=damaged)
    assert "it is truncated" in refusal(rack)
    assert len(plan_of(rack).refusals) == 1


def test_a_bundle_without_definitions_is_refused() -> None:
    rack = UpgradeRack()
    target = bundle("2.8.2")
    files = {name: size for name, size in target.contents.files.items() if "crds" not in name}
    target = replace(target, contents=replace(target.contents, files=files))
    rack.desired = replace(rack.desired, vendor_bundle=target)
    assert "without runai-crds.yaml" in refusal(rack)


def test_without_an_install_or_an_api_nothing_is_upgraded() -> None:
    rack = UpgradeRack()
    rack.runai.clear()
    assert "no vendor bundle of an install" in refusal(rack)
    rack.cluster = Unreachable("silent", {"cp1": "etcd data"})
    assert "no Kubernetes API that answers" in refusal(rack)


def test_a_node_that_does_not_answer_is_refused() -> None:
    bench = Bench()
    bench.rack.faults["cp1"] = Fault("cp1", "cp1: port 22 did not answer", "ping")
    with pytest.raises(NodeUnreachable):
        bench.upgrade()


def test_a_site_without_runai_is_told() -> None:
    bench = Bench()
    bench.rack.desired = replace(bench.rack.desired, site=samples.site())
    with pytest.raises(ConfigError, match="no section runai"):
        bench.upgrade()


@pytest.mark.parametrize(("old", "removed"), [("2.4.1", True), ("2.5.9", True), ("2.6.1", False)])
def test_the_role_is_told_what_the_hop_asks_for(old: str, removed: bool) -> None:
    bench = Bench(UpgradeRack(old, "2.8.2"))
    bench.upgrade()
    given = bench.rack.plays[-1].inventory["all"]["vars"]
    assert given["runai_upgrade_removes_nginx"] is removed
    assert given["runai_upgrade_revisions"] == {"runai-backend": 1, "runai-cluster": 1}
    assert given["runai_upgrade_source"]["version"] == old
    assert given["runai_upgrade_definitions"].endswith("/deploy/runai-crds.yaml")
    assert given["runai_upgrade_backend_chart"].endswith("/deploy/runai-backend-2.8.2.tgz")
    assert given["runai_cluster_is_new"] is False
    assert given["runai_backend_chart"] == "deploy/runai-backend-2.8.2.tgz"
