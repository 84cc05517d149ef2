"""What etcd's members answer becomes plain values; an answer of another form is none."""

from __future__ import annotations

import json
from typing import Any

import pytest

from appliance.adapters.control_plane.etcd_evidence import EtcdEvidence
from appliance.adapters.ssh.call import Answer
from appliance.adapters.ssh.nodes import SshNodes
from appliance.errors import ClusterError, NodeUnreachable
from appliance.model.site.recovery.etcd_restore import EtcdRestore
from appliance.model.site.settings import Node
from appliance.model.upgrade.evidence import EtcdStatus, Silence
from tests import samples

CP1, CP2, CP3 = samples.site(3).control_plane
# Recorded from etcd 3.5.1.
RECORDED: dict[str, Any] = {
    "status": {
        "header": {
            "cluster_id": "14841639068965178418",
            "member_id": "10276657743932975437",
            "revision": "917",
            "raft_term": "2",
        },
        "version": "3.5.1",
        "dbSize": "4587520",
        "leader": "10276657743932975437",
        "raftIndex": "920",
    },
    "health": {"health": "true", "reason": ""},
    "alarms": {"header": {}},
}


class Asked(SshNodes):
    """Each node gives the answer of the case."""

    def __init__(self, **answers: Answer | Exception) -> None:
        self._answers = answers

    def run_as_root(
        self,
        node: Node,
        script: str,  # noqa: ARG002
        *,
        stdin: bytes = b"",  # noqa: ARG002
        timeout: float = 60,  # noqa: ARG002
        or_self: bool = False,  # noqa: ARG002
    ) -> Answer:
        answer = self._answers[node.name]
        if isinstance(answer, Exception):
            raise answer
        return answer


def said(**parts: Any) -> Answer:
    return Answer(0, json.dumps({**RECORDED, **parts}), "")


def statuses(*nodes: Node, **answers: Answer | Exception) -> tuple[EtcdStatus, ...] | Silence:
    return EtcdEvidence(Asked(**answers), "python3").statuses(nodes)


def test_a_recorded_answer_is_read_whole() -> None:
    assert statuses(CP1, cp1=said()) == (
        EtcdStatus("cp1", True, "8e9e05c52164694d", "8e9e05c52164694d", 917, "3.5.1", 4587520),
    )


def test_an_alarm_is_that_of_the_member_which_raised_it() -> None:
    alarms = {
        "alarms": [
            {"memberID": "10276657743932975437", "alarm": "NOSPACE"},
            {"memberID": "5", "alarm": "CORRUPT"},
        ]
    }
    (found,) = statuses(CP1, cp1=said(alarms=alarms))  # type: ignore[misc]
    assert found.alarms == ("NOSPACE",)


@pytest.mark.parametrize(
    "parts",
    [
        {"health": {"health": "false"}},
        {"health": {}},
    ],
)
def test_a_member_that_is_not_healthy_says_so(parts: dict[str, Any]) -> None:
    (found,) = statuses(CP1, cp1=said(**parts))  # type: ignore[misc]
    assert not found.healthy


HOSTILE = [
    said(status={}),
    said(status=[]),
    said(status={"header": None}),
    said(status={**RECORDED["status"], "header": {"member_id": "x", "revision": "1"}}),
    said(status={**RECORDED["status"], "leader": {}}),
    said(status={**RECORDED["status"], "version": "3.5.1\u001b[31m"}),
    said(health="true"),
    said(alarms=[]),
    said(alarms={"alarms": [7]}),
    Answer(0, "", ""),
    Answer(0, "[]", ""),
    Answer(0, "x" * (2 << 20), ""),
    Answer(1, "", "etcd does not answer: timed out"),
    NodeUnreachable("cp1: ssh: timed out"),
]


@pytest.mark.parametrize("answer", HOSTILE, ids=lambda one: str(one)[:60])
def test_an_answer_of_another_form_is_none(answer: Answer | Exception) -> None:
    found = statuses(CP1, cp1=answer)
    assert isinstance(found, Silence)
    assert found.reason.startswith("cp1: ")


def test_a_member_without_an_answer_is_left_out_of_those_that_answer() -> None:
    late = NodeUnreachable("cp2: ssh: timed out")
    found = statuses(CP1, CP2, CP3, cp1=said(), cp2=late, cp3=said())
    assert not isinstance(found, Silence)
    assert [one.node for one in found] == ["cp1", "cp3"]


