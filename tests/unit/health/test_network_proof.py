"""The proof of the pod network: what a pod tries when it is asked, and who asks it again."""

from __future__ import annotations

import os
import re
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace as Thing
from typing import Any, cast

import pytest
from kubernetes.client import ApiException
from urllib3.exceptions import ProtocolError, ReadTimeoutError, SSLError

from appliance.adapters.kubernetes.pod_tests import engine, network
from appliance.adapters.kubernetes.pod_tests import network_pods as inside
from appliance.model.state.observed import PodView

HEAD = "Content-Type: text/plain\r\n\r\n"
NC = """case " $DEAD " in *" $3 "*) exit 1 ;; esac
echo 'HTTP/1.0 200 OK'
"""
SERVER = "Server: 198.51.100.53\\nAddress: 198.51.100.53:53\\n\\n"
KNOWN = f"printf '{SERVER}Name: x\\nAddress 1: 192.0.2.7 x\\n'"
# As busybox 1.30.1, which is Ubuntu 20.04's, ends when there is no such name: with 0.
UNKNOWN = f"printf '{SERVER}** server can not find x\\n'"
TARGETS = ("service=198.51.100.9", "name=proof", "pod=w1=198.51.100.1", "pod=w2=198.51.100.2")


class Pod:
    """The scripts of a pod, with programs that answer or do not."""

    def __init__(self, folder: Path) -> None:
        self.programs = folder / "bin"
        self.programs.mkdir()
        self.environment = {
            "PATH": f"{self.programs}:{os.environ['PATH']}",
            "DEAD": "none",
            "PATH_INFO": f"/{','.join(TARGETS)}",
        }
        self.program("nc", NC)
        self.program("nslookup", KNOWN)

    def program(self, name: str, body: str) -> None:
        path = self.programs / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)

    def run(self, script: str, **environment: str) -> list[str]:
        """What it answers, sorted, without the last line."""
        done = subprocess.run(
            ["/bin/sh", "-c", script],
            env=self.environment | environment,
            capture_output=True,
            check=True,
        )
        head, found, body = done.stdout.decode().partition("\r\n\r\n")
        assert head + found == HEAD
        *lines, end = body.splitlines()
        assert end == inside.END
        return sorted(lines)


@pytest.fixture
def pod(tmp_path: Path) -> Pod:
    return Pod(tmp_path)


def test_a_pod_that_reaches_all_says_nothing(pod: Pod) -> None:
    assert pod.run(inside.CHECK) == []


def test_a_pod_says_each_target_that_does_not_answer(pod: Pod) -> None:
    pod.program("nslookup", "exit 1")
    said = pod.run(inside.CHECK, DEAD="198.51.100.2 198.51.100.9")
    assert [inside.sentence(word) for word in said] == [
        "the cluster's DNS does not resolve proof",
        "no answer from the pod on w2 (198.51.100.2)",
        "no answer from the service address 198.51.100.9",
    ]


def test_an_unknown_name_is_not_resolved_whatever_the_exit_status_of_nslookup(pod: Pod) -> None:
    pod.program("nslookup", UNKNOWN)
    assert pod.run(inside.CHECK) == ["name=proof"]


def test_a_target_that_accepts_and_sends_nothing_delays_no_other(pod: Pod) -> None:
    pod.program("timeout", 'shift; exec /usr/bin/timeout 2 "$@"')
    pod.program("nc", "exec sleep 60")
    assert len(pod.run(inside.CHECK)) == len(TARGETS) - 1


def test_no_word_is_an_option(pod: Pod) -> None:
    assert pod.run(inside.CHECK, PATH_INFO="/service=-lp9000") == ["service=-lp9000"]


def test_targets_are_tried_at_the_same_time(pod: Pod, tmp_path: Path) -> None:
    # Each waits until the others have been asked: in turn, all would fail.
    met = tmp_path / "met"
    met.mkdir()
    pod.program(
        "nc",
        f'touch {met}/$3; for _ in 1 2 3 4 5 6 7 8 9; do [ "$(ls {met} | wc -l)" = 3 ] && '
        "echo 'HTTP/1.0 200 OK' && exit; sleep 0.3; done",
    )
    assert pod.run(inside.CHECK) == []


