"""Maintenance end to end: a worker out and back, with fewer parts, killed in every phase, or lost.

The lab is shared with ``test_gpu``: one control plane, two workers with stand-ins of GPUs.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from appliance.model.state.nodes.maintenance import ANNOTATION
from tests.commands import appliance
from tests.lab.conftest import GPUS, LabSite, wait_for
from tests.lab.support import faults
from tests.lab.support.cluster import KUBECTL, allocatable, busybox, kubectl

pytestmark = pytest.mark.lab

TAINT = {"key": "runai", "value": "drain", "effect": "NoExecute"}
GRACE = 4


def apply(lab: LabSite, *documents: dict[str, Any]) -> None:
    for document in documents:
        lab.shell("cp1", f"echo '{json.dumps(document)}' | {KUBECTL} apply -f -")


def pods(image: str, command: str = "sleep 100000") -> dict[str, Any]:
    container = {"name": "c", "image": image, "command": ["/bin/busybox", "sh", "-c", command]}
    return {"containers": [container], "terminationGracePeriodSeconds": GRACE}


def workload(lab: LabSite, kind: str, name: str, **spec: Any) -> dict[str, Any]:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": pods(busybox(lab))}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": labels}, "template": template, **spec},
    }


def budget(name: str, least: int) -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": {"minAvailable": least, "selector": {"matchLabels": {"app": name}}},
    }


def bare(lab: LabSite, name: str, command: str = "sleep 100000") -> dict[str, Any]:
    spec = {**pods(busybox(lab), command), "nodeName": lab.node("w1")}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def item(lab: LabSite, what: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(kubectl(lab, f"get {what} -o json"))
    return found


def marks(lab: LabSite) -> tuple[bool, bool, str | None]:
    """Cordoned, tainted, and the phase that our annotation names."""
    node = item(lab, f"node {lab.node('w1')}")
    note = node["metadata"]["annotations"].get(ANNOTATION)
    taints = [
        {k: v for k, v in t.items() if k != "timeAdded"} for t in node["spec"].get("taints", [])
    ]
    return (
        bool(node["spec"].get("unschedulable")),
        TAINT in taints,
        json.loads(note)["phase"] if note else None,
    )


IN_SERVICE = (False, False, None)
OUT = (True, True, "out of service")


def words(lab: LabSite, verb: str, *more: str) -> list[str]:
    return ["node", verb, lab.node("w1"), "--site", str(lab.directory), "--yes", *more]


def order(lab: LabSite, verb: str, *more: str) -> subprocess.CompletedProcess[str]:
    return appliance(*words(lab, verb, *more), timeout=600)


def running(lab: LabSite, app: str, node: str) -> int:
    found = item(lab, f"pods -l app={app}")["items"]
    return sum(
        p["spec"].get("nodeName") == lab.node(node) and p["status"]["phase"] == "Running"
        for p in found
    )


def is_ready(lab: LabSite) -> bool:
    conditions = item(lab, f"node {lab.node('w1')}")["status"]["conditions"]
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


@pytest.fixture(scope="module", autouse=True)
def whole(gpu_lab: LabSite) -> None:
    """Other files may have left something changed; the one command heals it."""
    done = gpu_lab.install()
    assert done.returncode == 0, done.stderr


@pytest.fixture
def loaded(gpu_lab: LabSite) -> Iterator[LabSite]:
    """A Deployment with a budget, a bare pod and a DaemonSet run on w1."""
    lab = gpu_lab
    assert marks(lab) == IN_SERVICE
    apply(
        lab,
        workload(lab, "DaemonSet", "daemon"),
        workload(lab, "Deployment", "web", replicas=2),
        budget("web", 1),
        bare(lab, "alone"),
    )
    wait_for("pods on w1", lambda: running(lab, "daemon", "w1") == 1, 120)
    wait_for("pods on w1", lambda: running(lab, "web", "w1") >= 1, 120)
    wait_for("the bare pod", lambda: item(lab, "pod alone")["status"]["phase"] == "Running", 180)
    yield lab
    if marks(lab) != IN_SERVICE:
        # A test that failed half-way must not fail those after it.
        _all_parts(lab)
        order(lab, "return")
    kubectl(lab, "delete deployment/web daemonset/daemon pdb/web --wait=false")
    kubectl(lab, "delete pod alone stubborn --ignore-not-found --grace-period=0 --force")


def _one_part_less(lab: LabSite) -> None:
    for section, key in (("memory", "dimms"), ("gpus", None)):
        path = f"{faults.FACTS}/{section}.json"
        facts = json.loads(lab.shell("w1", f"cp {path} /root/{section}.kept && cat {path}"))
        parts = facts[key] if key else facts
        parts.pop()
        faults.shell(lab.node("w1"), f"cat > {path}", stdin=json.dumps(facts))


def _all_parts(lab: LabSite) -> None:
    """Put the parts in again, and boot: a device plugin counts the GPUs once, when it starts."""
    for section in ("memory", "gpus"):
        kept = f"/root/{section}.kept"
        lab.shell("w1", f"test ! -e {kept} || mv {kept} {faults.FACTS}/{section}.json")
    faults.restart(lab.node("w1"))


def _power_on(lab: LabSite) -> None:
    subprocess.run(["podman", "start", lab.node("w1")], check=True, capture_output=True)
    faults.wait("sshd", lab.node("w1"), "systemctl is-active ssh", 90)


def test_out_powered_off_refused_with_fewer_parts_and_back(loaded: LabSite) -> None:
    lab = loaded
    began = time.monotonic()
    done = order(lab, "maintain", "--shutdown", "--reason", "new riser", "--window", "4h")
    assert done.returncode == 0, done.stderr
    assert "default/alone: has no controller" in done.stderr
    print(done.stdout.splitlines()[0], f"; in all {time.monotonic() - began:.1f} s")  # noqa: T201
    assert marks(lab) == OUT
    assert not faults.ssh_answers(lab.address("w1"))
    wait_for("two copies elsewhere", lambda: running(lab, "web", "w2") == 2, 180)
    assert kubectl(lab, "get pod alone", check=False) == ""

    again = order(lab, "maintain")
    assert (again.returncode, "nothing to do" in again.stdout) == (0, True), again.stderr
    status = lab.status()
    assert {n["name"]: n["status"] for n in status["nodes"]}[lab.node("w1")] == "in maintenance"
    assert status["lost"] == []
    assert "new riser" in status["life"][0]
    installed = lab.install()
    assert installed.returncode == 0, installed.stderr
    assert marks(lab) == OUT

    wait_for("power off", lambda: _state(lab) == "exited", 180)
    _power_on(lab)
    _one_part_less(lab)
    refused = order(lab, "return")
    assert refused.returncode == 3, refused.stderr
    assert re.findall(r": (\w+)(?::\S+)?: found ", refused.stderr) == ["dimm", "gpu"]
    heading, *rows = refused.stdout.splitlines()
    assert heading.split() == ["fact", "before", "now"]
    assert {"dimm", "gpu"} <= {row.partition(":")[0] for row in rows}
    assert marks(lab) == OUT

    _all_parts(lab)
    done = order(lab, "return")
    assert done.returncode == 0, done.stderr
    print(done.stdout.strip())  # noqa: T201 - a figure for the log
    assert "nvidia-smi -L: GPU 0: STANDIN" in done.stderr
    assert marks(lab) == IN_SERVICE
    assert allocatable(lab) == GPUS
    assert "nothing to do" in order(lab, "return").stdout


def _state(lab: LabSite) -> str:
    argv = ["podman", "inspect", "--format", "{{.State.Status}}", lab.node("w1")]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()


def test_a_budget_that_never_allows_leaves_the_node_as_it_was(loaded: LabSite) -> None:
    apply(loaded, budget("web", 2))
    done = order(loaded, "maintain", "--budget-wait", "5s")
    assert done.returncode == 1, done.stderr
    assert "default/web (minAvailable 2)" in done.stderr
    assert "ReplicaSet web-" in done.stderr
    assert marks(loaded) == IN_SERVICE
    assert running(loaded, "web", "w1") >= 1


def test_a_pod_that_ignores_sigterm_ends_after_its_grace(loaded: LabSite) -> None:
    apply(loaded, bare(loaded, "stubborn", "trap : TERM; while :; do sleep 1; done"))
    wait_for("the pod", lambda: item(loaded, "pod stubborn")["status"]["phase"] == "Running", 180)
    done = order(loaded, "maintain", "--mode", "cordon")
    assert done.returncode == 0, done.stderr
    assert marks(loaded) == (True, False, "out of service")
    assert kubectl(loaded, "get pod stubborn", check=False) == ""
    assert order(loaded, "return").returncode == 0
    assert marks(loaded) == IN_SERVICE


def test_a_cordon_of_another_person_is_kept(gpu_lab: LabSite) -> None:
    kubectl(gpu_lab, f"cordon {gpu_lab.node('w1')}")
    try:
        assert order(gpu_lab, "maintain").returncode == 0
        assert marks(gpu_lab) == OUT
        assert order(gpu_lab, "return").returncode == 0
        assert marks(gpu_lab) == (True, False, None)
        assert order(gpu_lab, "return").returncode == 3
    finally:
        kubectl(gpu_lab, f"uncordon {gpu_lab.node('w1')}")


# The command, which holds its breath when it has written a phase: most last for milliseconds.
BREATHLESS = """
import sys, time
from appliance.adapters.kubernetes.nodes.drain import KubernetesDrain
from appliance.cli.exits import main
phase, mark = sys.argv.pop(1), KubernetesDrain.mark
def slow(self, node, maintenance, **how):
    mark(self, node, maintenance, **how)
    if maintenance.phase == phase:
        time.sleep(60)
