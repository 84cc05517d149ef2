"""Replacing Docker under a kubelet: what ends, in which order, and what a killed run leaves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.modules.docker_machine import (
    FLAGS,
    LEASE,
    ON_CONTAINERD,
    ON_DOCKER,
    PODS,
    UNIT,
    DockerMachine,
    Killed,
)
from tests.unit.modules.loading import load

if TYPE_CHECKING:
    from types import ModuleType

SOCKET, PAUSE = "unix:///run/containerd/containerd.sock", "r:5000/pause:3.7"
AFTERWARDS = {
    "flags": ON_CONTAINERD,
    "unit": "[Unit]\nAfter=network-online.target containerd.service\n",
    "lease": False,
    "bridge": False,
    "containers": {},
    "docker": set(),
    "at boot": set(),
    "kubelet": False,
    "host ports": False,
}


@pytest.fixture(scope="module")
def module() -> ModuleType:
    return load("docker_replaced", role="kubernetes_runtime")


@pytest.fixture
def machine(tmp_path: Path) -> DockerMachine:
    return DockerMachine(tmp_path)


def want(machine: DockerMachine) -> dict[str, Any]:
    root = machine.root
    return {
        "socket": SOCKET,
        "sandbox_image": PAUSE,
        "flags": str(root / FLAGS),
        "unit": str(root / UNIT),
    }


def replaced(module: ModuleType, machine: DockerMachine, act: bool = True) -> list[str]:
    node = module.Node(machine.root, machine.run, act, machine.which)
    module.replace(node, want(machine))
    did: list[str] = node.did
    return did


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (ON_DOCKER, ON_CONTAINERD),
        (ON_CONTAINERD, ON_CONTAINERD),
        ("# kubeadm\n" + ON_DOCKER, "# kubeadm\n" + ON_CONTAINERD),
        (ON_DOCKER.replace("plugin=cni", "plugin cni --cni-bin-dir=/opt"), ON_CONTAINERD),
    ],
)
def test_the_flags_of_docker_go_and_all_others_stay(
    module: ModuleType, before: str, after: str
) -> None:
    found = module.flags_with(before, SOCKET, PAUSE)
    assert found == after
    assert module.is_replaced(found, SOCKET)
    assert module.is_replaced(before, SOCKET) == (before == after)


@pytest.mark.parametrize("text", ["", "KUBELET_EXTRA_ARGS=--v=2\n"])
def test_a_file_without_kubeadms_line_is_not_touched(
    module: ModuleType, machine: DockerMachine, text: str
) -> None:
    (machine.root / FLAGS).write_text(text)
    with pytest.raises(module.ReplaceError, match="node rejoin"):
        replaced(module, machine)
    assert machine.calls == []


def test_the_api_server_and_then_etcd_end_last_and_the_sandboxes_are_only_removed(
    module: ModuleType, machine: DockerMachine
) -> None:
    did = replaced(module, machine)
    assert machine.state() == AFTERWARDS
    assert machine.ended == [PODS["c5"], PODS["c4"], PODS["c2"]]
    assert machine.calls[0] == "systemctl stop kubelet.service"
    assert did[-1] == "pointed the kubelet at containerd"
    assert not (machine.root / LEASE).exists()
    assert (machine.root / "var/lib/cni/networks/cbr0/last_reserved_ip.0").exists()


def test_a_second_run_changes_nothing(module: ModuleType, machine: DockerMachine) -> None:
    replaced(module, machine)
    machine.active.add("kubelet.service")
    (machine.root / LEASE).write_text("of a new pod")
    machine.calls.clear()
    assert replaced(module, machine) == []
    assert (machine.calls, (machine.root / LEASE).exists()) == ([], True)


def test_a_run_killed_before_any_program_is_ended_by_the_second(
    module: ModuleType, tmp_path: Path
) -> None:
    whole = DockerMachine(tmp_path / "whole")
    replaced(module, whole)
    for number in range(1, len(whole.calls) + 1):
        machine = DockerMachine(tmp_path / str(number))
        machine.killed_at = number
        with pytest.raises(Killed):
            replaced(module, machine)
        assert (machine.root / FLAGS).read_text() == ON_DOCKER, number
        machine.killed_at = None
        replaced(module, machine)
        assert machine.state() == AFTERWARDS, number


def test_what_came_up_again_after_a_power_cut_is_ended_by_the_second_run(
    module: ModuleType, machine: DockerMachine
) -> None:
    machine.killed_at = 5
    with pytest.raises(Killed):
        replaced(module, machine)
    machine.killed_at = None
    machine.active |= {"kubelet.service", "docker.service", "docker.socket"}
    machine.containers = dict(PODS)
    replaced(module, machine)
    assert machine.state() == AFTERWARDS


def test_containers_that_are_no_pods_stop_it_before_any_change(
    module: ModuleType, machine: DockerMachine
) -> None:
    machine.foreign = {"f1": "customers-database"}
    with pytest.raises(module.ReplaceError, match="customers-database"):
        replaced(module, machine)
    assert machine.calls == []


def test_a_docker_that_does_not_answer_stops_it_before_any_change(
    module: ModuleType, machine: DockerMachine
) -> None:
    machine.silent = True
    with pytest.raises(module.ReplaceError, match="systemctl restart docker"):
        replaced(module, machine)
    assert machine.calls == []


def test_containers_that_outlived_docker_are_ended_by_it(
    module: ModuleType, machine: DockerMachine
) -> None:
    machine.active.discard("docker.service")
    task = machine.root / module.TASKS[0] / "c2"
    task.mkdir(parents=True)
    with pytest.raises(module.ReplaceError, match="reboot"):
        replaced(module, machine)
    assert machine.calls[0] == "systemctl start docker.service"
    assert machine.containers == {}
    task.rmdir()
    replaced(module, machine)
    assert machine.state() == AFTERWARDS


def test_check_mode_says_what_it_would_do_and_does_nothing(
    module: ModuleType, machine: DockerMachine
) -> None:
    before = machine.state()
    did = replaced(module, machine, act=False)
    assert did[0] == "stopped the kubelet"
    assert did[-1] == "pointed the kubelet at containerd"
    assert (machine.state(), machine.calls) == (before, [])