def test_other_names_are_reported_with_their_addresses(pod: Pod) -> None:
    said = pod.run(inside.NAMES, PATH_INFO="/a.test,b.test")
    assert said == ["= a.test 192.0.2.7 x", "= b.test 192.0.2.7 x"]


def test_a_name_is_asked_for_twice(pod: Pod, tmp_path: Path) -> None:
    once = tmp_path / "once"
    pod.program("nslookup", f"[ -e {once} ] && {KNOWN}; touch {once}")
    assert pod.run(inside.NAMES, PATH_INFO="/a.test") == ["= a.test 192.0.2.7 x"]


class Cluster:
    """A node for each name, whose pods say what ``said`` gives for (node, script, words)."""

    def __init__(self, *nodes: str, said: Callable[[str, str, str], str]) -> None:
        self.nodes = nodes
        self.said = said
        self.now = 0.0
        self.ready_at = 0.0
        self.asked: list[tuple[str, str, str]] = []
        self.stopped = False
        self.api_client = self
        self.configuration = Thing(host="https://127.0.0.1:1")
        self.rest_client = Thing(pool_manager=self)

    def create_namespaced_service(self, *_: Any, **__: Any) -> Thing:
        return Thing(spec=Thing(cluster_ip="198.51.100.9"))

    def create_namespaced_daemon_set(self, *_: Any, **__: Any) -> None:
        """Its pods are there."""

    def list_namespaced_pod(self, *_: Any, **__: Any) -> Thing:
        ready = [Thing(type="Ready", status=str(self.now >= self.ready_at))]
        status = Thing(
            phase="Running",
            pod_ip="198.51.100.1",
            conditions=ready,
            init_container_statuses=None,
            container_statuses=[],
            reason=None,
            message=None,
        )
        return Thing(
            items=[
                Thing(metadata=Thing(name=f"pod-{node}"), spec=Thing(node_name=node), status=status)
                for node in self.nodes
            ]
        )

    def request(self, method: str, url: str, *, timeout: Any, **_: Any) -> Thing:
        assert method == "GET"
        assert timeout.read_timeout > inside.ANSWER_SECONDS
        asked = re.fullmatch(
            r"https://127\.0\.0\.1:1/api/v1/namespaces/n/pods/pod-(\w+):(\d+)/proxy"
            r"/cgi-bin/(\w+)/([a-z0-9=.,:-]+)",
            url,
        )
        assert asked is not None
        name, port, script, words = asked.groups()
        assert int(port) == inside.PORT
        self.asked.append((name, script, words))
        said = self.said(name, script, words)
        if said.isdigit():
            return Thing(status=int(said), reason="a reason", data=b"")
        return Thing(status=200, data=said.encode())

    def wait(self, seconds: float) -> bool:
        self.now += seconds
        return self.stopped

    def set(self) -> None:
        self.stopped = True

    def prove(self, monkeypatch: pytest.MonkeyPatch, *names: str, dns: bool = True) -> PodView:
        clock = Thing(monotonic=lambda: self.now, sleep=self.wait)
        for module in (engine, network):
            monkeypatch.setattr(module, "time", clock)
        stop = cast(threading.Event, self)
        proof = network.NetworkTest(self, self, "n", self.nodes, "image", names, stop, dns=dns)
        return proof.carry_out(120)


WELL = f"{inside.END}\n"
SILENT = "the API server gets no answer from its test pod (198.51.100.1)"


def test_only_what_was_not_reached_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def said(node: str, _script: str, _words: str) -> str:
        late = node == "w2" and len(cluster.asked) < 5
        return f"service=198.51.100.9\n{WELL}" if late else WELL

    cluster = Cluster("w1", "w2", said=said)
    assert cluster.prove(monkeypatch).faults == ()
    assert [node for node, *_ in cluster.asked].count("w1") == 1
    first, *others = [words for node, _, words in cluster.asked if node == "w2"]
    assert sorted(first.split(",")) == [
        "name=proof.n.svc.cluster.local",
        "pod=w1=198.51.100.1",
        "pod=w2=198.51.100.1",
        "service=198.51.100.9",
    ]
    assert set(others) == {"service=198.51.100.9"}


def test_where_dns_has_no_place_its_name_is_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster("w1", said=lambda *_: WELL)
    assert cluster.prove(monkeypatch, dns=False).faults == ()
    assert [words for *_, words in cluster.asked] == ["service=198.51.100.9,pod=w1=198.51.100.1"]


