"""Nodes are asked at the same time, each within its own time; one that breaks takes none along."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from appliance.adapters.kubernetes.releases import history
from appliance.adapters.ssh.call import Answer
from appliance.adapters.support.join_tokens import read_join_tokens
from appliance.adapters.support.nodes import ask_nodes
from appliance.errors import NodeUnreachable
from appliance.model.site.settings import Node
from appliance.model.support.items import Found, Unanswered
from appliance.model.support.requests import Asking, NodeRequest, node_requests
from tests import samples

SITE = samples.site(1, 2)
REQUESTS = (
    NodeRequest("a.log", "log a", "print a"),
    NodeRequest("containers.txt", "list of containers", "docker ps"),
)
LISTED = (
    "{}\tkube-system\tetcd-cp1\tetcd\tcontainer\tUp 2 hours\n"
    "{}\tkube-system\tetcd-cp1\tetcd\tcontainer\tExited (1)\n"
    "{}\tteam-a\tjob\tmain\tcontainer\tExited (1)\n"
).format("1" * 64, "2" * 64, "3" * 64)


class Nodes:
    """Answers by node and script; what is an exception is raised."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.scripts: list[tuple[str, str]] = []
        self.timeouts: list[float] = []
        self.closed = False

    def close(self) -> None:
        self.closed = True

    def run_as_root(self, node: Node, script: str, *, timeout: float) -> Answer:
        self.scripts.append((node.name, script))
        self.timeouts.append(timeout)
        answer = self.answers.get(node.name, Answer(0, "told\n", ""))
        answer = answer(script) if callable(answer) else answer
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, Answer)
        return answer


def asked(nodes: Any, seconds: float = 30.0, *, with_pods: bool = False) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    asking = Asking(REQUESTS, 3600, seconds, with_pods=with_pods)
    for name, answer in ask_nodes(nodes, SITE.nodes, asking):
        found.setdefault(name, []).append(answer)
    return found


def test_every_node_tells_everything_and_then_its_end() -> None:
    found = asked(Nodes())
    assert set(found) == {"cp1", "w1", "w2"}
    assert found["w1"] == [
        Found("nodes/w1/a.log", "told\n"),
        Found("nodes/w1/containers.txt", "told\n"),
        None,
    ]


def test_a_connection_that_breaks_names_all_that_is_not_there() -> None:
    found = asked(Nodes(w1=NodeUnreachable("w1: no answer")))
    assert found["w1"] == [
        Unanswered("w1", "log a", "w1: no answer"),
        Unanswered("w1", "list of containers", "w1: no answer"),
        None,
    ]
    assert len(found["w2"]) == 3


def test_a_program_that_fails_is_named_and_the_next_is_asked() -> None:
    def failing(script: str) -> Answer:
        if "docker" in script:
            return Answer(127, "", "sh: docker: not found\n")
        return Answer(0, "x", "")

    found = asked(Nodes(w1=failing))
    assert found["w1"][:2] == [
        Found("nodes/w1/a.log", "x"),
        Unanswered("w1", "list of containers", "exit code 127: sh: docker: not found"),
    ]


def test_an_error_that_nobody_foresaw_is_that_nodes_alone() -> None:
    found = asked(Nodes(w1=ValueError("boom")))
    assert found["w1"] == [Unanswered("w1", "everything else", "ValueError: boom"), None]
    assert len(found["cp1"]) == 3


def test_a_slow_node_is_given_its_time_and_no_more() -> None:
    def slow(_script: str) -> Answer:
        time.sleep(0.3)
        return Answer(0, "late", "")

    nodes = Nodes(w1=slow)
    found = asked(nodes, seconds=2.2)
    assert found["w1"][0] == Found("nodes/w1/a.log", "late")
    assert found["w1"][1] == Unanswered(
        "w1", "list of containers", "the time for this node was over"
    )
    assert max(nodes.timeouts) <= 2.2


