"""What pods ask for and nodes offer, as the Kubernetes API writes it."""

from __future__ import annotations

from typing import Any

import pytest
from kubernetes import client

from appliance.adapters.kubernetes.objects import node_of, pod_of
from appliance.model.state.cluster.resources import MOST, Resources, allocatable_of, requests_of


def container(limits: Any = None, **requests: str) -> client.V1Container:
    asked = client.V1ResourceRequirements(requests=requests or None, limits=limits)
    return client.V1Container(name="c", resources=asked)


def asked_by(*containers: client.V1Container, **spec: Any) -> Resources | None:
    pod = client.V1Pod(
        metadata=client.V1ObjectMeta(name="web-1", namespace="team"),
        spec=client.V1PodSpec(containers=[*containers], **spec),
        status=client.V1PodStatus(),
    )
    return pod_of(pod).requests


def test_containers_run_together_and_init_containers_one_after_the_other() -> None:
    both = (container(cpu="500m", memory="1Gi"), container(cpu="1", memory="1G"))
    assert asked_by(*both) == Resources(1500, 2**30 + 10**9, 1)
    first = [container(cpu="1200m", memory="3Gi"), container(cpu="1", memory="1")]
    assert asked_by(*both, init_containers=first) == Resources(1500, 3 * 2**30, 1)
    overhead = {"cpu": "250m", "memory": "120Mi"}
    assert asked_by(container(cpu="1"), overhead=overhead) == Resources(1250, 120 * 2**20, 1)


def test_without_a_request_nothing_is_reserved_unless_there_is_a_limit() -> None:
    assert asked_by(container(), client.V1Container(name="bare")) == Resources(0, 0, 1)
    assert asked_by(container({"cpu": "2"}, memory="5")) == Resources(2000, 5, 1)
    assert asked_by(container({"cpu": "2"}, cpu="1")) == Resources(1000, 0, 1)


@pytest.mark.parametrize("gpus", ["many", "-1", "0.5", "1e3", "9" * 40])
def test_gpus_that_cannot_be_read_make_all_of_it_unreadable(gpus: str) -> None:
    assert asked_by(container({"nvidia.com/gpu": gpus}, cpu="1")) is None
    assert asked_by(container({"nvidia.com/gpu": "8"}, cpu="1")) == Resources(1000, 0, 1)


@pytest.mark.parametrize(
    ("text", "milli"),
    [
        ("0", 0),
        ("0.0001", 1),
        ("1500m", 1500),
        ("1u", 1),
        ("2.", 2000),
        (".5", 500),
        ("1e2", 100_000),
        ("1E-3", 1),
        ("3E", 3 * 10**21),
        ("2Ki", 2048_000),
        ("9" * 19 + "Ei", MOST),
        ("1e99", MOST),
        ("1e100", None),
        ("1e-99", 1),
        ("9" * 20, None),
        ("9" * 5000, None),
        ("1" + "0" * 70 + "m", None),
        ("-1", None),
        ("+1", None),
        ("", None),
        (" 1", None),
        ("1\n", None),
        ("1 m", None),
        ("1mm", None),
        ("٣", None),
        ("NaN", None),
        ("0x10", None),
        (4, None),
        (None, None),
        ({"cpu": "1"}, None),
    ],
    ids=lambda one: repr(one)[:30],
)
def test_a_quantity_is_read_or_unknown(text: Any, milli: int | None) -> None:
    expected = None if milli is None else Resources(min(milli, MOST), 0, 1)
    assert requests_of([{"cpu": text}]) == expected


def test_requests_are_rounded_up_and_what_a_node_offers_down() -> None:
    assert requests_of([{"cpu": "1.0001", "memory": "1500m"}]) == Resources(1001, 2, 1)
    offered = {"cpu": "1.0001", "memory": "1500m", "pods": "110"}
    assert allocatable_of(offered) == Resources(1000, 1, 110)


@pytest.mark.parametrize("name", ["cpu", "memory", "pods"])
def test_a_node_that_does_not_say_what_it_offers_is_unknown(name: str) -> None:
    offered: dict[str, str] = {"cpu": "4", "memory": "16Gi", "pods": "110"}
    assert allocatable_of(offered) == Resources(4000, 2**34, 110)
    assert allocatable_of({**offered, name: "plenty"}) is None
    del offered[name]
    assert allocatable_of(offered) is None
    assert allocatable_of(None) is None


def test_a_node_tells_its_offer_and_a_pod_its_selector() -> None:
    offered = {"cpu": "3920m", "memory": "16Gi", "pods": "110", "nvidia.com/gpu": "8"}
    node = client.V1Node(
        metadata=client.V1ObjectMeta(name="w1"),
        spec=client.V1NodeSpec(),
        status=client.V1NodeStatus(allocatable=offered),
    )
    assert node_of(node).allocatable == Resources(3920, 2**34, 110)
    pod = client.V1Pod(
        metadata=client.V1ObjectMeta(name="web-1", namespace="team"),
        spec=client.V1PodSpec(containers=[container()], node_selector={"disk": "fast"}),
        status=client.V1PodStatus(),
    )
    assert pod_of(pod).node_selector == {"disk": "fast"}
