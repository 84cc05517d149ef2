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


def report(own: bool, theirs: bool, address: str = "10.0.0.3") -> tuple[int, str]:
    """What etcdctl 3.5.1 says of two endpoints; kubectl ends with its code."""
    healths = {f"https://{address}:2379": theirs, "https://127.0.0.1:2379": own}
    told = [
        {"endpoint": endpoint, "health": health, "took": "2ms"}
        | ({} if health else {"error": "context deadline exceeded"})
        for endpoint, health in healths.items()
    ]
    return int(not (own and theirs)), json.dumps(told) + "\n"


LIVES, IS_DEAD = report(own=True, theirs=True), report(own=True, theirs=False)
# What kubectl says when it fails itself: the same code, and not a word of etcdctl.
KUBECTL_FAILS = (1, "")
NOT_SURE = {
    "kubectl itself fails": KUBECTL_FAILS,
    "a report that is cut off": (1, IS_DEAD[1][:40]),
    "a report of no list": (1, "null\n"),
    "the member that is asked is not well": report(own=False, theirs=False),
    "a report on somebody else": report(own=True, theirs=False, address="10.0.0.4"),
}


class Cluster:
    """Two etcd pods, one of them on the node in question."""

    def __init__(self, *pods: dict[str, Any], health: tuple[int, str] = IS_DEAD) -> None:
        self.pods = list(pods)
        self.health = [health]
        self.calls: list[list[str]] = []

    def get(self, *_arguments: str) -> dict[str, Any]:
        return {"items": self.pods}

    def call(self, arguments: list[str], success_codes: tuple[int, ...] = (0,)) -> tuple[int, str]:
        self.calls.append(arguments)
        members = [{"ID": 0xA1, "peerURLs": ["https://10.0.0.3:2380"]}]
        if "health" in arguments:
            rc, out = self.health.pop(0) if len(self.health) > 1 else self.health[0]
            assert rc in success_codes
            return rc, out
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
    cluster = Cluster(pod("etcd-cp1", "10.0.0.1"), health=LIVES)
    assert etcd_member.Etcd(cluster, "10.0.0.3").answers()


@pytest.mark.parametrize("answer", NOT_SURE.values(), ids=NOT_SURE.keys())
def test_a_member_is_dead_by_the_word_of_etcdctl_alone(answer: tuple[int, str]) -> None:
    cluster = Cluster(pod("etcd-cp1", "10.0.0.1"), health=answer)
    etcd = etcd_member.Etcd(cluster, "10.0.0.3", patience_seconds=0)
    with pytest.raises(etcd_member.KubectlError, match=r"10\.0\.0\.3.*nothing was.*run again"):
        etcd.answers()


@pytest.mark.parametrize(("last", "lives"), [(LIVES, True), (IS_DEAD, False)])
def test_a_kubectl_that_fails_once_is_asked_again(last: tuple[int, str], lives: bool) -> None:
    cluster = Cluster(pod("etcd-cp1", "10.0.0.1"))
    cluster.health = [KUBECTL_FAILS, last]
    etcd = etcd_member.Etcd(cluster, "10.0.0.3")
    etcd.sleep = lambda _seconds: None
    assert etcd.answers() is lives


def test_a_member_lives_by_its_own_word_when_the_one_asked_is_not_well() -> None:
    cluster = Cluster(pod("etcd-cp1", "10.0.0.1"), health=report(own=False, theirs=True))
    assert etcd_member.Etcd(cluster, "10.0.0.3").answers()


def test_only_a_ready_member_on_another_node_is_queried() -> None:
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
