"""A kubeadm that gave up is explained by what is wrong on the node."""

from __future__ import annotations

import socket
import time
from pathlib import Path

import pytest

from tests.unit.modules.loading import load

kubeadm_run = load("kubeadm_run")

JOURNAL = """Started kubelet
E1121 05:04:39.123456    4112 reflector.go:138] k8s.io/client-go: failed to list: no route to host
I1121 05:04:40.123456    4112 server.go:1] fine
E1121 05:04:41.123456    4112 reflector.go:138] k8s.io/client-go: failed to list: timeout
E1121 05:04:42.123456    4112 kubelet.go:2461] "Error getting node" err="node not found"
"""
CONTAINERS = """aaa k8s_etcd_etcd-cp1_kube-system_5ed_3 Exited (1) 4 seconds ago
bbb k8s_POD_etcd-cp1_kube-system_5ed_0 Exited (0) 9 seconds ago
"""


def run(argv: list[str]) -> tuple[int, str, str]:
    if argv[:2] == ["docker", "logs"]:
        return 0, "", "listen tcp: address already in use\n"
    answers = {"systemctl": "activating\n", "journalctl": JOURNAL, "docker": CONTAINERS}
    return 0, answers[argv[0]], ""


def test_an_endpoint_that_answers_is_no_fault() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert kubeadm_run.endpoint_fault(f"127.0.0.1:{port}") is None
    fault = kubeadm_run.endpoint_fault(f"127.0.0.1:{port}")
    assert fault.startswith(f"127.0.0.1:{port} does not answer")


def test_a_name_that_is_not_known_is_said_so() -> None:
    assert "does not resolve here" in kubeadm_run.endpoint_fault("api.invalid:6443")


def test_each_error_of_the_kubelet_is_reported_once_and_the_latest_wins() -> None:
    assert kubeadm_run.kubelet_faults(run) == [
        "the kubelet is activating",
        "kubelet: k8s.io/client-go: failed to list: timeout",
        'kubelet: "Error getting node" err="node not found"',
    ]


def test_a_container_that_ended_is_reported_with_its_last_line() -> None:
    assert kubeadm_run.container_faults(run) == [
        "container etcd: Exited (1) 4 seconds ago: listen tcp: address already in use"
    ]


def test_under_containerd_its_ended_containers_are_named() -> None:
    listed = """{"containers": [
      {"state": "CONTAINER_EXITED", "metadata": {"name": "etcd"}},
      {"state": "CONTAINER_EXITED", "metadata": {"name": "etcd"}},
      {"state": "CONTAINER_RUNNING", "metadata": {"name": "kube-scheduler"}}]}"""

    def run(argv: list[str]) -> tuple[int, str, str]:
        return (0, listed, "") if argv[0] == "crictl" else (127, "", "docker: not found")

    assert kubeadm_run.container_faults(run) == ["container etcd ended: see /var/log/pods"]


def test_a_docker_that_does_not_answer_is_a_reason() -> None:
    faults = kubeadm_run.container_faults(lambda _argv: (1, "", "is the daemon running?\n"))
    assert faults == ["Docker does not answer: is the daemon running?"]


def test_a_name_that_is_not_known_comes_before_what_follows_from_it() -> None:
    seen = kubeadm_run.reasons("api.invalid:6443", run)
    assert len(seen) == 5
    assert "does not resolve here" in seen[0]


def test_kubeadms_own_error_is_reported_also_where_docker_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, does in {
        "docker": "sleep 60",
        "systemctl": "echo active",
        "journalctl": "true",
    }.items():
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\n{does}\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    began = time.monotonic()
    told = kubeadm_run.explained("api.invalid:6443", "kubeadm ended with 1: no etcd", 0.5)
    assert time.monotonic() - began < 5
    assert "Docker does not answer: docker ps --all " in told
    assert "did not end within 0.5 s and was ended" in told
    assert told.endswith("; kubeadm ended with 1: no etcd")
