"""What a node is, as a truth table: ``tests/data/node_state/cases.yml`` are its rows."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from appliance.model.state.cluster.cluster import ClusterState, NoCluster, Unreachable
from appliance.model.state.facts.facts import NodeFacts, watching
from appliance.model.state.nodes.kubeadm_state import host_and_port, is_member
from appliance.model.state.nodes.maintenance import ANNOTATION, Maintenance, away
from appliance.model.state.nodes.node_state import (
    Condition,
    NodeState,
    in_maintenance,
    node_state,
    node_states,
)
from appliance.model.state.observed import Fault, Observed
from tests import samples

CASES: list[dict[str, Any]] = yaml.safe_load(
    (Path(__file__).parents[2] / "data" / "node_state" / "cases.yml").read_text(encoding="utf-8")
)
DESIRED = samples.desired()
SITE = DESIRED.site
OTHER_API = {"path": "/etc/kubernetes/kubelet.conf", "server": "https://203.0.113.5:6443"}
OTHER_CA = {"path": "/etc/kubernetes/pki/ca.crt", "sha256": "0" * 64}
MACHINES = ("none", "late", "unread", "bare", "half", "member", "other", "other_ca")
NODES: dict[str, dict[str, Any]] = {
    "ready": {},
    "silent": {"ready": False, "not_ready_reason": "the kubelet stopped posting"},
    "speaks": {"ready": False, "not_ready_reason": "it says so", "kubelet_speaks": True},
}
MARKS = ("none", "planned", "lost")
KEYS = {"name", "cluster", "machine", "node", "mark", "fault", "is", "evidence", "shows"}


def _machine(kind: str) -> dict[str, Any] | None:
    node = SITE.node("w1")
    if kind == "none":
        return None
    joined = kind in ("member", "other", "other_ca")
    document = samples.converged(node, DESIRED) if joined else samples.bare(node)
    kubernetes = document["kubernetes"]
    if kind == "late":
        document["kubernetes"] = None
    elif kind == "unread":
        document["unseen"] = {"kubernetes.kubeconfigs": "busy"}
    elif kind == "half":
        server = samples.converged(node, DESIRED)["kubernetes"]["kubeconfigs"][0]["server"]
        kubernetes["kubeconfigs"] = [
            {"path": "/etc/kubernetes/bootstrap-kubelet.conf", "server": server}
        ]
    elif kind.startswith("other"):
        kubernetes["kubeconfigs"] = [OTHER_API]
        kubernetes["pki"] = [OTHER_CA] if kind == "other_ca" else []
    return document


def _cluster(case: dict[str, Any]) -> ClusterState:
    if case.get("cluster") == "none":
        return NoCluster()
    if case.get("cluster") == "unreachable":
        return Unreachable("the API does not answer", {"cp1": "etcd data"})
    found = samples.cluster(DESIRED)
    nodes = dict(found.nodes)
    w1 = nodes.pop("w1")
    if case["node"] == "none":
        return dataclasses.replace(found, nodes=nodes)
    mark = case.get("mark", "none")
    annotations = {} if mark == "none" else {ANNOTATION: _mark(lost=mark == "lost").as_text()}
    made = dataclasses.replace(w1, annotations=annotations, **NODES[case["node"]])
    return dataclasses.replace(found, nodes={**nodes, "w1": made})


def _mark(*, lost: bool) -> Maintenance:
    words = ("run", "ada", "laptop", "2026-01-01T00:00:00+00:00", "taint", "out of service")
    return Maintenance(*words, cordoned=True, tainted=True, lost=lost)  # type: ignore[arg-type]


def _observed(case: dict[str, Any]) -> Observed:
    documents = {"cp1": samples.converged(SITE.node("cp1"), DESIRED)}
    document = _machine(case["machine"])
    if document is not None:
        documents["w1"] = document
    faults = (Fault("w1", case["fault"], "ping it"),) if "fault" in case else ()
    return Observed(samples.node_facts(documents), _cluster(case), faults)


def _state(case: dict[str, Any]) -> NodeState:
    return node_state("w1", SITE, _observed(case))


@pytest.mark.parametrize("case", [pytest.param(case, id=case["name"]) for case in CASES])
def test_a_node_is_what_the_row_says(case: dict[str, Any]) -> None:
    state = _state(case)
    assert state.condition == case["is"], state
    assert len(state.evidence) == max(len(case["evidence"]), 2), state.evidence
    for words, sentence in zip(case["evidence"], state.evidence, strict=False):
        assert words in sentence
    shown = [name for name in ("is_blank", "is_joined", "is_planned") if getattr(state, name)]
    assert shown == case.get("shows", [])


def test_every_condition_has_rows_and_no_row_has_an_unused_key() -> None:
    assert {case["is"] for case in CASES} == set(get_args(Condition))
    assert {key for case in CASES for key in case} == KEYS


@pytest.mark.parametrize(
    ("machine", "node", "mark"), tuple(itertools.product(MACHINES, ("none", *NODES), MARKS))
)
def test_the_state_agrees_with_what_it_rests_on(machine: str, node: str, mark: str) -> None:
    observed = _observed({"machine": machine, "node": node, "mark": mark})
    state, facts = node_state("w1", SITE, observed), observed.node_facts.get("w1")
    assert state.condition in get_args(Condition)
    assert state.is_joined == (facts is not None and is_member(facts))
    assert state.is_blank == (facts is not None and not is_member(facts))
    assert (state.condition == "in maintenance") == ("w1" in away(observed.cluster))
    assert in_maintenance(SITE, observed) == away(observed.cluster).keys()
    if state.condition == "lost":
        assert state.member is not None
        assert not state.member.ready


def test_it_is_decided_once_for_each_look() -> None:
    observed = _observed({"machine": "member", "node": "ready"})
    first = node_states(SITE, observed)
    assert node_states(SITE, observed) is first
    again = dataclasses.replace(observed, cluster=NoCluster())
    assert node_states(SITE, again)["w1"].member is None


def test_another_site_is_another_decision() -> None:
    observed = _observed({"machine": "member", "node": "ready"})
    assert node_states(SITE, observed)["w1"].condition == "member"
    left = SITE.without(frozenset({"w2"}))
    assert "w2" in node_states(left, observed), "the cluster has it still"
    assert node_states(left, observed)["w1"] == node_states(SITE, observed)["w1"]


def test_what_the_state_asks_for_makes_no_guess_of_whoever_reads_it() -> None:
    observed = _observed({"machine": "unread", "node": "none"})
    with watching() as missed:
        assert node_states(SITE, observed)["w1"].condition == "not seen"
    assert missed == []


def test_a_node_that_the_inventory_does_not_have_is_not_seen() -> None:
    cluster = samples.cluster(DESIRED)
    stranger = dataclasses.replace(cluster.nodes["w1"], name="w9")
    nodes = {**cluster.nodes, "w9": stranger}
    state = node_states(SITE, Observed({}, dataclasses.replace(cluster, nodes=nodes)))["w9"]
    assert (state.condition, state.answers) == ("not seen", False)


def test_a_document_is_no_other_machine_for_being_another_object() -> None:
    observed = _observed({"machine": "member", "node": "ready"})
    copied = {name: NodeFacts(facts.document) for name, facts in observed.node_facts.items()}
    assert node_states(SITE, Observed(copied, observed.cluster)) == node_states(SITE, observed)


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        ("https://API:6443", ("api", 6443)),
        ("https://198.18.7.11", ("198.18.7.11", None)),
        ("https://api:port", (None, None)),
        ("https://api:99999", (None, None)),
        ("https://[api:6443", (None, None)),
        ("", (None, None)),
    ],
)
def test_a_server_that_cannot_be_read_has_no_host(
    server: str, expected: tuple[str | None, int | None]
) -> None:
    assert host_and_port(server) == expected
