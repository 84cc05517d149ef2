"""``appliance status`` of nodes on containerd: what runs their pods, and what Docker keeps."""

from __future__ import annotations

from dataclasses import replace

import pytest

from appliance.cli.commands.status.view import show_status
from appliance.model.state.observed import Observed
from tests import samples
from tests.fakes import FakeRack

DESIRED = samples.desired()


def observed(**runtimes: str) -> Observed:
    cluster = samples.cluster(DESIRED)
    nodes = {
        name: replace(node, runtime=runtimes.get(name, "docker://20.10.24"))
        for name, node in cluster.nodes.items()
    }
    rack = FakeRack(DESIRED)
    rack.documents = {n.name: samples.converged(n, DESIRED) for n in DESIRED.site.nodes}
    for name in runtimes:
        rack.documents[name]["runtime"] = {
            "docker": {"version": None, "data_present": True, "data_bytes": 1 << 30},
            "containerd": {"version": "1.6.20", "containers_of_pods": 4},
        }
    return Observed(rack.look(DESIRED.site.nodes).node_facts, replace(cluster, nodes=nodes))


def test_the_table_names_the_runtime_of_each_node_once_one_has_containerd(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show_status(DESIRED.site, observed(w1="containerd://1.6.20"))
    shown = capsys.readouterr().out
    assert "containerd 1.6.20" in shown
    assert "docker 20.10.24" in shown
    assert "w1: Docker runs no pods any more and keeps 1.0 GiB" in shown
    release = DESIRED.site.settings.appliance_release
    assert f"appliance cluster upgrade --to {release} --remove-docker" in shown


def test_a_rack_on_docker_has_the_column_that_it_always_had(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show_status(DESIRED.site, observed())
    shown = capsys.readouterr().out
    assert "docker 20.10" not in shown
    assert "--remove-docker" not in shown
