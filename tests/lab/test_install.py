"""End to end: three bare nodes, kills in the middle, and the same command until all is proven.

The tests of this file tell one story and run in its order; each begins where the one before ended.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

import pytest

from tests import processes
from tests.lab.conftest import LabSite, wait_for
from tests.lab.support import faults

pytestmark = pytest.mark.lab


def _kill_when(lab: LabSite, what: str, there: Callable[[], bool]) -> None:
    """Start an install, and SIGKILL its control process at the moment ``there`` is true."""
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "appliance", *lab.install_words()],
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
        )
        try:
            wait_for(what, lambda: there() or process.poll() is not None, 600)
            said.seek(0)
            assert process.poll() is None, f"ended before {what}: {said.read()}"
        finally:
            process.kill()
            process.wait()


def _alive(lab: LabSite, short: str, pattern: str) -> bool:
    """Whether a process runs there; write ``[k]ubeadm`` so that the shell itself is no match."""
    return bool(lab.shell(short, f"pgrep -f -- '{pattern}' || true").strip())


def _api_up(lab: LabSite) -> bool:
    python = (
        "import ssl,urllib.request as u;"
        "print(u.urlopen('https://127.0.0.1:6443/healthz',timeout=2,"
        "context=ssl._create_unverified_context()).status)"
    )
    return lab.shell("cp1", f'python3 -c "{python}" 2>/dev/null || true').strip() == "200"


def test_bare_nodes_need_every_step(lab: LabSite) -> None:
    unmet = {item["step"] for item in lab.status()["unmet"]}
    assert unmet == {
        *("host", "artifacts", "runtime", "registry"),
        *("control_plane", "network", "workers"),
    }


def _plays(lab: LabSite) -> list[str]:
    """The command lines of this site's plays that run on this machine."""
    lines = processes.command_lines().values()
    return [line for line in lines if "ansible-playbook" in line and str(lab.directory) in line]


def test_ctrl_c_stops_the_play_says_so_and_leaves_nothing_behind(lab: LabSite) -> None:
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "appliance", *lab.install_words()],
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
        )
        runs = lab.directory / ".appliance" / "runs"
        wait_for("a play of step host", lambda: any(runs.glob("*/host/artifacts/*/job_events/*")))
        assert _plays(lab) != []
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 130
        said.seek(0)
        assert "error: interrupted while host was running" in said.read()
    assert _plays(lab) == [], "a play went on after Ctrl-C"
    assert lab.records()[-1]["outcome"] == "interrupted"


def test_a_worker_that_is_not_cabled_yet_is_left_out_and_named(lab: LabSite) -> None:
    before = len(lab.records())
    with faults.sshd_stopped(lab.node("w2")):
        done = lab.install("--until", "host", "--output", "json")
    assert done.returncode == 1, done.stderr
    found = json.loads(done.stdout)["plan"]
    assert [one["node"] for one in found["left_out"]] == [lab.node("w2")]
    assert f"error: incomplete, a node was left out: {lab.node('w2')}" in done.stderr
    for record in lab.records()[before:]:
        assert record["outcome"] == "verified"
        assert lab.node("w2") not in record["nodes"]
    left = {item["node"] for item in lab.status()["unmet"] if item["step"] == "host"}
    assert left <= {lab.node("w2")}


def test_a_kill_while_packages_are_installed_is_survived(lab: LabSite) -> None:
    # As apt unpacks; a mere question to dpkg is no work.
    unpacks = "^/usr/bin/dpkg .*--unpack"
    _kill_when(lab, "dpkg at work on w1", lambda: _alive(lab, "w1", unpacks))
    assert lab.records()[-1]["outcome"] == "verified", "a killed step must leave no record"


def test_a_kill_in_the_middle_of_kubeadm_init_is_survived(lab: LabSite) -> None:
    def in_the_middle() -> bool:
        return _alive(lab, "cp1", "[k]ubeadm init") and bool(
            lab.shell("cp1", "ls /etc/kubernetes/pki/ca.crt 2>/dev/null || true").strip()
        )

    _kill_when(lab, "kubeadm init after its CA, before the API", in_the_middle)
    assert not _api_up(lab), "the API was up already: the kill came too late to prove anything"
    # What the control process started must not outlive it into the next run, either.
    lab.shell("cp1", "pkill -KILL -f '[k]ubeadm init' || true")
    assert not _alive(lab, "cp1", "[k]ubeadm init")


JOIN = "^/usr/local/bin/kubeadm join"