def test_nodes_are_asked_at_the_same_time() -> None:
    together = threading.Barrier(3, timeout=20)

    def waiting(script: str) -> Answer:
        if "print a" in script:
            together.wait()
        return Answer(0, "x", "")

    found = asked(Nodes(cp1=waiting, w1=waiting, w2=waiting))
    assert all(isinstance(one[0], Found) for one in found.values())


def test_where_nobody_takes_answers_any_more_every_thread_ends() -> None:
    nodes: Any = Nodes()
    requests = tuple(NodeRequest(f"{n}.log", "a log", "print") for n in range(40))
    before = threading.active_count()
    answers = ask_nodes(nodes, SITE.nodes, Asking(requests, 3600, 60.0))
    next(answers)
    answers.close()  # type: ignore[attr-defined]
    assert nodes.closed
    deadline = time.monotonic() + 20
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert threading.active_count() <= before


def test_what_the_nodes_own_limit_ended_says_so() -> None:
    found = asked(Nodes(w1=Answer(124, "half", "")))
    assert found["w1"][0].text == "half\n[not complete: the time was over]\n"


def test_without_an_api_the_appliances_own_containers_tell_their_logs() -> None:
    def telling(script: str) -> Answer:
        return Answer(0, LISTED if "docker ps" in script else "log\n", "")

    nodes = Nodes(cp1=telling)
    found = asked(nodes, with_pods=True)
    names = [one.name for one in found["cp1"] if isinstance(one, Found)]
    assert names[2:] == [
        "nodes/cp1/containers/kube-system/etcd-cp1/etcd-0.log",
        "nodes/cp1/containers/kube-system/etcd-cp1/etcd-1.log",
    ]
    assert "[Up 2 hours]\nlog\n" in [one.text for one in found["cp1"] if isinstance(one, Found)]
    assert not [script for _, script in nodes.scripts if "3" * 64 in script], "a researcher's log"


def test_no_script_asks_for_arguments_or_environments() -> None:
    scripts = " ".join(request.script for request in node_requests(3600))
    for word in ("docker inspect", "environ", "-o args", "cmdline", "ps aux", "ps -ef"):
        assert word not in scripts


def test_the_ends_of_join_tokens_come_from_the_first_that_tells_them() -> None:
    moments = "2026-11-27T10:00:00Z\n\nabcdef.0123456789abcdef\n2026-11-28T10:00:00+01:00\n"
    site = samples.site(3)
    nodes: Any = Nodes(cp1=NodeUnreachable("cp1: no answer"), cp2=Answer(0, moments, ""))
    found, why = read_join_tokens(nodes, site.control_plane)
    assert found == ("2026-11-27T10:00:00Z", "2026-11-28T10:00:00+01:00")
    assert why == ""
    assert "-o 'jsonpath={.expires}" in nodes.scripts[-1][1]
    assert "--output" not in nodes.scripts[-1][1], "kubeadm 1.23 does not know it"
    assert [name for name, _ in nodes.scripts] == ["cp1", "cp2"]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (
            Answer(1, "", "kubeadm: connection refused\n"),
            "cp1: kubeadm: kubeadm: connection refused",
        ),
        (
            Answer(
                1, "", "timed out\nTo see the stack trace of this error execute with --v=5 or\n"
            ),
            "cp1: kubeadm: timed out",
        ),
        (NodeUnreachable("cp1: no answer"), "cp1: no answer"),
    ],
)
def test_why_tokens_are_unknown_is_said(answer: Any, why: str) -> None:
    nodes: Any = Nodes(cp1=answer)
    assert read_join_tokens(nodes, SITE.control_plane) == ((), why)


def test_helms_history_has_numbers_and_states_and_no_values() -> None:
    def secret(version: str, status: str, **more: str) -> dict[str, Any]:
        labels = {"name": "runai", "status": status, "version": version, **more}
        return {"namespace": "runai", "labels": labels, "annotations": {"values": "secret"}}

    found = history([secret("10", "deployed"), secret("9", "failed"), secret("x", "odd"), {}])
    assert [(one["revision"], one["status"]) for one in found] == [
        ("9", "failed"),
        ("10", "deployed"),
    ]
    assert "secret" not in str(found)
