"""The fault matrix: a fault in force, a command that meets it, the fault lifted, the same command.

One row a fault and a command. While the fault is in force the command must end in one of the ways
that the row allows, and say what the row expects; after it is lifted **the same command again**
must reach the command's goal, with no clean-up by hand. A table of the rows is printed at the end.
``pytest -m "slow or not slow" tests/lab/test_faults.py -s`` runs every row; CI runs those that are
not marked slow.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import IO

import pytest

from tests.commands import appliance
from tests.lab import faults, faults_cluster
from tests.lab.conftest import LabSite, wait_for

pytestmark = pytest.mark.lab

DONE, FAILED, REFUSED, UNREACHABLE = 0, 1, 3, 4
SECONDS = 240


@dataclass(frozen=True)
class Met:
    """How a command ended while a fault was in force."""

    code: int
    said: str


Fault = Callable[[LabSite], AbstractContextManager[None]]
Strike = Callable[[LabSite, "subprocess.Popen[str]"], AbstractContextManager[None]]


@dataclass(frozen=True)
class Command:
    """A command of the matrix.

    Attributes:
        words: of the command line, without the site.
        prepare: gives it something to do.
        goal: asserts that it was reached.
        undo: leaves the lab as the next row expects it.
    """

    words: Callable[[LabSite], list[str]]
    prepare: Callable[[LabSite], None]
    goal: Callable[[LabSite], None]
    undo: Callable[[LabSite], None] = lambda lab: None  # noqa: ARG005


@dataclass(frozen=True)
class Row:
    """One line of the matrix.

    Attributes:
        fault: puts itself in force and asserts it; a fault that strikes in the middle of the
            command is given by ``strikes`` instead.
        codes: the exit codes that are right while it is in force.
        says: words of the output then (a regular expression).
        strikes: called with a running command; returns when the fault has struck.
        slow: not in every CI run.
    """

    name: str
    command: str
    codes: tuple[int, ...]
    says: str = ""
    fault: Fault | None = None
    strikes: Strike | None = None
    slow: bool = False


@dataclass
class Table:
    """What was seen, for people."""

    lines: list[tuple[str, str, str, str, str]] = field(default_factory=list)

    def show(self) -> str:
        head = ("fault", "command", "met with", "again", "seconds")
        rows = [head, *self.lines]
        widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
        return "\n".join(
            "  ".join(c.ljust(w) for c, w in zip(r, widths, strict=True)) for r in rows
        )


# --- commands ------------------------------------------------------------------------------------

DRIFT = "/etc/sysctl.d/90-appliance.conf"


def _drift(lab: LabSite) -> None:
    """A worker's settings were lost: enough for a step to be due."""
    lab.shell("w1", f"rm {DRIFT}")
    assert any(item["step"] == "host" for item in lab.status()["unmet"])


def _whole(lab: LabSite) -> None:
    status = lab.status()
    assert status["unmet"] == []
    assert [node["status"] for node in status["nodes"]] == ["Ready"] * 3


COMMANDS: Mapping[str, Command] = {
    "install": Command(lambda lab: lab.install_words(), _drift, _whole),
}


# --- faults that strike in the middle ------------------------------------------------------------


def _playing(lab: LabSite) -> Callable[[], bool]:
    """Whether a play of a run that begins now has shown an event."""
    runs = lab.directory / ".appliance" / "runs"
    before = set(runs.glob("*"))
    return lambda: any(
        next(run.glob("host/artifacts/*/job_events/*"), None)
        for run in set(runs.glob("*")) - before
    )


def in_a_play(strike: Strike) -> Strike:
    @contextmanager
    def struck(lab: LabSite, process: subprocess.Popen[str]) -> Iterator[None]:
        playing = _playing(lab)
        wait_for("a play", lambda: playing() or process.poll() is not None, 90)
        assert process.poll() is None, "it ended before the fault could strike"
        with strike(lab, process):
            yield

    return struck


@contextmanager
def killed(lab: LabSite, process: subprocess.Popen[str]) -> Iterator[None]:  # noqa: ARG001
    process.send_signal(signal.SIGKILL)
    assert process.wait(10) == -signal.SIGKILL
    yield


@contextmanager
def interrupted(lab: LabSite, process: subprocess.Popen[str]) -> Iterator[None]:  # noqa: ARG001
    process.send_signal(signal.SIGINT)
    yield


def on(node: str, fault: Callable[..., AbstractContextManager[None]], *more: object) -> Fault:
    return lambda lab: fault(lab.node(node), *more)


def amid(node: str, fault: Callable[..., AbstractContextManager[None]], *more: object) -> Strike:
    return in_a_play(lambda lab, process: fault(lab.node(node), *more))  # noqa: ARG005


@contextmanager
def rebooted(node: str) -> Iterator[None]:
    before = faults.shell(node, "cat /proc/1/stat").split()[21]
    faults.restart(node)
    assert faults.shell(node, "cat /proc/1/stat").split()[21] != before
    yield


