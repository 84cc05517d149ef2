"""The proof of the pod network: what a pod tries when it is asked, and who asks it again."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace as Thing
from typing import Any

import pytest
from kubernetes.client import ApiException
from urllib3.exceptions import ReadTimeoutError

from appliance.adapters import network_proof

NC = """case " $DEAD " in *" $3 "*) exit 1 ;; esac
echo 'HTTP/1.0 200 OK'
"""
HEAD = "Content-Type: text/plain\r\n\r\n"


class Pod:
    """The scripts of a pod, with programs that answer or do not."""

    def __init__(self, folder: Path) -> None:
        self.programs = folder / "bin"
        self.programs.mkdir()
        self.environment = {
            "PATH": f"{self.programs}:{os.environ['PATH']}",
            "DEAD": "none",
            "PATH_INFO": "/w1=198.51.100.1,w2=198.51.100.2",
            "SERVICE": "198.51.100.9",
            "NAME": "proof",
        }
        self.program("nc", NC)
        self.program("nslookup", "exit 0")

    def program(self, name: str, body: str) -> None:
        path = self.programs / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)

    def run(self, script: str, **environment: str) -> list[str]:
        """What it answers, sorted."""
        done = subprocess.run(
            ["/bin/sh", "-c", network_proof._HEAD + script],
            env=self.environment | environment,
            capture_output=True,
            check=True,
        )
        head, found, body = done.stdout.decode().partition("\r\n\r\n")
        assert head + found == HEAD
        return sorted(body.splitlines())


@pytest.fixture
def pod(tmp_path: Path) -> Pod:
    return Pod(tmp_path)


def test_a_pod_that_reaches_all_says_nothing(pod: Pod) -> None:
    assert pod.run(network_proof._CHECK) == []


def test_a_pod_says_each_target_that_does_not_answer(pod: Pod) -> None:
    pod.program("nslookup", "exit 1")
    assert pod.run(network_proof._CHECK, DEAD="198.51.100.2 198.51.100.9") == [
        "no answer from the pod on w2 (198.51.100.2)",
        "no answer from the service address 198.51.100.9",
        "the cluster's DNS does not resolve proof",
    ]


def test_targets_are_tried_at_the_same_time(pod: Pod, tmp_path: Path) -> None:
    # Each waits until the other has been asked: in turn, both would fail.
    met = tmp_path / "met"
    met.mkdir()
    pod.program(
        "nc",
        f'touch {met}/$3; for _ in 1 2 3 4 5 6 7 8 9; do [ "$(ls {met} | wc -l)" = 3 ] && '
        "echo 'HTTP/1.0 200 OK' && exit; sleep 0.3; done",
    )
    assert pod.run(network_proof._CHECK) == []


def test_other_names_are_told_as_they_are_resolved(pod: Pod) -> None:
    pod.program("nslookup", "printf 'Name:\\tx\\nAddress 1: 192.0.2.7 x\\n'")
    said = pod.run(network_proof._NAMES, PATH_INFO="/a.test,b.test")
    assert said == ["= a.test 192.0.2.7 x", "= b.test 192.0.2.7 x"]


def test_a_name_is_asked_for_twice(pod: Pod, tmp_path: Path) -> None:
    once = tmp_path / "once"
    pod.program("nslookup", f"[ -e {once} ] && printf 'Name: x\\nAddress 1: ::1\\n'; touch {once}")
    assert pod.run(network_proof._NAMES, PATH_INFO="/a.test") == ["= a.test ::1"]


class Cluster:
    """A node for each name, whose pods say what ``said`` gives for (node, script, words)."""

    def __init__(self, *nodes: str, said: Callable[[str, str, str], str]) -> None:
        self.nodes = nodes
        self.said = said
        self.now = 0.0
        self.asked: list[tuple[str, str, str]] = []
        self.values: dict[str, str] = {}

    def create_namespaced_service(self, *_: Any, **__: Any) -> Thing:
        return Thing(spec=Thing(cluster_ip="198.51.100.9"))

    def create_namespaced_daemon_set(self, _: str, body: dict[str, Any], **__: Any) -> None:
        container = body["spec"]["template"]["spec"]["containers"][0]
        self.values = {e["name"]: e["value"] for e in container["env"]}

    def list_namespaced_pod(self, *_: Any, **__: Any) -> Thing:
        ready = [Thing(type="Ready", status="True")]
        status = Thing(phase="Running", pod_ip="198.51.100.1", conditions=ready)
        return Thing(
            items=[
                Thing(metadata=Thing(name=f"pod-{node}"), spec=Thing(node_name=node), status=status)
                for node in self.nodes
            ]
        )

    def connect_get_namespaced_pod_proxy_with_path(
        self, pod: str, _: str, path: str, *, _request_timeout: tuple[int, int]
    ) -> str:
        name, port = pod.removeprefix("pod-").split(":")
        assert int(port) == network_proof.PORT
        folder, script, words = path.split("/")
        assert folder == "cgi-bin"
        self.asked.append((name, script, words))
        return self.said(name, script, words)

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def prove(self, monkeypatch: pytest.MonkeyPatch, *names: str) -> Any:
        clock = Thing(monotonic=lambda: self.now, sleep=self.sleep)
        monkeypatch.setattr(network_proof, "time", clock)
        return network_proof._Proof(self, self, "n", self.nodes, "image", names).carry_out(120)


def test_only_the_pod_that_met_a_fault_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def said(node: str, _script: str, _words: str) -> str:
        late = node == "w2" and len(cluster.asked) < 5
        return "no answer from the service address 198.51.100.9\n" if late else ""

    cluster = Cluster("w1", "w2", said=said)
    assert cluster.prove(monkeypatch).faults == ()
    assert [node for node, *_ in cluster.asked].count("w1") == 1
    assert cluster.values["SERVICE"] == "198.51.100.9"
    assert cluster.values["NAME"] == "proof.n.svc.cluster.local"


def test_what_stays_is_a_fault_when_the_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster("w1", "w2", said=lambda node, *_: "b\na\n" if node == "w1" else "")
    assert cluster.prove(monkeypatch).faults == ("w1: a", "w1: b")
    assert network_proof.TARGET_SECONDS <= cluster.now < network_proof.TARGET_SECONDS + 1


def test_names_are_asked_for_once_all_else_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster("w1", said=lambda _, script, words: f"= {words}\n" * (script == "names"))
    found = cluster.prove(monkeypatch, "runai.rack.test")
    assert found.names == {"w1": {"runai.rack.test": ()}}
    assert cluster.asked[-1] == ("w1", "names", "runai.rack.test")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ReadTimeoutError(None, "", ""), "(198.51.100.1)"),  # type: ignore[arg-type]
        (ApiException(503, "Service Unavailable"), "(198.51.100.1): 503 Service Unavailable"),
        (ApiException(404, "Not Found"), "(198.51.100.1): 404 Not Found"),
    ],
)
def test_a_pod_that_cannot_be_asked_is_a_fault(
    monkeypatch: pytest.MonkeyPatch, error: Exception, words: str
) -> None:
    def said(*_: str) -> str:
        raise error

    found = Cluster("w1", said=said).prove(monkeypatch, "runai.rack.test")
    assert found.faults == (f"w1: the API server gets no answer from the pod there {words}",)
    assert found.names == {}


def test_what_the_api_refuses_is_no_fault_of_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def said(*_: str) -> str:
        raise ApiException(403, "Forbidden")

    with pytest.raises(ApiException, match="Forbidden"):
        Cluster("w1", said=said).prove(monkeypatch)


def test_many_peers_are_asked_for_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [f"w{number}" for number in range(network_proof.PEERS + 1)]
    cluster = Cluster(*nodes, said=lambda *_: "x\n")
    monkeypatch.setattr(network_proof, "TARGET_SECONDS", 0)
    found = cluster.prove(monkeypatch)
    of_one = [words.split(",") for node, _, words in cluster.asked if node == "w7"]
    assert sorted(len(words) for words in of_one) == [1, network_proof.PEERS]
    assert sorted(word.partition("=")[0] for words in of_one for word in words) == sorted(nodes)
    assert len(found.faults) == len(nodes)
