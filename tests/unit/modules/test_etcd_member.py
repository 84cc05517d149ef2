"""An etcd member is removed when its data are gone, and never while it answers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.modules.loading import load

etcd_member = load("etcd_member", role="kubeadm_control_plane")


def pod(name: str, address: str, ready: str = "True") -> dict[str, Any]:
    condition = {"type": "Ready", "status": ready}
    return {"metadata": {"name": name}, "status": {"hostIP": address, "conditions": [condition]}}


class Cluster:
    """Two etcd pods, one of them on the node in question."""

    def __init__(self, *pods: dict[str, Any], health: int = 1) -> None:
        self.pods = list(pods)
        self.health = health
        self.calls: list[list[str]] = []

    def get(self, *_arguments: str) -> dict[str, Any]:
        return {"items": self.pods}

    def call(self, arguments: list[str], success_codes: tuple[int, ...] = (0,)) -> tuple[int, str]:
        self.calls.append(arguments)
        members = [{"ID": 0xA1, "peerURLs": ["https://10.0.0.3:2380"]}]
        if "health" in arguments:
            assert self.health in success_codes
            return self.health, ""
        return 0, json.dumps({"members": members})


def test_the_member_is_found_by_its_peer_address_and_removed_by_its_identity() -> None:
    cluster = Cluster(pod("etcd-cp3", "10.0.0.3"), pod("etcd-cp1", "10.0.0.1"))
    etcd = etcd_member.Etcd(cluster, "10.0.0.3")
    assert not etcd.answers()
    etcd.remove(etcd.member())
    assert cluster.calls[-1][-3:] == ["member", "remove", "a1"]
    assert {call[2] for call in cluster.calls} == {"etcd-cp1"}


def test_a_node_without_a_member_has_none() -> None:
    cluster = Cluster(pod("etcd-cp1", "10.0.0.1"))
    assert etcd_member.Etcd(cluster, "10.0.0.4").member() is None


def test_a_member_that_answers_is_known_to_live() -> None:
    cluster = Cluster(pod("etcd-cp1", "10.0.0.1"), health=0)
    assert etcd_member.Etcd(cluster, "10.0.0.3").answers()


def test_nobody_is_asked_but_a_ready_member_elsewhere() -> None:
    cluster = Cluster(pod("etcd-cp3", "10.0.0.3"), pod("etcd-cp1", "10.0.0.1", "False"))
    with pytest.raises(etcd_member.KubectlError, match="ready after 0 s"):
        etcd_member.Etcd(cluster, "10.0.0.3", patience_seconds=0).member()


def test_a_member_that_just_started_is_waited_for() -> None:
    cluster = Cluster(pod("etcd-cp1", "10.0.0.1", "False"))
    etcd = etcd_member.Etcd(cluster, "10.0.0.3")
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        cluster.pods = [pod("etcd-cp1", "10.0.0.1")] if len(slept) > 2 else cluster.pods

    etcd.sleep = sleep
    assert etcd.member() is not None
    assert len(slept) == 3
