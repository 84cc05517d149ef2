"""A site that had a cluster, and bare machines in its control plane's place: no second one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from appliance.adapters.control_plane.journal import FileJournal, founded
from appliance.adapters.site.state import JOURNAL
from appliance.model.plan.planner import EVERYTHING, Scope
from appliance.model.state.cluster.cluster import NoCluster
from appliance.model.state.journal import Outcome, Record
from appliance.model.state.observed import Fault
from appliance.model.state.plan import Plan
from appliance.workflows.session.survey import survey
from tests import samples
from tests.fakes import FakeRack

EVIDENCE = "/rack/.appliance/kubeconfig is its kubeconfig"
WORKERS = ("w1", "w2")


def rack(*, masters: int = 1, evidence: str = EVIDENCE) -> FakeRack:
    """Installed, but for bare machines that answer as the control plane."""
    desired = replace(samples.desired(samples.site(masters)), founded=evidence)
    found = FakeRack(desired)
    found.documents = {node.name: samples.converged(node, desired) for node in desired.site.nodes}
    for node in desired.site.control_plane:
        found.documents[node.name] = samples.bare(node)
    found.cluster = NoCluster()
    return found


def planned(found: FakeRack, scope: Scope = EVERYTHING) -> Plan:
    return survey(found.desired, found, found, lambda *_: (), scope).plan


def silence(found: FakeRack) -> FakeRack:
    """The rack is powered up in stages: no worker answers yet."""
    for name in WORKERS:
        found.faults[name] = Fault(name, f"{name}: no answer", "ping")
    return found


@pytest.mark.parametrize("masters", [1, 3])
def test_no_second_cluster_is_begun_while_the_workers_are_away(masters: int) -> None:
    found = planned(silence(rack(masters=masters)))
    assert [(one.node, one.check) for one in found.refusals] == [("cp1", "cluster")]
    assert EVIDENCE in found.refusals[0].expected
    assert "host_vars/cp1.yml" in found.refusals[0].hint
    assert "appliance install --new-cluster" in found.refusals[0].hint


def test_a_site_without_that_evidence_or_one_that_asks_for_it_begins_one() -> None:
    found = planned(silence(rack(evidence="")))
    assert found.refusals == ()
    assert found.choice.actions == {"cp1": "init"}


def test_steps_before_the_control_plane_are_refused_nothing() -> None:
    assert planned(silence(rack()), Scope(until="registry")).refusals == ()


def test_a_healthy_site_is_planned_alike_with_and_without_its_state() -> None:
    plans = []
    for evidence in (EVIDENCE, ""):
        found = rack(evidence=evidence)
        found.cluster = samples.cluster(found.desired)
        for node in found.desired.site.control_plane:
            found.documents[node.name] = samples.converged(node, found.desired)
        plans.append(planned(found))
    assert plans[0] == plans[1]
    assert plans[0].steps == ()


def test_the_containers_of_a_lab_that_was_made_again_are_no_second_cluster() -> None:
    found = silence(rack())
    found.documents["cp1"]["standin"] = ["dmi"]
    assert planned(found).refusals == ()


def test_workers_of_a_cluster_that_may_live_are_not_told_to_be_reset() -> None:
    found = rack(evidence="")
    refusals = planned(found).refusals
    assert [one.node for one in refusals] == list(WORKERS)
    for one in refusals:
        assert one.hint.startswith("first check that host_vars/cp1.yml has the address of cp1")
        assert "kubeadm reset" not in one.hint
        assert "recover-the-cluster.md" in one.hint


def record(sequence: int, step: str, outcome: Outcome) -> Record:
    return Record(
        run="0192f3a0-0000-7000-8000-000000000001",
        sequence=sequence,
        command="install",
        step=step,
        nodes=("cp1",),
        why=("cp1: is bare",),
        started="2026-01-01T00:00:00+00:00",
        took_seconds=1.0,
        outcome=outcome,
        operator="ada",
        tool_version="1",
    )


def test_the_state_of_a_site_shows_that_it_had_a_cluster(tmp_path: Path) -> None:
    assert founded(tmp_path) == ""
    journal = FileJournal(tmp_path / JOURNAL)
    journal.append(record(1, "host_base", "verified"))
    journal.append(record(2, "control_plane", "failed"))
    (tmp_path / JOURNAL / "0192f3a0-0000-7000-8000-000000000001-009.json").write_text("{")
    assert founded(tmp_path) == ""
    journal.append(record(3, "control_plane", "verified"))
    assert "verified step control_plane, 2026-01-01" in founded(tmp_path)
    (tmp_path / ".appliance/kubeconfig").write_text("kind: Config\n")
    assert "kubeconfig is its kubeconfig" in founded(tmp_path)
