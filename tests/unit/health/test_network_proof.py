"""The proof of the pod network: what a checker tries, for how long, and who waits for it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from types import SimpleNamespace as Thing
from typing import Any

import pytest

from appliance.adapters import network_proof

NC = """case "$3" in "$DEAD") exit 1 ;; esac
echo "$3" >>"$ASKED"
[ "$(grep -c "^$3$" "$ASKED")" -gt "$REFUSALS" ] && echo 'HTTP/1.0 200 OK'
"""


class Checker:
    """The script of a checker, with programs that answer late or never."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "termination-log"
        self.programs = folder / "bin"
        self.programs.mkdir()
        (folder / "asked").touch()
        self.environment = {
            "PATH": f"{self.programs}:{os.environ['PATH']}",
            "ASKED": str(folder / "asked"),
            "DEAD": "none",
            "REFUSALS": "0",
            "PEERS": "w1=198.51.100.1 w2=198.51.100.2",
            "SERVICE": "198.51.100.9",
            "NAME": "proof",
            "NAMES": "",
            "PATIENCE": "30",
        }
        self.program("nc", NC)
        self.program("nslookup", "exit 0")
        self.program("sleep", "exec /bin/sleep 0.02")

    def program(self, name: str, body: str) -> None:
        path = self.programs / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)

    def run(self, **environment: str) -> list[str]:
        """What it wrote."""
        script = network_proof._CHECK.replace("/dev/termination-log", str(self.log))
        subprocess.run(["/bin/sh", "-c", script], env=self.environment | environment, check=True)
        return self.log.read_text().splitlines() if self.log.exists() else []


@pytest.fixture
def checker(tmp_path: Path) -> Checker:
    return Checker(tmp_path)


def test_addresses_that_are_refused_at_first_are_tried_again(checker: Checker) -> None:
    assert checker.run(REFUSALS="8") == []


def test_what_never_answers_is_told_when_the_time_is_over(checker: Checker) -> None:
    checker.program("nslookup", "exit 1")
    said = checker.run(DEAD="198.51.100.9", PATIENCE="1")
    assert sorted(said) == [
        "no answer from the service address 198.51.100.9",
        "the cluster's DNS does not resolve proof",
    ]


def test_all_targets_share_one_deadline(checker: Checker) -> None:
    checker.program("nc", "exec /bin/sleep 1")
    said = checker.run(PATIENCE="1")
    assert [line[:29] for line in sorted(said)] == [
        "no answer from the pod on w1 ",
        "no answer from the pod on w2 ",
        "no answer from the service ad",
    ]


def test_other_names_are_told_as_they_are_resolved(checker: Checker) -> None:
    checker.program("nslookup", "printf 'Name:\\tx\\nAddress 1: 192.0.2.7 x\\n'")
    assert checker.run(NAMES="a.test b.test") == ["= a.test 192.0.2.7 x", "= b.test 192.0.2.7 x"]


class Cluster:
    """One node whose checker ends at a moment."""

    def __init__(self, ends_at: float) -> None:
        self.ends_at = ends_at
        self.now = 0.0
        self.values: dict[str, str] = {}

    def create_namespaced_service(self, *_: Any, **__: Any) -> Thing:
        return Thing(spec=Thing(cluster_ip="198.51.100.9"))

    def create_namespaced_daemon_set(self, *_: Any, **__: Any) -> None:
        """Its pod is there."""

    def create_namespaced_pod(self, _namespace: str, body: dict[str, Any], **_: Any) -> None:
        self.values = {e["name"]: e["value"] for e in body["spec"]["containers"][0]["env"]}

    def list_namespaced_pod(self, *_: Any, **__: Any) -> Thing:
        ready = [Thing(type="Ready", status="True")]
        said = Thing(state=Thing(terminated=Thing(message="b\na"), waiting=None))
        over = self.now >= self.ends_at
        status = Thing(
            phase="Succeeded" if over else "Running",
            pod_ip="198.51.100.1",
            conditions=ready,
            container_statuses=[said],
        )
        return Thing(items=[Thing(spec=Thing(node_name="w1"), status=status)])

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_who_waits_for_the_checkers_lets_them_use_their_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster(ends_at=175)
    clock = Thing(monotonic=lambda: cluster.now, sleep=cluster.sleep)
    monkeypatch.setattr(network_proof, "time", clock)
    found = network_proof._Proof(cluster, cluster, "n", ("w1",), "image", ()).carry_out(120)
    assert found.faults == ("w1: a", "w1: b")
    assert cluster.values["PATIENCE"] == "60"
