"""The workflows of ``status`` and ``health``: what could not be read is never lost."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from appliance.cli import exits
from appliance.errors import ApplianceError, ClusterError, NodeUnreachable
from appliance.model.checks.control_host import (
    HardwareCatalogue,
    LocalKnowledge,
    MissingPrograms,
)
from appliance.model.site.settings import Site
from appliance.model.state.cluster.cluster import Cluster
from appliance.model.state.nodes.maintenance import ANNOTATION, Maintenance
from appliance.model.state.observed import Observed
from appliance.workflows.health import HealthRequest, health
from appliance.workflows.session.checks import preflight_with
from appliance.workflows.session.session import Session
from appliance.workflows.status import StatusRequest, status
from tests import samples
from tests.cli.faked_site import installed
from tests.fakes import RUN_A, FakeArchive, FakeRack
from tests.sessions import fake_session

MARK = Maintenance(
    *(RUN_A, "ada", "laptop", "2026-01-01T00:00:00+00:00", "taint", "out of service"),
    cordoned=True,
    tainted=True,
)
SILENT = "no control-plane node answers"


class FakeControlHost:
    """A machine that knows no hardware, lacks nothing, and whose vault may be opened."""

    def __init__(self) -> None:
        self.opened: list[bool] = []

    def hardware(self) -> HardwareCatalogue:
        return HardwareCatalogue({}, {})

    def lacks_to_bring(self) -> MissingPrograms:
        return MissingPrograms("laptop", (), "")

    def knows(self, site: Site, *, opens_vault: bool) -> LocalKnowledge:
        self.opened.append(opens_vault)
        return LocalKnowledge({site.runai_domain: ()}, 0.0)


def rack_in_maintenance() -> FakeRack:
    found = installed(samples.desired())
    assert isinstance(found.cluster, Cluster)
    node = found.cluster.nodes["w1"]
    node = dataclasses.replace(node, annotations={ANNOTATION: MARK.as_text()})
    found.cluster = dataclasses.replace(found.cluster, nodes={**found.cluster.nodes, "w1": node})
    return found


def session(rack: FakeRack, archive: FakeArchive, host: FakeControlHost | None = None) -> Session:
    return fake_session(rack, archive=archive, control_host=host or FakeControlHost())


@pytest.fixture
def silent() -> FakeArchive:
    archive = FakeArchive()
    archive.away = NodeUnreachable(SILENT)
    return archive


def test_status_returns_what_it_could_not_read(silent: FakeArchive) -> None:
    rack = rack_in_maintenance()
    found = status(StatusRequest(rack.desired.site, rack.desired, {}), session(rack, silent))
    assert found.warnings == (
        f"cannot verify who started a maintenance: {SILENT}",
        f"the passports cannot be read: {SILENT}",
    )
    assert (found.doubts, found.losses, found.removed) == ((), (), {})
    assert found.look.faults == ()


def test_an_error_of_the_pods_takes_the_warnings_before_it_along(
    silent: FakeArchive, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rack = rack_in_maintenance()

    def refuse(*_: Any) -> Any:
        raise ClusterError("the API refused the namespace")

    monkeypatch.setattr(rack, "look_from_pods", refuse)
    with pytest.raises(ClusterError) as caught:
        health(HealthRequest(rack.desired, "cluster"), session(rack, silent))
    error: ApplianceError = caught.value
    assert error.warnings == (f"cannot verify who started a maintenance: {SILENT}",)
    exits.show(error)
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("warning: ")
    assert second.startswith("error: ")


def test_the_vault_is_opened_only_where_a_check_asks_for_what_is_in_it() -> None:
    rack, host = installed(samples.desired()), FakeControlHost()
    preflight_with(host, FakeArchive())(rack.desired, {}, _observed(rack))
    assert host.opened == [], "no check of Run:ai is made without Run:ai"
    desired = samples.desired(samples.site(runai={"cluster_values_file": "/media/runai.yaml"}))
    preflight_with(host, FakeArchive())(desired, {}, _observed(FakeRack(desired)))
    desired = samples.desired(samples.site(runai={}))
    preflight_with(host, FakeArchive())(desired, {}, _observed(FakeRack(desired)))
    assert host.opened == [False, True]


def _observed(rack: FakeRack) -> Observed:
    return Observed(rack.look(rack.desired.site.nodes).node_facts, rack.cluster)
