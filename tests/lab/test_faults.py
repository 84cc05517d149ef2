"""The fault matrix: a fault in force, a command that meets it, the fault lifted, the same command.

One row a fault and a command. While the fault is in force the command must end with the exit code
that the row names, and say what the row expects; after it is lifted **the same command again**
must reach the command's goal, with no clean-up by hand. A table of the rows is printed at the end.
``python -m tests.release faults`` runs every row.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

from tests.commands import appliance
from tests.lab.conftest import LabSite
from tests.lab.support import faults, faults_cluster
from tests.lab.support.cluster import KUBECTL
from tests.lab.support.matrix import (
    COMMANDS,
    DONE,
    FAILED,
    INTERRUPTED,
    KILLED,
    REFUSED,
    SECONDS,
    SLOW_POD,
    UNREACHABLE,
    Fault,
    Row,
    Strike,
    Table,
    another_operator,
    in_the_middle,
    interrupted,
    killed,
    rebooted,
    said_of,
    start,
    timed,
    whole,
)

pytestmark = [pytest.mark.lab, pytest.mark.slow]


def on(short: str, fault: Callable[..., AbstractContextManager[None]], *more: object) -> Fault:
    return lambda lab: fault(lab.node(short), *more)


def amid(short: str, fault: Callable[..., AbstractContextManager[None]], *more: object) -> Strike:
    return lambda lab, _process: fault(lab.node(short), *more)


def full(node: str, folder: str) -> AbstractContextManager[None]:
    return faults.small_filesystem(node, folder, "64k", filled=True)


def between(one: str, other: str) -> Fault:
    return lambda lab: faults_cluster.partition(lab.node(one), lab.node(other))


@contextmanager
def budget(lab: LabSite) -> Iterator[None]:
    """A PodDisruptionBudget that never allows the slow pod to go."""
    document = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "never"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": SLOW_POD}}},
    }
    lab.shell("cp1", f"echo '{json.dumps(document)}' | {KUBECTL} apply -f -")
    allowed = f"{KUBECTL} get pdb never -o jsonpath='{{.status.disruptionsAllowed}}'"
    try:
        faults.wait("the budget", lab.node("cp1"), f'test "$({allowed})" = 0')
        yield
    finally:
        lab.shell("cp1", f"{KUBECTL} delete pdb never")


@contextmanager
def nothing(_lab: LabSite) -> Iterator[None]:
    """The fault is in what the command finds: the pod of every maintain row ignores SIGTERM."""
    yield


def lost_dimm(node: str) -> AbstractContextManager[None]:
    told = json.loads(faults.shell(node, f"cat {faults.FACTS}/memory.json"))
    return faults.facts(node, "memory", dimm_slots=2, dimms=told["dimms"][1:])


UNIT = faults_cluster.unit_stopped
OFF = on("w1", faults_cluster.power_off)
NO_SSH = on("w1", faults.sshd_stopped)
MASTER_SSH = on("cp1", faults.sshd_stopped)
CLOCK = on("w1", faults.clock_off, 600)
MTU = on("w1", faults.small_mtu, 1400)
SERVICES = on("cp1", faults_cluster.services_lost)
BLOB = on("cp1", faults_cluster.corrupted_blob)
STALE = on("cp1", faults_cluster.stale_lock)
HUNG = on("w1", faults_cluster.docker_hung)
API = on("cp1", faults_cluster.api_down)
ETCD = on("cp1", faults_cluster.etcd_paused)

ROWS: tuple[Row, ...] = (
    Row("control process killed", "install", KILLED, strikes=killed),
    Row("Ctrl-C", "install", INTERRUPTED, "interrupted while", strikes=interrupted),
    Row("SSH away", "install", UNREACHABLE, "w1", NO_SSH),
    Row("SSH cut", "install", FAILED, "w1", strikes=amid("w1", faults.sshd_stopped)),
    Row("node off", "install", UNREACHABLE, "w1", OFF),
    Row("reboot", "install", FAILED, "w1", strikes=amid("w1", rebooted)),
    Row("stale lock", "install", DONE, "took over the lock of node maintain", STALE),
    Row("disk full", "install", FAILED, "No space left", on("w1", full, "/etc/sysctl.d")),
    Row("registry stopped", "install", DONE, "", on("cp1", UNIT, "docker-registry")),
    Row("services lost", "install", DONE, "", SERVICES),
    Row("blob cut short", "install", DONE, "", BLOB),
    Row("clock +10 min", "install", REFUSED, "clock", CLOCK),
    Row("no names", "install", DONE, "", on("w1", faults_cluster.no_names)),
    Row("API server down", "install", DONE, "API|cp1", API),
    Row("etcd frozen", "install", FAILED, "API|etcd", ETCD),
    Row("kubelet dead", "install", DONE, "", on("w1", UNIT, "kubelet")),
    Row("Docker hung", "install", REFUSED, "docker_answers", HUNG),
    Row("network cut", "install", FAILED, "not answer a ping", between("w1", "w2")),
    Row("MTU lowered", "install", REFUSED, "(?i)mtu", MTU),
    Row("control process killed", "maintain", KILLED, strikes=killed),
    Row("Ctrl-C", "maintain", INTERRUPTED, "restored: .*w1", strikes=interrupted),
    Row("cp1 has no SSH", "maintain", UNREACHABLE, "cp1", MASTER_SSH),
    Row("API server down", "maintain", UNREACHABLE, "API", API),
    Row("etcd frozen", "maintain", UNREACHABLE, "API|list node", ETCD),
    Row("budget never allows", "maintain", FAILED, "never .minAvailable 1.", budget),
    Row("pod ignores SIGTERM", "maintain", DONE, "in maintenance", nothing),
    Row("second operator", "maintain", REFUSED, "at work|holds", another_operator),
    Row("node off", "maintain", UNREACHABLE, "--lost", OFF),
    Row("control process killed", "return", KILLED, strikes=killed),
    Row("SSH away", "return", UNREACHABLE, "w1", NO_SSH),
    Row("node off", "return", UNREACHABLE, "w1", OFF),
    Row("clock +10 min", "return", REFUSED, r"clock: found \+(59|60)\d s off", CLOCK),
    Row("a DIMM fewer", "return", REFUSED, "dimm:STANDIN_A1", on("w1", lost_dimm)),
    Row("MTU lowered", "return", REFUSED, "link:eth0", MTU),
    Row("network cut", "return", FAILED, "w1|w2", between("w1", "w2")),
    Row("control process killed", "remove", KILLED, strikes=killed),
    Row("control process killed", "rejoin", KILLED, strikes=killed),
    Row("tokens expired", "rejoin", DONE, "", on("cp1", faults_cluster.no_tokens)),
    Row("another CA", "rejoin", FAILED, "w2", on("cp1", faults_cluster.another_ca)),
)  # fmt: skip


@pytest.fixture(scope="module")
def table() -> Iterator[Table]:
    table = Table()
    yield table
    print(f"\n{table.show()}")  # noqa: T201 - the matrix, for the log


@pytest.fixture(scope="module")
def whole_lab(installed_lab: LabSite) -> LabSite:
    whole(installed_lab)
    return installed_lab


def _meet(row: Row, lab: LabSite, words: list[str]) -> int:
    """Run the command while the fault is in force; how it ended."""
    if row.fault is not None:
        with row.fault(lab):
            done = appliance(*words, timeout=SECONDS)
            return _judged(row, done.returncode, done.stdout + done.stderr)
    assert row.strikes is not None, "a row has a fault or a strike"
    with said_of(lab).open("w+") as said:
        process = start(words, said)
        try:
            with in_the_middle(row.strikes)(COMMANDS[row.command])(lab, process):
                code = process.wait(SECONDS)
                said.seek(0)
                return _judged(row, code, said.read())
        finally:
            process.kill()
            process.wait()


def _judged(row: Row, code: int, said: str) -> int:
    assert code == row.code, said
    assert re.search(row.says, said), said
    return code


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.command}: {row.name}")
def test_the_same_command_heals(row: Row, whole_lab: LabSite, table: Table) -> None:
    words = COMMANDS[row.command].words(whole_lab)
    table.lines.append(timed(row, whole_lab, lambda: _meet(row, whole_lab, words)))
