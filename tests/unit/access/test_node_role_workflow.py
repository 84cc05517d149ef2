"""A change of roles: looked at, planned, written, and looked at again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from appliance.errors import (
    ClusterError,
    NodeUnreachable,
    PreflightFailed,
    Refused,
    StepNotVerified,
)
from appliance.model.components.node_metadata.node_roles import RoleRequest
from appliance.model.state.nodes.roles import LABELS, AnchoredObject, NodeAffinity, RolesView
from appliance.workflows.node.role import (
    NodeRoleRequest,
    RoleResult,
    describe,
    node_role,
)
from tests import samples
from tests.fakes import FakeJournal, FakeRack, run
from tests.sessions import fake_session

GPU = LABELS["gpu"]
SET = RoleRequest("set", "gpu", ("w1",))


class Scene:
    """A cluster with a control plane and two workers, none with a role."""

    def __init__(self, *anchored: AnchoredObject) -> None:
        self.desired = samples.desired(samples.site(runai={}))
        self.rack = FakeRack(self.desired)
        labels: dict[str, dict[str, str]] = {"cp1": {}, "w1": {}, "w2": {}}
        labels["cp1"] = {"node-role.kubernetes.io/control-plane": ""}
        self.rack.cluster = replace(
            samples.cluster(self.desired),
            roles=RolesView(labels, NodeAffinity(False, False), anchored),
        )
        self.journal = FakeJournal()
        self.asked = 0
        self.answer = True

    def run(self, desired: RoleRequest, *, dry_run: bool = False) -> RoleResult:
        request = NodeRoleRequest(
            self.desired.site, desired, run(f"node role {desired.verb}"), dry_run=dry_run
        )
        return node_role(request, fake_session(self.rack, self.journal), lambda _: self.confirm())

    def confirm(self) -> bool:
        self.asked += 1
        return self.answer


def test_a_role_is_written_seen_again_and_recorded() -> None:
    scene = Scene()
    done = scene.run(SET)
    assert done.view.roles("w1") == frozenset({"gpu"})
    (record,) = scene.journal.records
    assert (record.command, record.outcome, record.nodes) == ("node role set", "verified", ("w1",))
    assert record.why == (
        f"w1: label {GPU} is set",
        "RunaiConfig: restrictScheduling becomes true",
    )


def test_a_second_run_writes_nothing_asks_nothing_and_records_nothing() -> None:
    scene = Scene()
    scene.run(SET)
    done = scene.run(SET)
    assert done.plan.is_empty
    assert (scene.asked, len(scene.journal.records), len(scene.rack.role_plans)) == (1, 1, 1)


def test_a_dry_run_writes_nothing() -> None:
    scene = Scene()
    assert describe(scene.run(SET, dry_run=True).plan)
    assert scene.rack.role_plans == []
    assert scene.journal.records == []


def test_what_is_not_confirmed_is_not_written() -> None:
    scene = Scene()
    scene.answer = False
    with pytest.raises(Refused, match="not confirmed"):
        scene.run(SET)
    assert scene.rack.role_plans == []


def test_what_would_move_a_service_is_refused_before_anything_is_written() -> None:
    scene = Scene(AnchoredObject("StatefulSet", "runai-backend", "thanos", "w2"))
    with pytest.raises(PreflightFailed) as caught:
        scene.run(RoleRequest("set", "system", ("w1",)))
    assert caught.value.exit_code == 3
    assert "StatefulSet runai-backend/thanos" in caught.value.message
    assert "--allow-move" in (caught.value.hint or "")
    assert scene.rack.role_plans == []


def test_a_write_that_fails_is_recorded_as_that() -> None:
    scene = Scene()
    scene.rack.fail["node_roles"] = ClusterError("the API answered 500")
    with pytest.raises(ClusterError):
        scene.run(SET)
    assert [record.outcome for record in scene.journal.records] == ["failed"]


def test_a_change_that_is_not_observed_afterwards_is_not_verified() -> None:
    scene = Scene()
    scene.rack.without_effect.add("node_roles")
    with pytest.raises(StepNotVerified) as caught:
        scene.run(SET)
    assert f"w1: label {GPU} is set" in caught.value.details
    assert [record.outcome for record in scene.journal.records] == ["not verified"]


def test_an_api_that_is_away_is_reported_as_before_or_after_the_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene()
    look = scene.rack.roles

    def roles() -> RolesView:
        if scene.asked or not scene.answer:
            raise NodeUnreachable("no API server answers: cp1: no SSH")
        return look()

    monkeypatch.setattr(scene.rack, "roles", roles)
    with pytest.raises(ClusterError, match="no API server answers") as failed:
        scene.run(SET)
    assert failed.value.exit_code == 1
    assert scene.journal.records[0].outcome == "failed"
    scene.answer = False
    with pytest.raises(NodeUnreachable) as before:
        scene.run(SET, dry_run=True)
    assert before.value.exit_code == 4
