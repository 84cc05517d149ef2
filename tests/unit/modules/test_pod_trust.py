"""Workloads learn the CA by a mount, once, and nothing of theirs is taken away."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.modules.loading import load

pod_trust = load("pod_trust")
PEM = "-----BEGIN CERTIFICATE-----\nAA\n-----END CERTIFICATE-----\n"
PATTERNS = [
    {"names": "runai-agent", "required": True},
    {"names": "*cluster-sync", "required": False},
]
WANT = {"namespace": "runai", "certificate": PEM, "workloads": PATTERNS, "timeout_seconds": 4}


def workload(name: str, **container: Any) -> dict[str, Any]:
    spec: dict[str, Any] = {"containers": [{"name": "main", **container}]}
    return {"kind": "Deployment", "metadata": {"name": name}, "spec": {"template": {"spec": spec}}}


def merged(base: Any, patch: Any) -> Any:
    """A strategic merge, as far as it is used: lists of objects by their key."""
    if isinstance(base, dict) and isinstance(patch, dict):
        return {**base, **{k: merged(base.get(k), v) for k, v in patch.items()}}
    if isinstance(base, list) and isinstance(patch, list):
        key = "mountPath" if "mountPath" in (patch + base + [{}])[0] else "name"
        found = {item[key]: item for item in base}
        for item in patch:
            found[item[key]] = merged(found.get(item[key]), item)
        return list(found.values())
    return patch


class FakeKubectl:
    """Workloads and ConfigMaps in memory; ``later`` appear at the second look."""

    def __init__(self, *items: dict[str, Any], later: tuple[dict[str, Any], ...] = ()) -> None:
        self.items, self.later = list(items), list(later)
        self.config: dict[str, Any] | None = None
        self.looks = 0
        self.calls: list[str] = []

    def get(self, *arguments: str) -> Any:
        if "configmap" in arguments:
            return self.config
        self.looks += 1
        if self.looks > 1:
            self.items, self.later = self.items + self.later, []
        return {"items": self.items}

    def call(self, arguments: list[str]) -> tuple[int, str]:
        self.calls.append(arguments[1])
        if arguments[1:3] == ["create", "configmap"]:
            self.config = {"data": {"ca.pem": arguments[4].partition("ca.pem=")[2]}}
        elif arguments[1:3] == ["patch", "configmap"]:
            self.config = merged(self.config, json.loads(arguments[5].removeprefix("--patch=")))
        else:
            kind, _, name = arguments[2].partition("/")
            assert (kind, arguments[3]) == ("deployment", "--type=strategic")
            patch = json.loads(arguments[4].removeprefix("--patch="))
            self.items = [
                merged(item, patch) if item["metadata"]["name"] == name else item
                for item in self.items
            ]
        return 0, ""

    def container(self, name: str) -> dict[str, Any]:
        (found,) = (i for i in self.items if i["metadata"]["name"] == name)
        one: dict[str, Any] = found["spec"]["template"]["spec"]["containers"][0]
        return one


class Clock:
    now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def converge(kubectl: FakeKubectl, **more: Any) -> Any:
    trust = pod_trust.Trust(kubectl, "runai")
    return pod_trust.converge(trust, {**WANT, **more}, check_mode=False, clock=Clock())


def test_named_workloads_learn_the_ca_and_others_stay_as_they_are() -> None:
    kubectl = FakeKubectl(workload("runai-agent"), workload("runai-scheduler"))
    assert converge(kubectl) == (True, ["deployment/runai-agent"])
    container = kubectl.container("runai-agent")
    paths = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert paths == {"/etc/appliance-ca", "/etc/ssl/certs/appliance-ca.pem"}
    assert container["env"] == [
        {"name": "NODE_EXTRA_CA_CERTS", "value": "/etc/appliance-ca/ca.pem"}
    ]
    assert kubectl.container("runai-scheduler") == {"name": "main"}
    assert kubectl.config == {"data": {"ca.pem": PEM}}


def test_a_second_run_changes_nothing() -> None:
    kubectl = FakeKubectl(workload("runai-agent"))
    converge(kubectl)
    kubectl.calls.clear()
    assert converge(kubectl) == (False, [])
    assert kubectl.calls == []


def test_what_an_operator_took_away_is_put_back() -> None:
    kubectl = FakeKubectl(workload("runai-agent"))
    converge(kubectl)
    kubectl.items = [workload("runai-agent")]
    assert converge(kubectl) == (False, ["deployment/runai-agent"])


def test_another_ca_restarts_the_workloads() -> None:
    kubectl = FakeKubectl(workload("runai-agent"))
    converge(kubectl)
    other = PEM.replace("AA", "BB")
    assert converge(kubectl, certificate=other) == (True, ["deployment/runai-agent"])
    assert kubectl.config == {"data": {"ca.pem": other}}


def test_a_containers_own_settings_stay() -> None:
    own = {"name": "NODE_EXTRA_CA_CERTS", "value": "/their/own.pem"}
    mount = {"name": "data", "mountPath": "/data"}
    kubectl = FakeKubectl(workload("runai-agent", env=[own], volumeMounts=[mount]))
    converge(kubectl)
    container = kubectl.container("runai-agent")
    assert container["env"] == [own]
    assert mount in container["volumeMounts"]
    assert len(container["volumeMounts"]) == 3


def test_one_that_the_vendors_operator_makes_later_is_waited_for() -> None:
    kubectl = FakeKubectl(later=(workload("runai-agent"), workload("runai-cluster-sync")))
    assert converge(kubectl)[1] == ["deployment/runai-agent", "deployment/runai-cluster-sync"]


def test_one_that_never_comes_is_named() -> None:
    with pytest.raises(pod_trust.AbsentError, match="no workload named runai-agent was made"):
        converge(FakeKubectl(workload("runai-scheduler")))
