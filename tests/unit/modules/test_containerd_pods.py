"""Removing a member's pods of containerd: all of them, or a reason."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.modules.loading import load
from tests.unit.modules.member_machine import Machine

if TYPE_CHECKING:
    from types import ModuleType

STORE = "var/lib/containerd/io.containerd.grpc.v1.cri/sandboxes"
PODS = ["a" * 64, "b" * 64]


@pytest.fixture(scope="module")
def traces() -> ModuleType:
    return load("member_traces", role="node_reset")


def member(root: Path, *, pods: bool = True) -> Machine:
    machine = Machine(root)
    machine.active.add("containerd.service")
    if pods:
        (root / STORE / PODS[0]).mkdir(parents=True)
        machine.pods = list(PODS)
    return machine


def found_by(traces: ModuleType, machine: Machine, *, act: bool = True) -> list[str]:
    found: Any = traces.Traces(machine.root, machine, machine, lambda name: "/usr/bin/" + name)
    found.pods(act)
    return [str(item) for item in found.removed]


def test_every_pod_is_stopped_and_removed(traces: ModuleType, tmp_path: Path) -> None:
    machine = member(tmp_path)
    expected = ["pod " + "a" * 13, "pod " + "b" * 13]
    assert found_by(traces, machine, act=False) == expected
    assert machine.pods == PODS
    assert found_by(traces, machine) == expected
    assert machine.pods == []
    assert ["crictl", "stopp", *PODS] in machine.called


def test_a_containerd_that_only_docker_uses_is_not_asked(
    traces: ModuleType, tmp_path: Path
) -> None:
    machine = member(tmp_path, pods=False)
    assert found_by(traces, machine) == []
    assert machine.called == []


def test_a_pod_that_stays_is_named(traces: ModuleType, tmp_path: Path) -> None:
    machine = member(tmp_path)
    machine.stuck = {PODS[1]}
    with pytest.raises(OSError, match=r"1 pods of containerd .*bbb.*deadline exceeded.*reboot"):
        found_by(traces, machine)


def test_a_containerd_that_does_not_answer_is_not_treated_as_empty(
    traces: ModuleType, tmp_path: Path
) -> None:
    machine = member(tmp_path)
    machine.hangs = True
    with pytest.raises(OSError, match=r"does not list its pods: .*did not end within 180 s"):
        found_by(traces, machine)


def test_pods_of_a_stopped_containerd_are_reported(traces: ModuleType, tmp_path: Path) -> None:
    machine = member(tmp_path)
    machine.active.discard("containerd.service")
    with pytest.raises(OSError, match="containerd does not run"):
        found_by(traces, machine)