PROOF = {
    "path": "/var/lib/appliance/etcd-snapshots/20260101T000000Z-upgrade.db",
    "sha256": "ab" * 32,
    "size_bytes": 4587552,
    "revision": 917,
    "keys": 301,
    "digest": "cd" * 32,
    "etcd_version": "3.5.1",
    "restore_seconds": 1.4,
}


def test_a_proof_is_read() -> None:
    proof = EtcdEvidence(Asked(cp1=Answer(0, json.dumps(PROOF), "")), "python3").prove(CP1, "a")
    assert (proof.node, proof.keys, proof.revision) == ("cp1", 301, 917)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Answer(1, '{"error": "no space"}', ""), "no space"),
        (Answer(1, "Traceback", "MemoryError"), "MemoryError"),
        (Answer(0, "", ""), "no answer"),
        (Answer(0, "{}", ""), "no snapshot"),
        (Answer(0, json.dumps({**PROOF, "keys": "many"}), ""), "no snapshot"),
        (Answer(0, json.dumps({**PROOF, "path": "a\nb"}), ""), "no snapshot"),
        (Answer(137, json.dumps(PROOF), "Killed"), "no snapshot"),
    ],
)
def test_what_is_no_proof_is_an_error(answer: Answer, words: str) -> None:
    with pytest.raises(ClusterError, match=words):
        EtcdEvidence(Asked(cp1=answer), "python3").prove(CP1, "upgrade")


@pytest.mark.parametrize("reason", ["", "a/b", "../x", "a b", "-x", "a;b", "x" * 99])
def test_a_reason_that_is_no_word_names_no_file(reason: str) -> None:
    with pytest.raises(ValueError, match="no word"):
        EtcdEvidence(Asked(), "python3").prove(CP1, reason)


class Noting(SshNodes):
    """Fails, and notes the command and its time limit."""

    def __init__(self) -> None:
        self.commands: list[str] = []
        self.timeouts: list[float] = []

    def run_as_root(
        self,
        node: Node,  # noqa: ARG002
        script: str,
        *,
        stdin: bytes = b"",  # noqa: ARG002
        timeout: float = 60,
        or_self: bool = False,  # noqa: ARG002
    ) -> Answer:
        self.commands.append(script)
        self.timeouts.append(timeout)
        return Answer(1, '{"error": "the scratch etcd ended: out of memory"}', "")


def test_the_limits_of_a_restore_are_those_of_the_site_and_the_refusal_names_them() -> None:
    nodes = Noting()
    limits = EtcdRestore(seconds=900, memory_mb=4096)
    with pytest.raises(ClusterError, match="out of memory") as refused:
        EtcdEvidence(nodes, "python3", limits).prove(CP1, "upgrade")
    assert nodes.commands == ["python3 - upgrade 900 4096"]
    assert nodes.timeouts[0] > 900
    hint = str(refused.value.hint)
    assert "900 s or 4096 MiB: etcd_restore in site.yml" in hint


@pytest.mark.parametrize("given", [{"seconds": 0}, {"memory_mb": 10}, {"seconds": "9"}])
def test_a_limit_that_allows_no_restore_is_no_setting(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(given))):
        EtcdRestore(**given)


HERE = "/var/lib/appliance/etcd-snapshots/20260101T000000Z-upgrade.db"
KEPT: list[tuple[str, Answer | Exception, object]] = [
    (HERE, Answer(0, "", ""), True),
    (HERE, Answer(1, "", ""), False),
    (HERE, Answer(255, "", "closed"), Silence("cp1: closed")),
    (HERE, NodeUnreachable("cp1: ssh: timed out"), Silence("cp1: ssh: timed out")),
    ("/etc/shadow", Answer(0, "", ""), False),
    ("/var/lib/appliance/etcd-snapshots/../x.db", Answer(0, "", ""), False),
    ("/var/lib/appliance/etcd-snapshots/a b.db", Answer(0, "", ""), False),
    ("", Answer(0, "", ""), False),
]


@pytest.mark.parametrize(("path", "answer", "kept"), KEPT)
def test_whether_a_snapshot_is_there_still(
    path: str, answer: Answer | Exception, kept: object
) -> None:
    assert EtcdEvidence(Asked(cp1=answer), "python3").keeps(CP1, path) == kept
