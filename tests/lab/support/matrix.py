"""Shapes of the fault matrix: commands with their goals, and faults that strike in the middle."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from appliance.model.state.nodes.maintenance import ANNOTATION
from tests.commands import appliance, succeed
from tests.lab.conftest import LabSite, wait_for
from tests.lab.support import faults
from tests.lab.support.cluster import KUBECTL, busybox
from tests.lab.support.frozen import frozen

DONE, FAILED, REFUSED, UNREACHABLE, INTERRUPTED, KILLED = 0, 1, 3, 4, 130, -9
SECONDS = 600
DRIFT = "/etc/sysctl.d/90-appliance.conf"
# A pod that takes its time to end, so that an eviction is long enough to be met by a fault.
SLOW_POD = "slow"
GRACE_SECONDS = 8

Process = subprocess.Popen[str]
Fault = Callable[[LabSite], AbstractContextManager[None]]
Strike = Callable[[LabSite, Process], AbstractContextManager[None]]


def start(words: Sequence[str], said: IO[str]) -> Process:
    """Begin a command; both its outputs go to ``said``."""
    return subprocess.Popen(
        [sys.executable, "-m", "appliance", *words],
        stdin=subprocess.DEVNULL,
        stdout=said,
        stderr=subprocess.STDOUT,
        text=True,
    )


@dataclass(frozen=True)
class Command:
    """A command of the matrix.

    Attributes:
        words: of the command line.
        prepare: gives it something to do.
        goal: asserts that it was reached.
        begun: whether a run of it is in the middle of its work.
        undo: leaves the lab as the next row expects it.
    """

    words: Callable[[LabSite], list[str]]
    prepare: Callable[[LabSite], None]
    goal: Callable[[LabSite], None]
    begun: Callable[[LabSite], Callable[[], bool]]
    undo: Callable[[LabSite], None] = lambda _lab: None


@dataclass(frozen=True)
class Row:
    """One line of the matrix.

    Attributes:
        code: the exit code that is right while the fault is in force.
        says: words of the output then (a regular expression).
        fault: puts itself in force before the command is typed, and asserts it; one that strikes
            in the middle of the command is given by ``strikes`` instead.
    """

    name: str
    command: str
    code: int
    says: str = ""
    fault: Fault | None = None
    strikes: Strike | None = None


@dataclass
class Table:
    """What was seen, for people."""

    lines: list[tuple[str, ...]] = field(default_factory=list)

    def show(self) -> str:
        rows = [("fault", "command", "met with", "again", "seconds"), *self.lines]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            for row in rows
        )


# --- what is asked of the cluster ----------------------------------------------------------------


def node(lab: LabSite, short: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        lab.shell("cp1", f"{KUBECTL} get node {lab.node(short)} -o json")
    )
    return found


def phase(lab: LabSite, short: str) -> str:
    """The phase of our maintenance of a node, or an empty string."""
    text = node(lab, short)["metadata"]["annotations"].get(ANNOTATION)
    return str(json.loads(text)["phase"]) if text else ""


def marks(lab: LabSite, short: str) -> tuple[bool, bool, str]:
    """Whether a node is cordoned, whether it has the drain taint, the phase of its maintenance."""
    spec = node(lab, short)["spec"]
    drained = any(taint["key"] == "runai" for taint in spec.get("taints", ()))
    return bool(spec.get("unschedulable")), drained, phase(lab, short)


def whole(lab: LabSite) -> None:
    """Three nodes, all in service, nothing left to do."""
    status = lab.settled()
    assert [item["status"] for item in status["nodes"]] == ["Ready"] * 3
    assert marks(lab, "w1") == (False, False, "")


# --- commands ------------------------------------------------------------------------------------


def _drift(lab: LabSite) -> None:
    """A worker's settings were lost: enough for a step to be due."""
    lab.shell("w1", f"rm -f {DRIFT}")
    assert any(item["step"] == "host" for item in lab.status()["unmet"])


def _playing(lab: LabSite) -> Callable[[], bool]:
    """Whether a play of a run that begins from now on has shown an event."""
    runs = lab.directory / ".appliance" / "runs"
    before = set(runs.glob("*"))
    return lambda: any(
        next(run.glob("host/artifacts/*/job_events/*"), None)
        for run in set(runs.glob("*")) - before
    )


def slow_pod(lab: LabSite) -> None:
    """A pod on w1 that ignores SIGTERM until its grace is over."""
    image = busybox(lab)
    script = "trap '' TERM; while :; do sleep 1; done"
    document = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": SLOW_POD, "labels": {"app": SLOW_POD}},
        "spec": {
            "nodeSelector": {"kubernetes.io/hostname": lab.node("w1")},
            "terminationGracePeriodSeconds": GRACE_SECONDS,
            "containers": [{"name": "c", "image": image, "command": ["sh", "-c", script]}],
        },
    }
    lab.shell("cp1", f"echo '{_quoted(document)}' | {KUBECTL} apply -f -")
    condition = "--for=condition=Ready --timeout=90s"
    lab.shell("cp1", f"{KUBECTL} wait pod/{SLOW_POD} {condition}")


def _quoted(document: Mapping[str, Any]) -> str:
    return json.dumps(document).replace("'", "'\\''")


def _of_w1(verb: str, *more: str) -> Callable[[LabSite], list[str]]:
    return lambda lab: [
        *("node", verb, lab.node("w1"), "--site", str(lab.directory), "--yes", *more)
    ]


