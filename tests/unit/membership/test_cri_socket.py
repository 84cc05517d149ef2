"""A machine is reset through the runtime that it has, whatever its release asks for."""

from __future__ import annotations

from typing import Any

import pytest

from appliance.adapters.local.content import list_releases, load_release
from appliance.model.bundle.release.release import Runtime
from appliance.model.state.cluster.cluster import ClusterNode
from appliance.model.state.nodes.cri_socket import ANNOTATION, cri_socket
from tests import samples
from tests.unit.membership.test_node_remove import Bench

DOCKER, CONTAINERD = "/var/run/dockershim.sock", "unix:///run/containerd/containerd.sock"
OLD, NEW = Runtime(name="docker", socket=DOCKER), Runtime(name="containerd", socket=CONTAINERD)
KNOWN = tuple(load_release(name).runtime for name in list_releases())
OWN = "unix:///run/k3s/containerd/containerd.sock"


@pytest.mark.parametrize(
    ("told", "noted", "wanted", "expected"),
    [
        ("docker://20.10.24", DOCKER, NEW, DOCKER),
        ("docker://20.10.24", "", NEW, DOCKER),
        ("containerd://1.6.21", CONTAINERD, OLD, CONTAINERD),
        ("containerd://1.6.21", "", OLD, CONTAINERD),
        # The runtime was changed, and the annotation is of before.
        ("containerd://1.6.21", DOCKER, NEW, CONTAINERD),
        ("containerd://1.6.21", OWN, NEW, OWN),
        ("docker://20.10.24", "--evil", NEW, DOCKER),
        ("docker://20.10.24", "/x/dockershim.sock\n--evil", NEW, DOCKER),
        ("cri-o://1.23", "", OLD, DOCKER),
        ("", "", OLD, DOCKER),
        ("", DOCKER, NEW, CONTAINERD),
    ],
)
def test_what_the_kubelet_reports_counts(
    told: str, noted: str, wanted: Runtime, expected: str
) -> None:
    member = ClusterNode("w2", True, runtime=told, annotations={ANNOTATION: noted})
    assert cri_socket(member, None, (wanted, *KNOWN)) == expected


def test_the_releases_say_where_a_runtime_is_reached() -> None:
    moved = Runtime(name="docker", socket="unix:///var/run/cri-dockerd.sock")
    member = ClusterNode("w2", True, runtime="docker://24.0.7", annotations={ANNOTATION: DOCKER})
    assert cri_socket(member, None, (NEW, moved)) == moved.socket
    # No release knows it: then the wanted one is all that can be tried.
    assert cri_socket(member, None, (NEW,)) == CONTAINERD


@pytest.mark.parametrize(
    ("runtime", "expected"),
    [
        ({"docker": {}, "containerd": {"namespaces": ["k8s.io"]}}, CONTAINERD),
        ({"docker": {"version": "20.10.24"}, "containerd": {"namespaces": ["moby"]}}, DOCKER),
        ({"docker": {}, "containerd": {"namespaces": ["moby"]}}, DOCKER),
        ({"docker": {}, "containerd": {"namespaces": []}}, None),
        ({"docker": None, "containerd": None}, None),
        # In the middle of a change of the runtime both have containers.
        ({"docker": {"version": "20"}, "containerd": {"namespaces": ["moby", "k8s.io"]}}, None),
    ],
)
def test_without_a_node_object_the_machine_is_asked(runtime: Any, expected: str | None) -> None:
    document = samples.bare(samples.site().node("w2"))
    document["runtime"] = runtime
    facts = samples.node_facts({"w2": document})["w2"]
    for wanted in (OLD, NEW):
        assert cri_socket(None, facts, (wanted, *KNOWN)) == (expected or wanted.socket)


def test_a_node_of_the_old_runtime_is_reset_through_it_in_the_middle_of_an_upgrade() -> None:
    bench = Bench()
    bench.member("w2", runtime="containerd://1.6.21")
    assert bench.rack.desired.release.runtime.name == "docker"
    bench.remove("w2")
    (play,) = bench.rack.plays
    assert play.inventory["all"]["vars"]["node_reset_cri_socket"] == CONTAINERD