def _joins(lab: LabSite, short: str) -> list[str]:
    """Pid and start of each ``kubeadm join`` that runs there."""
    command = f"for p in $(pgrep -f '{JOIN}'); do echo $p-$(cut -d' ' -f22 /proc/$p/stat); done"
    return lab.shell(short, f"{command} 2>/dev/null || true").split()


def test_a_kill_while_workers_join_and_the_same_command_at_once(lab: LabSite) -> None:
    _kill_when(lab, "kubeadm join on a worker", lambda: bool(_joins(lab, "w1")))
    first = _joins(lab, "w1")
    assert len(first) == 1, "what was killed here must not have taken the join with it"
    # Held still, it is at work for sure when the second command comes to it.
    pid = first[0].partition("-")[0]
    lab.shell("w1", f"kill -STOP {pid}")
    runs = lab.directory / ".appliance" / "runs"
    before = set(runs.glob("*"))
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "appliance", *lab.install_words()],
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
        )
        seen: set[str] = set()
        most = 0

        def sampled(until: Callable[[], bool]) -> bool:
            nonlocal most
            joins = _joins(lab, "w1")
            seen.update(joins)
            most = max(most, len(joins))
            return until() or process.poll() is not None

        def in_the_workers_play() -> bool:
            plays = (run / "workers" / "artifacts" for run in set(runs.glob("*")) - before)
            return any(next(play.glob("*/job_events/*"), None) for play in plays)

        try:
            wait_for("the second command at the workers", lambda: sampled(in_the_workers_play))
            deadline = time.monotonic() + 10
            wait_for("ten seconds of it", lambda: sampled(lambda: time.monotonic() > deadline))
            assert process.poll() is None, "it did not wait for the join that runs"
            assert seen == set(first), "a second join runs beside the first"
        finally:
            lab.shell("w1", f"kill -CONT {pid}")
        wait_for("its end", lambda: sampled(lambda: False), 600)
        said.seek(0)
        assert process.wait() == 0, said.read()
        said.seek(0)
        assert "took over the lock of install by" in said.read()
    assert most == 1


def test_the_same_command_ends_with_three_ready_nodes(lab: LabSite) -> None:
    done = lab.install()
    assert done.returncode == 0, done.stderr
    status = lab.settled()
    assert [node["status"] for node in status["nodes"]] == ["Ready"] * 3, done.stderr
    assert status["standins"], "a lab must say what only plays a part"


def test_a_second_run_changes_nothing_and_says_so(lab: LabSite) -> None:
    records = len(lab.records())
    began = time.monotonic()
    done = lab.install()
    took = time.monotonic() - began
    assert done.returncode == 0, done.stderr
    assert "nothing to do" in done.stdout
    assert len(lab.records()) == records
    print(f"second run: {took:.1f} s")  # noqa: T201 - a figure for the log


def test_status_and_history_read_well(lab: LabSite) -> None:
    records = lab.records()
    outcomes = {record["outcome"] for record in records}
    assert outcomes <= {"verified", "failed", "not verified", "interrupted"}
    assert all(record["why"] and record["bundle_digest"] for record in records)
    last = records[-1]
    assert last["step"] == "workers"
    assert last["before"] != last["after"]


def test_deleting_the_state_changes_no_plan(lab: LabSite) -> None:
    state = lab.directory / ".appliance"
    kept = state.rename(lab.directory.with_name("state-kept-aside"))
    try:
        (state / "ssh").mkdir(parents=True)
        for item in kept.glob("ssh/*"):
            (state / "ssh" / item.name).write_bytes(item.read_bytes())
            (state / "ssh" / item.name).chmod(0o600)
        done = lab.install("--dry-run")
        assert "nothing to do" in done.stdout, done.stdout + done.stderr
    finally:
        subprocess.run(["rm", "-rf", str(state)], check=True)
        kept.rename(state)


def _replay(lab: LabSite, *more: str) -> dict[str, dict[str, int]]:
    """Run the plain command that the last run's log prints for the workers; the play recap."""
    runs = sorted((lab.directory / ".appliance" / "runs").iterdir())
    commands = (runs[-1] / "commands.log").read_text().splitlines()
    done = subprocess.run(
        ["sh", "-c", f"{commands[-1]} {' '.join(more)}"],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    recap = done.stdout.rpartition("PLAY RECAP")[2].splitlines()[1:]
    rows = (line.split(":", 1) for line in recap if ":" in line)
    return {
        host.strip(): {k: int(v) for k, v in (item.split("=") for item in counts.split())}
        for host, counts in rows
    }


def test_the_logged_ansible_command_converges_and_changes_nothing(lab: LabSite) -> None:
    recap = _replay(lab)
    assert len(recap) >= 2
    assert {counts["changed"] for counts in recap.values()} == {0}, json.dumps(recap)