KubernetesDrain.mark = slow
main()
"""


def _killed_at(lab: LabSite, verb: str, phase: str) -> None:
    """SIGKILL the command while the annotation names the phase; assert that it still does."""
    more = ["--shutdown"] if phase == "shutdown" else []
    process = subprocess.Popen(
        [sys.executable, "-c", BREATHLESS, phase, *words(lab, verb), *more],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        deadline = time.monotonic() + 200
        while marks(lab)[2] != phase:
            assert process.poll() is None, f"{verb} ended before phase {phase}"
            assert time.monotonic() < deadline, f"{verb} never came to phase {phase}"
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    assert marks(lab)[2] == phase


@pytest.mark.parametrize(
    ("verb", "phase", "then", "ends"),
    [
        ("maintain", "evict", "maintain", OUT),
        ("return", "return", "return", IN_SERVICE),
        ("maintain", "taint", "return", IN_SERVICE),
        *(
            pytest.param(*row, marks=pytest.mark.slow)
            for row in (
                ("maintain", "cordon", "return", IN_SERVICE),
                ("maintain", "cordon", "maintain", OUT),
                ("maintain", "evict", "return", IN_SERVICE),
                ("maintain", "taint", "maintain", OUT),
                ("maintain", "shutdown", "return", IN_SERVICE),
                ("maintain", "out of service", "return", IN_SERVICE),
                ("return", "return", "maintain", OUT),
            )
        ),
    ],
)
def test_after_a_kill_the_next_run_leaves_nothing_by_mistake(
    gpu_lab: LabSite, verb: str, phase: str, then: str, ends: tuple[bool, bool, str | None]
) -> None:
    lab = gpu_lab
    if verb == "return" and marks(lab) == IN_SERVICE:
        assert order(lab, "maintain").returncode == 0
    if verb == "maintain":
        # A pod that takes its grace keeps the eviction open long enough to be met.
        apply(lab, bare(lab, "stubborn", "trap : TERM; while :; do sleep 1; done"))
        ready = lambda: item(lab, "pod stubborn")["status"]["phase"] == "Running"  # noqa: E731
        wait_for("the pod", ready, 180)
    _killed_at(lab, verb, phase)
    done = order(lab, then)
    assert done.returncode == 0, done.stderr
    assert marks(lab) == ends
    if (then, ends) == ("maintain", OUT) and (verb, phase) != ("maintain", "evict"):
        assert order(lab, "return").returncode == 0
    kubectl(lab, "delete pod stubborn --ignore-not-found --grace-period=0 --force")


@pytest.mark.slow
def test_a_lost_node_is_named_in_one_run_and_marked_without_its_help(loaded: LabSite) -> None:
    lab = loaded
    assert order(lab, "maintain", "--lost").returncode == 3
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "alone"},
        "spec": {"selector": {"only": "copy"}, "ports": [{"port": 80}]},
    }
    kubectl(lab, "label pod alone only=copy")
    apply(lab, service)
    subprocess.run(["podman", "kill", lab.node("w1")], check=True, capture_output=True)
    try:
        wait_for("NotReady", lambda: not is_ready(lab), 180)
        (lost,) = lab.status()["lost"]
        assert (lost["node"], lost["services"]) == (lab.node("w1"), ["default/alone"])
        assert "default/alone" in [*lost["waiting"], *lost["terminating"]]
        done = order(lab, "maintain", "--lost", "--reason", "power supply")
        assert done.returncode == 0, done.stderr
        assert "ignoring every PodDisruptionBudget" in done.stderr
        assert marks(lab) == OUT
        wait_for("two copies elsewhere", lambda: running(lab, "web", "w2") == 2, 180)
        (lost,) = lab.status()["lost"]
        assert "default/alone" in lost["terminating"]
        assert lost["services"] == ["default/alone"]
    finally:
        _power_on(lab)
        wait_for("Ready", lambda: is_ready(lab), 120)
    assert order(lab, "return").returncode == 0
    assert marks(lab) == IN_SERVICE
    kubectl(lab, "delete service alone")
