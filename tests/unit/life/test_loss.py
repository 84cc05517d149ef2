"""A lost node: when it is one, and what is said of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from appliance.model.node.lost import SILENT_SECONDS, LostNode, Service, Workloads, losses
from appliance.model.state.cluster.cluster import ClusterNode
from appliance.model.state.cluster.pods import Pod

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
SET = ("StatefulSet", "db")
WEB = ("ReplicaSet", "web-1")


@dataclass(frozen=True)
class Sign:
    """What is known of one node: its Ready condition, since when, and its last heartbeat."""

    ready: bool
    heartbeat: datetime | None = None
    changed: datetime | None = None


def sign(ago: float = 0, *, ready: bool = True) -> Sign:
    return Sign(ready, NOW - timedelta(seconds=ago), NOW)


def workloads(signs: dict[str, Sign], *pods: Pod, **more: Any) -> Workloads:
    nodes = {
        name: ClusterNode(
            name, sign.ready, ready_since=sign.changed.isoformat() if sign.changed else None
        )
        for name, sign in signs.items()
    }
    heartbeats = {name: sign.heartbeat for name, sign in signs.items() if sign.heartbeat}
    return Workloads(nodes, heartbeats, pods, **more)


def with_w1(w1: Sign, *pods: Pod, services: tuple[Service, ...] = ()) -> Workloads:
    return workloads({"cp1": sign(), "w1": w1, "w2": sign()}, *pods, services=services)


@pytest.mark.parametrize(
    ("w1", "unreachable", "lost"),
    [
        (sign(), (), False),
        (sign(3600, ready=False), ("w1",), True),
        # The kubelet alone is dead.
        (sign(60, ready=False), (), True),
        # The API calls it Ready still, but nobody hears of it.
        (sign(SILENT_SECONDS + 1), ("w1",), True),
        # Only SSH is away, or only a lease is late: no reason to call it lost.
        (sign(SILENT_SECONDS - 1), ("w1",), False),
        (sign(SILENT_SECONDS + 1), (), False),
        (Sign(True), ("w1",), False),
    ],
)
def test_a_node_is_lost_when_it_is_not_ready_or_silent_on_both_ways(
    w1: Sign, unreachable: tuple[str, ...], lost: bool
) -> None:
    assert [loss.node for loss in losses(with_w1(w1), unreachable)] == ["w1"] * lost


def test_a_node_that_was_taken_out_of_service_is_not_lost() -> None:
    away = with_w1(sign(3600, ready=False))
    assert losses(away, ["w1"], expected=["w1"]) == ()


def test_since_is_the_last_sign_of_life_and_not_when_the_api_noticed() -> None:
    (loss,) = losses(with_w1(sign(90, ready=False)), ["w1"])
    assert loss.since == "2026-01-01T11:58:30+00:00"
    (loss,) = losses(with_w1(Sign(False, None, NOW)), ["w1"])
    assert loss.since == "2026-01-01T12:00:00+00:00"
    (loss,) = losses(with_w1(Sign(False)), ["w1"])
    assert "an unknown time" in loss.sentences()[0]


def test_what_is_stuck_is_distinguished_from_what_goes_with_the_node() -> None:
    pods = (
        Pod("a", "old", "w1", WEB, ending=True, ready=False),
        Pod("a", "new", "w1", WEB, ready=False),
        Pod("a", "done", "w1", ("Job", "j"), phase="Succeeded"),
        Pod("a", "daemon", "w1", ("DaemonSet", "d")),
        Pod("kube-system", "etcd", "w1", ("Node", "w1")),
        Pod("a", "else", "w2", WEB, ending=True),
        Pod("a", "db-0", "w1", SET, ending=True, ready=False),
    )
    (loss,) = losses(with_w1(sign(90, ready=False), *pods), ["w1"])
    assert loss.terminating == ("a/db-0", "a/old")
    assert loss.waiting == ("a/new",)
    assert loss.frozen == ("db",)


def test_volumes_are_those_attached_and_those_that_pods_use() -> None:
    found = workloads(
        {"w1": sign(90, ready=False), "w2": sign()},
        Pod("a", "x", "w1", WEB, claims=("data", "unbound")),
        Pod("a", "y", "w2", WEB, claims=("other",)),
        volumes={("a", "data"): "pv-1", ("a", "other"): "pv-2", ("b", "data"): "pv-3"},
        attached=(("w1", "pv-4"), ("w2", "pv-5")),
    )
    (loss,) = losses(found, ["w1"])
    assert loss.volumes == ("pv-1", "pv-4")


WEB_SERVICE = Service("a", "web", {"app": "web"})
ON_W1 = Pod("a", "web-1", "w1", WEB, {"app": "web", "x": "y"}, ready=False)


@pytest.mark.parametrize(
    ("service", "others", "gone"),
    [
        (WEB_SERVICE, (), True),
        (WEB_SERVICE, (Pod("a", "web-2", "w2", WEB, {"app": "web"}),), False),
        (WEB_SERVICE, (Pod("a", "web-2", "w2", WEB, {"app": "web"}, ready=False),), True),
        (WEB_SERVICE, (Pod("b", "web-2", "w2", WEB, {"app": "web"}),), True),
        (WEB_SERVICE, (Pod("a", "api-1", "w2", WEB, {"app": "api"}),), True),
        # A second copy on the same node is no copy.
        (WEB_SERVICE, (Pod("a", "web-2", "w1", WEB, {"app": "web"}),), True),
        (Service("a", "outside"), (), False),
        (Service("b", "web", {"app": "web"}), (), False),
        (Service("a", "api", {"app": "api"}), (), False),
    ],
)
def test_a_service_lost_its_only_copy_when_no_ready_pod_is_left_elsewhere(
    service: Service, others: tuple[Pod, ...], gone: bool
) -> None:
    found = with_w1(sign(90, ready=False), ON_W1, *others, services=(service,))
    (loss,) = losses(found, ["w1"])
    assert bool(loss.services) is gone


def test_copies_on_two_lost_nodes_are_no_copies() -> None:
    other = Pod("a", "web-2", "w2", WEB, {"app": "web"})
    signs = {"cp1": sign(), "w1": sign(90, ready=False), "w2": sign(90, ready=False)}
    found = losses(workloads(signs, ON_W1, other, services=(WEB_SERVICE,)), ["w1", "w2"])
    assert [loss.services for loss in found] == [("a/web",), ("a/web",)]


def test_the_sentences_name_everything_and_an_empty_node_says_so() -> None:
    full = LostNode("w1", "T", terminating=("a/x",), volumes=("pv-1",), services=("a/web",))
    assert full.sentences() == (
        "lost since T",
        "pods Terminating on it: a/x",
        "volumes in use on it: pv-1",
        "services without another ready pod: a/web",
    )
    silent = LostNode("w1", "T", answers_ssh=True)
    assert silent.sentences() == (
        "lost since T; SSH answers, but its kubelet does not report",
        "nothing is stuck on it",
    )