def in_phase(*names: str) -> Callable[[LabSite], Callable[[], bool]]:
    """Whether the maintenance of w1 is in one of these phases."""
    return lambda lab: lambda: phase(lab, "w1") in names


def said_of(lab: LabSite) -> Path:
    """The file with what the command that a fault strikes has said so far."""
    return lab.directory.parent / "said.log"


def _returning(lab: LabSite) -> Callable[[], bool]:
    """Whether a step of the return has begun: it is over too soon to be seen at the API."""
    return lambda: "] return: " in said_of(lab).read_text()


def _out_of_service(lab: LabSite) -> None:
    assert marks(lab, "w1") == (True, True, "out of service")


def _bring_back(lab: LabSite) -> None:
    succeed(*_of_w1("return")(lab), timeout=SECONDS)
    whole(lab)


def _take_out(lab: LabSite) -> None:
    succeed(*_of_w1("maintain")(lab), timeout=SECONDS)
    _out_of_service(lab)


COMMANDS: dict[str, Command] = {
    "install": Command(lambda lab: lab.install_words(), _drift, whole, _playing),
    "maintain": Command(
        _of_w1("maintain", "--budget-wait", "4s"),
        slow_pod,
        _out_of_service,
        in_phase("evict"),
        _bring_back,
    ),
    "return": Command(
        _of_w1("return", "--wait", "3s"), _take_out, whole, _returning, lambda _lab: None
    ),
}


def _of_w2(verb: str, *more: str) -> Callable[[LabSite], list[str]]:
    return lambda lab: [
        *("node", verb, lab.node("w2"), "--site", str(lab.directory), "--yes", *more)
    ]


def members(lab: LabSite) -> list[str]:
    """The names of the cluster's nodes."""
    names = f"{KUBECTL} get nodes -o jsonpath='{{.items[*].metadata.name}}'"
    return lab.shell("cp1", names).split()


def _removed(lab: LabSite) -> None:
    assert lab.node("w2") not in members(lab)
    assert (
        lab.shell("w2", "find /etc/kubernetes /var/lib/cni /var/lib/etcd -type f", check=False)
        == ""
    )


def _remove(lab: LabSite) -> None:
    succeed(*_of_w2("remove")(lab), timeout=SECONDS)
    _removed(lab)


def _rejoin(lab: LabSite) -> None:
    succeed(*_of_w2("rejoin")(lab), timeout=SECONDS)
    whole(lab)


def _leaving(lab: LabSite) -> Callable[[], bool]:
    """Whether w2 is cordoned, or gone already: the removal has begun."""
    return lambda: (
        lab.node("w2") not in members(lab) or bool(node(lab, "w2")["spec"].get("unschedulable"))
    )


def _joining(lab: LabSite) -> Callable[[], bool]:
    return lambda: bool(lab.shell("w2", "pgrep -f '[k]ubeadm join' || true").strip())


COMMANDS["remove"] = Command(_of_w2("remove"), whole, _removed, _leaving, _rejoin)
COMMANDS["rejoin"] = Command(_of_w2("rejoin"), _remove, whole, _joining)


# --- faults that strike in the middle ------------------------------------------------------------


def in_the_middle(strike: Strike) -> Callable[[Command], Strike]:
    """Strike when the command has begun its work, and assert that it still runs."""

    def of(command: Command) -> Strike:
        @contextmanager
        def struck(lab: LabSite, process: Process) -> Iterator[None]:
            begun = command.begun(lab)
            wait_for("its work to begin", lambda: begun() or process.poll() is not None, 300)
            assert process.poll() is None, "it ended before the fault could strike"
            with strike(lab, process):
                yield

        return struck

    return of


@contextmanager
def killed(_lab: LabSite, process: Process) -> Iterator[None]:
    """SIGKILL of the control process."""
    process.send_signal(signal.SIGKILL)
    assert process.wait(10) == KILLED
    yield


@contextmanager
def interrupted(_lab: LabSite, process: Process) -> Iterator[None]:
    """Ctrl-C."""
    process.send_signal(signal.SIGINT)
    yield


@contextmanager
def rebooted(name: str) -> Iterator[None]:
    """The machine boots anew while the command is at work."""
    before = faults.shell(name, "cat /proc/1/stat").split()[21]
    faults.restart(name)
    assert faults.shell(name, "cat /proc/1/stat").split()[21] != before
    yield


def another_operator(lab: LabSite) -> AbstractContextManager[None]:
    """Somebody else is at work: a maintenance of w1 stands still in the middle of its eviction."""

    @contextmanager
    def at_work() -> Iterator[None]:
        with ExitStack() as stack:
            said = stack.enter_context((lab.directory.parent / "other.log").open("w"))
            process = start(COMMANDS["maintain"].words(lab), said)
            stack.callback(process.wait, SECONDS)
            evicting = COMMANDS["maintain"].begun(lab)
            wait_for("the other's eviction", lambda: evicting() or process.poll() is not None)
            # Its lock of this machine is asked for first, and that has no age.
            stack.enter_context(frozen(process))
            assert evicting()
            yield

    return at_work()


def timed(row: Row, lab: LabSite, meet: Callable[[], int]) -> tuple[str, ...]:
    """One line of the table: meet the fault, then the same command until its goal."""
    command, began = COMMANDS[row.command], time.monotonic()
    command.prepare(lab)
    code = meet()
    again = appliance(*command.words(lab), timeout=SECONDS)
    assert again.returncode == DONE, again.stdout + again.stderr
    command.goal(lab)
    took = time.monotonic() - began
    command.undo(lab)
    return (row.name, row.command, str(code), str(again.returncode), f"{took:.0f}")