def full(node: str, folder: str) -> AbstractContextManager[None]:
    return faults.small_filesystem(node, folder, "64k", filled=True)


def between(fault: Callable[..., AbstractContextManager[None]], one: str, other: str) -> Fault:
    return lambda lab: fault(lab.node(one), lab.node(other))


ROWS: tuple[Row, ...] = (
    Row("control process killed", "install", (-9,), strikes=in_a_play(killed)),
    Row("Ctrl-C", "install", (130,), "interrupted while host", strikes=in_a_play(interrupted)),
    Row("SSH away", "install", (UNREACHABLE,), "w1", on("w1", faults.sshd_stopped)),
    Row("SSH cut in a play", "install", (FAILED,), "w1", strikes=amid("w1", faults.sshd_stopped)),
    Row("node off", "install", (UNREACHABLE,), "w1", on("w1", faults_cluster.power_off)),
    Row("reboot in a play", "install", (DONE, FAILED), "w1", strikes=amid("w1", rebooted)),
    Row("disk full", "install", (FAILED,), "No space left", on("w1", full, "/etc/sysctl.d")),
    Row(
        "registry stopped",
        "install",
        (DONE,),
        "",
        on("cp1", faults_cluster.unit_stopped, "docker-registry"),
    ),
    Row(
        "services lost and rebuilt",
        "install",
        (DONE,),
        "",
        on("cp1", faults_cluster.services_lost),
        slow=True,
    ),
    Row(
        "blob cut short",
        "install",
        (DONE,),
        "",
        on("cp1", faults_cluster.corrupted_blob),
        slow=True,
    ),
    Row("clock ten minutes off", "install", (REFUSED,), "clock", on("w1", faults.clock_off, 600)),
    Row("no names", "install", (DONE,), "", on("w1", faults_cluster.no_names)),
    Row(
        "API server down",
        "install",
        (DONE, FAILED, REFUSED, UNREACHABLE),
        "API|cp1",
        on("cp1", faults_cluster.api_down),
    ),
    Row(
        "etcd frozen",
        "install",
        (FAILED, REFUSED, UNREACHABLE),
        "API|etcd",
        on("cp1", faults_cluster.etcd_paused),
    ),
    Row("kubelet dead", "install", (DONE,), "", on("w1", faults_cluster.unit_stopped, "kubelet")),
    Row(
        "Docker hung",
        "install",
        (REFUSED, UNREACHABLE, FAILED),
        "w1",
        on("w1", faults_cluster.docker_hung),
    ),
    Row(
        "network cut between nodes",
        "install",
        (REFUSED,),
        "w1|w2",
        between(faults_cluster.partition, "w1", "w2"),
    ),
    Row("MTU lowered", "install", (REFUSED,), "(?i)mtu", on("w1", faults.small_mtu, 1400)),
)


@pytest.fixture(scope="module")
def table() -> Iterator[Table]:
    table = Table()
    yield table
    print(f"\n{table.show()}")  # noqa: T201 - the matrix, for the log


@pytest.fixture(scope="module")
def whole_lab(installed_lab: LabSite) -> LabSite:
    _whole(installed_lab)
    return installed_lab


def _start(words: list[str], said: IO[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "appliance", *words],
        stdin=subprocess.DEVNULL,
        stdout=said,
        stderr=subprocess.STDOUT,
        text=True,
    )


@contextmanager
def _in_force(row: Row, lab: LabSite, words: list[str]) -> Iterator[Met]:
    if row.fault is not None:
        with row.fault(lab):
            done = appliance(*words, timeout=SECONDS)
            yield Met(done.returncode, done.stdout + done.stderr)
        return
    assert row.strikes is not None, "a row has a fault or a strike"
    with tempfile.NamedTemporaryFile("w+") as said:
        process = _start(words, said)
        try:
            with row.strikes(lab, process):
                code = process.wait(SECONDS)
                said.seek(0)
                yield Met(code, said.read())
        finally:
            process.kill()
            process.wait()


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(row, id=f"{row.command}: {row.name}", marks=[pytest.mark.slow] * row.slow)
        for row in ROWS
    ],
)
def test_the_same_command_heals(row: Row, whole_lab: LabSite, table: Table) -> None:
    lab, command = whole_lab, COMMANDS[row.command]
    words = command.words(lab)
    began = time.monotonic()
    command.prepare(lab)
    with _in_force(row, lab, words) as met:
        assert met.code in row.codes, met.said
        assert re.search(row.says, met.said), met.said
    again = appliance(*words, timeout=SECONDS)
    assert again.returncode == 0, again.stdout + again.stderr
    command.goal(lab)
    command.undo(lab)
    took = time.monotonic() - began
    table.lines.append((row.name, row.command, str(met.code), "0", f"{took:.0f}"))
