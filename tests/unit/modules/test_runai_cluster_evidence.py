"""The cluster's side shows the connection, or what shows the contrary; silence shows nothing."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.modules.loading import load

module = load("runai_cluster_evidence", role="runai_cluster")
DOMAIN = "runai.rack.test"
WANT = {
    "domain": DOMAIN,
    "namespace": "runai",
    "workloads": ["runai-agent", "*cluster-sync"],
    "timeout_seconds": 4,
}


def deployment(name: str, ready: int = 1, replicas: int = 1) -> dict[str, Any]:
    spec, status = {"replicas": replicas}, {"readyReplicas": ready}
    return {"metadata": {"name": name}, "spec": spec, "status": status}


class FakeKubectl:
    """Answers from data; ``logs`` has one text for each look, the last for ever."""

    def __init__(self, logs: list[str], deployments: list[Any], config: Any = None) -> None:
        self.logs, self.deployments, self.config = logs, deployments, config

    def get(self, *arguments: str) -> Any:
        return {"items": self.deployments} if "deployments" in arguments else self.config

    def call(self, arguments: list[str]) -> tuple[int, str]:
        assert arguments[1] == "logs"
        return 0, self.logs.pop(0) if len(self.logs) > 1 else self.logs[0]


class Clock:
    now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def conditions(**states: str) -> dict[str, Any]:
    listed = [{"type": kind, "status": said, "reason": "why"} for kind, said in states.items()]
    return {"status": {"conditions": listed}}


AGENT = [deployment("runai-agent")]
FINE = f"sent status to https://{DOMAIN}/v1/k8s"


@pytest.mark.parametrize(
    ("log", "failure"),
    [
        (FINE, False),
        ("", False),
        ("started\nwatching nodes", False),
        (f"Post https://{DOMAIN}: x509: certificate signed by unknown authority", True),
        (f"{FINE}\ndial tcp: lookup {DOMAIN}: no such host", True),
        (f"x509: unknown authority\n{FINE}", False),
        ("level=error msg=Unauthorized", True),
        (f"{FINE}\nGET https://{DOMAIN}/x 401", True),
        (f"not connected to https://{DOMAIN}: timed out", True),
        (f'level=info msg="loaded CA certificate" url=https://{DOMAIN}/', False),
        (f"GET https://{DOMAIN}/x took 403 us", False),
    ],
)
def test_the_newest_line_about_the_backend_counts(log: str, failure: bool) -> None:
    assert bool(module.last_failure(log, DOMAIN)) is failure


def test_what_shows_the_connection_is_listed_and_what_is_silent_too() -> None:
    both = [*AGENT, deployment("runai-cluster-sync")]
    seen = module.wait(FakeKubectl([FINE], both, conditions(Available="True")), WANT, Clock())
    assert len(seen) == 3
    silent = module.wait(FakeKubectl(["up"], AGENT), WANT, Clock())
    assert silent == [
        "deployment runai-agent is ready; its log does not name the backend",
        "RunaiConfig runai tells no conditions",
    ]


@pytest.mark.parametrize(
    ("deployments", "config", "told"),
    [
        ([], None, "there is no deployment runai-agent"),
        ([deployment("runai-agent", ready=0)], None, "runai-agent is not ready"),
        ([*AGENT, deployment("cluster-sync", ready=0)], None, "cluster-sync is not ready"),
        (AGENT, conditions(Available="True", Reconciled="False"), "Reconciled: why"),
    ],
)
def test_what_shows_the_contrary_is_told(deployments: list[Any], config: Any, told: str) -> None:
    with pytest.raises(module.NoEvidence, match=told):
        module.wait(FakeKubectl([FINE], deployments, config), WANT, Clock())


def test_a_failure_that_passes_is_waited_for() -> None:
    kubectl = FakeKubectl(["connection refused", "connection refused", FINE], AGENT)
    assert module.wait(kubectl, WANT, Clock())


def test_a_failure_that_lasts_is_told_without_what_a_terminal_would_act_on() -> None:
    kubectl = FakeKubectl(["\x1b[31mx509: unknown authority"], AGENT)
    with pytest.raises(module.NoEvidence, match=r"says: \[31mx509: unknown authority"):
        module.wait(kubectl, WANT, Clock())


@pytest.mark.parametrize("status", [None, "text", {"conditions": "all good"}, {"conditions": []}])
def test_a_config_that_says_nothing_readable_is_no_good_sign(status: Any) -> None:
    assert module.false_conditions({"status": status} if status != "text" else {}) == ([], False)
