"""Pods that can run on one node alone, as their specs say it."""

from __future__ import annotations

from typing import Any

import pytest
from kubernetes import client

from appliance.adapters.kubernetes.objects import HOSTNAME, pod_of


def affinity(*terms: dict[str, tuple[str, list[str]]]) -> Any:
    """A required node affinity: for each term, label -> operator and values."""
    built = [
        client.V1NodeSelectorTerm(
            match_expressions=[
                client.V1NodeSelectorRequirement(key=key, operator=operator, values=values)
                for key, (operator, values) in term.items()
            ]
        )
        for term in terms
    ]
    required = client.V1NodeSelector(node_selector_terms=built)
    node = client.V1NodeAffinity(required_during_scheduling_ignored_during_execution=required)
    return {"affinity": client.V1Affinity(node_affinity=node)}


HERE = {HOSTNAME: ("In", ["w1"])}
NAMES_IT = "its node affinity names this node"


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({}, ""),
        ({"node_selector": {HOSTNAME: "w1"}}, "its nodeSelector names this node"),
        ({"node_selector": {"disk": "ssd"}}, ""),
        (affinity(HERE), NAMES_IT),
        (affinity({**HERE, "disk": ("Exists", [])}), NAMES_IT),
        (affinity(HERE, {"disk": ("Exists", [])}), ""),
        (affinity({HOSTNAME: ("In", ["w1", "w2"])}), ""),
        (affinity({HOSTNAME: ("NotIn", ["w2"])}), ""),
        ({"affinity": client.V1Affinity()}, ""),
    ],
)
def test_why_a_pod_can_run_nowhere_else(spec: dict[str, Any], why: str) -> None:
    pod = client.V1Pod(
        metadata=client.V1ObjectMeta(name="prometheus-0", namespace="monitoring"),
        spec=client.V1PodSpec(containers=[client.V1Container(name="c")], **spec),
        status=client.V1PodStatus(),
    )
    assert pod_of(pod).confined == why
