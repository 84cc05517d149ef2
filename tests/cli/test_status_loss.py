"""``appliance status`` and a lost node: what is shown, and when the API is asked for more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from appliance.cli.commands.node.lost_view import lost_nodes_as_json, show_lost_nodes
from appliance.errors import ApplianceError
from appliance.model.node.lost import LostNode, Workloads
from appliance.model.site.settings import Node
from appliance.model.state.cluster.cluster import Unreachable
from appliance.model.state.observed import Fault, Look, Observed
from appliance.workflows.session.losses import find_lost_nodes
from appliance.workflows.session.session import Session
from appliance.workflows.status import look_and_plan
from tests import samples
from tests.fakes import FakeRack
from tests.sessions import fake_session


class Silent:
    """An API that must not be asked, or that does not answer."""

    def __init__(self) -> None:
        self.asked = 0

    def workloads(self) -> Workloads:
        self.asked += 1
        raise ApplianceError("no API server answers: cp1: gone")

    def session(self) -> Session:
        return Session(read_workloads=self.workloads)


SITE = samples.desired().site


def observed(*not_ready: str) -> Observed:
    desired = samples.desired()
    cluster = samples.cluster(desired)
    nodes = {n: replace(m, ready=n not in not_ready) for n, m in cluster.nodes.items()}
    node_facts = FakeRack(desired).look(desired.site.nodes).node_facts
    return Observed(node_facts, replace(cluster, nodes=nodes))


def test_a_healthy_cluster_is_asked_for_nothing_more() -> None:
    api = Silent()
    assert find_lost_nodes(SITE, api.session(), observed(), Look({}), []) == ()
    assert api.asked == 0


def test_without_a_cluster_no_node_is_lost() -> None:
    api = Silent()
    fault = Fault("w1", "w1: no SSH", "")
    seen = Observed({}, Unreachable("cp1: gone"))
    assert find_lost_nodes(SITE, api.session(), seen, Look({}, (fault,)), []) == ()
    assert api.asked == 0


@pytest.mark.parametrize(
    ("not_ready", "faults"), [(("w1",), ()), ((), (Fault("w1", "w1: no SSH", ""),))]
)
def test_a_node_that_is_silent_or_not_ready_makes_it_look_and_an_error_is_only_a_warning(
    not_ready: tuple[str, ...], faults: tuple[Fault, ...]
) -> None:
    api, warnings = Silent(), list[str]()
    assert (
        find_lost_nodes(SITE, api.session(), observed(*not_ready), Look({}, faults), warnings) == ()
    )
    assert api.asked == 1
    assert warnings == ["no API server answers: cp1: gone"]


def test_every_line_names_the_node_and_the_last_one_says_what_to_do(
    capsys: pytest.CaptureFixture[str],
) -> None:
    loss = LostNode("w1", "T", terminating=("a/x",), services=("a/web",))
    show_lost_nodes([loss])
    assert capsys.readouterr().out.splitlines() == [
        "lost: w1: lost since T",
        "lost: w1: pods Terminating on it: a/x",
        "lost: w1: services without another ready pod: a/web",
        "   hint: if it will not come back soon: appliance node maintain w1 --lost",
    ]
    (document,) = lost_nodes_as_json([loss])
    assert document["services"] == ("a/web",)


def test_a_node_that_answered_late_is_looked_at_once_more() -> None:
    desired = samples.desired()
    rack = FakeRack(desired)
    whole = rack.documents["w1"]
    late = {"section": "services", "reason": "systemctl show --no-pager: no answer in time"}
    rack.documents["w1"] = {**whole, "services": None, "unreadable": [late]}
    look = rack.look

    def then_rested(nodes: Sequence[Node]) -> Look:
        found = look(nodes)
        rack.documents["w1"] = whole
        return found

    rack.look = then_rested  # type: ignore[method-assign]
    found, _, _ = look_and_plan(desired, fake_session(rack))
    assert rack.looks == 2
    assert found.node_facts["w1"].late == ()