def test_what_stays_is_a_fault_when_the_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    def said(node: str, _script: str, _words: str) -> str:
        return f"service=b\nname=a\n{WELL}" if node == "w1" else WELL

    cluster = Cluster("w1", "w2", said=said)
    assert cluster.prove(monkeypatch).faults == (
        "w1: the cluster's DNS does not resolve a",
        "w1: no answer from the service address b",
    )
    assert network.TARGET_SECONDS <= cluster.now < network.TARGET_SECONDS + 2


def test_names_are_asked_for_once_all_else_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    def said(_node: str, script: str, words: str) -> str:
        return f"= {words}\n{WELL}" if script == "names" else WELL

    cluster = Cluster("w1", said=said)
    found = cluster.prove(monkeypatch, "runai.rack.test")
    assert found.names == {"w1": {"runai.rack.test": ()}}
    assert cluster.asked[-1] == ("w1", "names", "runai.rack.test")


@pytest.mark.parametrize(
    ("error", "more"),
    [
        (ReadTimeoutError(None, "", ""), ""),  # type: ignore[arg-type]
        (ProtocolError("Response ended prematurely"), ""),
        (SSLError("EOF"), ""),
        (ConnectionResetError(), ""),
        ("503", ": 503 a reason"),
        ("404", ": 404 a reason"),
    ],
)
def test_a_pod_that_cannot_be_asked_is_a_fault(
    monkeypatch: pytest.MonkeyPatch, error: Exception | str, more: str
) -> None:
    def said(*_: str) -> str:
        if isinstance(error, Exception):
            raise error
        return error

    found = Cluster("w1", said=said).prove(monkeypatch, "runai.rack.test")
    assert found.faults == (f"w1: {SILENT}{more}",)
    assert found.names == {}


def test_what_the_api_forbids_is_no_fault_of_a_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ApiException) as caught:
        Cluster("w1", said=lambda *_: "403").prove(monkeypatch)
    assert (caught.value.status, caught.value.reason) == (403, "a reason")


@pytest.mark.parametrize("text", ["", "service=198.51.100.9\n", "service=198.5"])
def test_an_answer_that_was_cut_off_is_none(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    assert Cluster("w1", said=lambda *_: text).prove(monkeypatch).faults == (f"w1: {SILENT}",)


def test_a_pod_that_falls_silent_before_it_tells_names_is_a_fault(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster("w1", said=lambda _, script, __: WELL if script == "check" else "")
    assert cluster.prove(monkeypatch, "runai.rack.test").faults == (f"w1: {SILENT}",)


def test_a_pod_that_was_ready_when_the_wait_was_over_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster("w1", said=lambda *_: f"service=x\n{WELL}")
    listed, late = cluster.list_namespaced_pod, []

    def in_the_last_moment(*given: Any, **more: Any) -> Thing:
        late.extend([cluster.now] if cluster.now >= 120 else [])
        cluster.ready_at = 0.0 if len(late) > 1 else 1e9
        return listed(*given, **more)

    monkeypatch.setattr(cluster, "list_namespaced_pod", in_the_last_moment)
    assert cluster.prove(monkeypatch).faults == ("w1: no answer from the service address x",)


def test_pods_that_never_start_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster("w1", said=lambda *_: WELL)
    cluster.ready_at = 1e9
    (fault,) = cluster.prove(monkeypatch).faults
    assert fault == "w1: its test pod does not start: Running, no reason"


def test_what_the_api_refuses_is_no_fault_of_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def said(*_: str) -> str:
        raise ApiException(403, "Forbidden")

    cluster = Cluster("w1", said=said)
    with pytest.raises(ApiException, match="Forbidden"):
        cluster.prove(monkeypatch)
    assert cluster.stopped, "others are not asked any more"


def test_many_peers_are_asked_for_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [f"w{number}" for number in range(network.TARGETS)]
    cluster = Cluster(*nodes, said=lambda *_: WELL)
    assert cluster.prove(monkeypatch).faults == ()
    of_one = [words.split(",") for node, _, words in cluster.asked if node == "w7"]
    assert [len(words) for words in of_one] == [network.TARGETS, 2]
    asked = {word for words in of_one for word in words if word.startswith("pod=")}
    assert asked == {f"pod={node}=198.51.100.1" for node in nodes}
