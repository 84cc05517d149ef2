"""``node power``: what the cluster needs stays on, whatever else goes with it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from appliance.errors import PreflightFailed
from appliance.model.site import groups
from appliance.model.state.cluster.cluster import Cluster, ClusterNode
from tests.unit.life.rack import WEB
from tests.unit.life.test_drain import pod
from tests.unit.power.test_node_power import NAMES, Bench


def control_planes(bench: Bench, count: int) -> None:
    """Give the cluster so many control-plane nodes; cp1, w1 and w2 first."""
    names = (*NAMES, "cp4", "cp5")[:count]
    bench.drain.nodes = tuple(ClusterNode(name, True, control_plane=True) for name in names)


@pytest.mark.parametrize(
    ("count", "asked", "refused"),
    [
        (3, ("w1",), False),
        (3, ("w1", "w2"), True),
        (5, ("w1", "w2"), False),
        (5, ("cp1", "w1", "w2"), True),
    ],
)
@pytest.mark.parametrize("verb", ["off", "cycle"])
def test_nodes_that_go_together_do_not_count_on_each_other(
    verb: Any, count: int, asked: tuple[str, ...], refused: bool
) -> None:
    bench = Bench()
    control_planes(bench, count)
    without_services(bench)
    if not refused:
        assert bench.switch(verb, *asked).done
        return
    with pytest.raises(PreflightFailed, match="without etcd's quorum"):
        bench.switch(verb, *asked)
    assert bench.driver.orders == []
    bench.switch(verb, *asked, allow_outage=True)
    assert all("without etcd's quorum" in said for said in bench.asked[0])


def without_services(bench: Bench) -> None:
    """Let another host than these serve the registry."""
    nodes = tuple(
        replace(node, groups=node.groups - {groups.SERVICES}) for node in bench.desired.site.nodes
    )
    bench.desired = replace(bench.desired, site=replace(bench.desired.site, nodes=nodes))


def test_pods_do_not_hide_that_the_quorum_would_go() -> None:
    bench = Bench()
    control_planes(bench, 1)
    bench.drain.pods = [pod("web-1", owner=WEB)]
    with pytest.raises(PreflightFailed) as caught:
        bench.switch("off", "cp1")
    said = [caught.value.message, *caught.value.details]
    assert any("1 pods: " in one for one in said)
    assert any("without etcd's quorum" in one for one in said)


def test_the_question_names_the_pods_that_are_lost() -> None:
    bench = Bench()
    bench.drain.pods = [pod("web-1", owner=WEB)]
    bench.switch("off", allow_outage=True)
    assert bench.asked[0][0].endswith("will send GracefulShutdown; 1 pods on it are lost")


def test_a_services_node_outside_the_cluster_is_kept_on() -> None:
    bench = Bench()
    site = bench.desired.site
    nodes = tuple(
        replace(node, groups=frozenset({groups.SERVICES} if node.name == "w1" else node.groups))
        for node in site.nodes
    )
    bench.desired = replace(bench.desired, site=replace(site, nodes=nodes))
    cluster = bench.rack.cluster
    assert isinstance(cluster, Cluster)
    members = {name: one for name, one in cluster.nodes.items() if name != "w1"}
    bench.rack.cluster = replace(cluster, nodes=members)
    assert "it serves the registry" in bench.refused("off", PreflightFailed, serial="SN-w1")
    bench.switch("off", serial="SN-w1", allow_outage=True)
    assert "it serves the registry" in bench.asked[0][0]


def test_a_serial_does_not_overrule_a_passport() -> None:
    bench = Bench()
    bench.driver.machines["w1"] = replace(bench.driver.machines["w1"], serial="SN-new")
    said = bench.refused("off", PreflightFailed, serial="SN-new")
    assert "the accepted machine has serial SN-w1" in said
    assert "appliance node passport w1 --acknowledge" in said
