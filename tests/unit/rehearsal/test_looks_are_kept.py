"""Every look tells what it saw to whoever keeps it; status also has hand-made settings read."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from appliance.adapters.control_plane.upgrade_evidence import ClusterEvidence
from appliance.adapters.kubernetes.api import KubernetesApi
from appliance.adapters.ssh.nodes import SshNodes
from appliance.errors import ClusterError
from appliance.model.node.lost import Workloads
from appliance.model.site.settings import Node
from appliance.model.state.cluster.cluster import ClusterState, NoCluster, Unreachable
from appliance.model.state.facts.facts import NodeFacts
from appliance.model.state.observed import Fault, Look
from appliance.model.upgrade.losses import Documents
from appliance.workflows.status import StatusRequest, status
from tests import samples
from tests.cli.faked_site import installed
from tests.sessions import fake_session
from tests.unit.upgrade import handmade

DESIRED = samples.desired()
SITE = DESIRED.site


def test_a_look_at_the_nodes_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def answers(_self: SshNodes, node: Node) -> NodeFacts | Fault:
        return Fault(node.name, "x", "y")

    monkeypatch.setattr(SshNodes, "_read_facts", answers)
    seen: list[Look] = []
    look = SshNodes(SITE, seen=seen.append).look(SITE.nodes)
    assert seen == [look]


def test_an_answer_of_the_api_is_told() -> None:
    seen: list[ClusterState] = []
    api = KubernetesApi(SITE, SshNodes(SITE), seen.append)
    bare = {node.name: samples.bare(node) for node in SITE.nodes}
    assert isinstance(api.read(samples.node_facts(bare)), NoCluster)
    assert [type(one) for one in seen] == [NoCluster]


def test_documents_that_an_upgrade_reads_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    documents = handmade.documents()
    reader = "appliance.adapters.kubernetes.handmade.HandmadeReader.documents"
    monkeypatch.setattr(reader, lambda _self, _members: documents)
    seen: list[Documents] = []
    assert ClusterEvidence(SITE, SshNodes(SITE), seen.append).documents(SITE.nodes) is documents
    assert seen == [documents]


def no_answer() -> Workloads:
    raise ClusterError("no answer")


def asked_by_status(cluster: ClusterState | None = None, *silent: str) -> list[set[str]]:
    asked: list[set[str]] = []

    def keep(names: Collection[str]) -> None:
        asked.append(set(names))

    rack = installed(DESIRED)
    rack.cluster = cluster or rack.cluster
    rack.faults = {name: Fault(name, "no answer", "") for name in silent}
    session = fake_session(rack, keep_handmade=keep, read_workloads=no_answer)
    status(StatusRequest(SITE, DESIRED, {}), session)
    return asked


def test_status_has_the_settings_of_each_node_that_answers_kept() -> None:
    assert asked_by_status() == [{"cp1", "w1", "w2"}]
    assert asked_by_status(None, "w2") == [{"cp1", "w1"}]


def test_without_an_api_there_is_nothing_to_compare_with() -> None:
    assert asked_by_status(Unreachable("no answer")) == []
