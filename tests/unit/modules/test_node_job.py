"""The transient unit engine, against a fake systemd that really runs the runner."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.unit.modules.loading import load_utils

engine = load_utils("appliance_job")


class FakeSystemd:
    """Starts what systemd-run is asked to start, and knows whether it still runs."""

    def __init__(self) -> None:
        self.units: dict[str, subprocess.Popen[bytes]] = {}
        self.started: list[str] = []
        self.refuse: str | None = None
        self.loses_answers = False
        self.silence: tuple[int, str, str] | None = None

    def run(self, argv: list[str]) -> tuple[int, str, str]:
        if argv[0] == "systemd-run":
            if self.refuse:
                return 1, "", self.refuse
            unit = argv[1].partition("=")[2]
            command = argv[argv.index("--quiet") + 1 :]
            self.units[unit] = subprocess.Popen(command)
            self.started.append(unit)
            if self.loses_answers:
                self.units[unit].wait()
                return 1, "", "Failed to start transient service unit: Connection timed out"
            return 0, "", ""
        if argv[1] == "show" and self.silence:
            return self.silence
        if argv[1] == "show":
            process = self.units.get(argv[-1])
            running = process is not None and process.poll() is None
            return 0, f"ActiveState={'active' if running else 'inactive'}\n", ""
        return 0, "", ""


@pytest.fixture
def systemd() -> Any:
    fake = FakeSystemd()
    yield fake
    for process in fake.units.values():
        process.kill()
        process.wait()


def make(systemd: FakeSystemd, directory: Path, name: str = "work") -> Any:
    return engine.NodeJob(name, systemd.run, python=sys.executable, jobs_dir=str(directory))


def test_a_job_returns_code_output_times_and_leaves_a_private_result(
    systemd: FakeSystemd, tmp_path: Path
) -> None:
    script = (
        "import os,sys; print(os.environ['X'], os.getcwd()); sys.stderr.write('e'); sys.exit(3)"
    )
    result, attached = make(systemd, tmp_path).run(
        [sys.executable, "-c", script], {"X": "one"}, directory=str(tmp_path)
    )
    assert not attached
    assert (result["rc"], result["stdout"], result["stderr"]) == (3, f"one {tmp_path}\n", "e")
    assert result["ended"] >= result["started"]
    assert json.loads((tmp_path / "work.json").read_text()) == result
    assert (tmp_path / "work.spec.json").stat().st_mode & 0o777 == 0o600


def test_a_running_job_with_the_same_command_is_attached_to(
    systemd: FakeSystemd, tmp_path: Path
) -> None:
    command = [sys.executable, "-c", "import time; time.sleep(3); print('done')"]
    with pytest.raises(engine.JobError, match="it keeps running"):
        make(systemd, tmp_path).run(command, deadline_seconds=0.1)
    result, attached = make(systemd, tmp_path).run(command)
    assert attached
    assert result["stdout"] == "done\n"
    assert len(systemd.started) == 1


def test_a_running_job_with_another_command_is_waited_for_and_then_ours_runs(
    systemd: FakeSystemd, tmp_path: Path
) -> None:
    mark = tmp_path / "order"
    first = f"import time; time.sleep(3); open({str(mark)!r},'a').write('first ')"
    with pytest.raises(engine.JobError):
        make(systemd, tmp_path).run([sys.executable, "-c", first], deadline_seconds=0.1)
    second = f"open({str(mark)!r},'a').write('second')"
    result, attached = make(systemd, tmp_path).run([sys.executable, "-c", second])
    assert (result["rc"], attached, mark.read_text()) == (0, False, "first second")


def test_attach_waits_for_whatever_runs(systemd: FakeSystemd, tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import time; time.sleep(3); print('x')"]
    with pytest.raises(engine.JobError):
        make(systemd, tmp_path).run(command, deadline_seconds=0.1)
    assert make(systemd, tmp_path).attach()["stdout"] == "x\n"


def test_a_node_is_idle_when_nothing_runs_however_it_ended(
    systemd: FakeSystemd, tmp_path: Path
) -> None:
    job = make(systemd, tmp_path)
    job.wait_until_idle(0)
    command = [sys.executable, "-c", "import sys, time; time.sleep(3); sys.exit(1)"]
    with pytest.raises(engine.JobError):
        job.run(command, deadline_seconds=0.1)
    with pytest.raises(engine.JobError, match="it keeps running"):
        job.wait_until_idle(0.1)
    job.wait_until_idle(30)
    assert not job.is_running()


def test_a_killed_unit_is_distinguished_from_a_failed_command(
    systemd: FakeSystemd, tmp_path: Path
) -> None:
    clock = iter(range(1000))

    def kill_then_sleep(_: float) -> None:
        for process in systemd.units.values():
            process.kill()
            process.wait()

    job = make(systemd, tmp_path)
    job.clock, job.sleep = lambda: next(clock), kill_then_sleep
    with pytest.raises(engine.JobError, match="without a result"):
        job.run([sys.executable, "-c", "import time; time.sleep(5)"])


def test_a_terminated_unit_still_leaves_a_result(systemd: FakeSystemd, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    script = f"import time; open({str(ready)!r},'w'); time.sleep(1); print('reached the end')"
    job = make(systemd, tmp_path)

    def terminate_when_ready(_: float) -> None:
        if ready.exists():
            systemd.units[job.unit].terminate()
        subprocess.run(["sleep", "0.05"], check=True)

    job.sleep = terminate_when_ready
    result, _ = job.run([sys.executable, "-c", script])
    assert result["stdout"] == "reached the end\n"


def test_the_result_of_an_earlier_run_is_never_used(systemd: FakeSystemd, tmp_path: Path) -> None:
    job = make(systemd, tmp_path)
    first, _ = job.run([sys.executable, "-c", "print(1)"])
    second, _ = job.run([sys.executable, "-c", "print(1)"])
    assert first["run_id"] != second["run_id"]


def test_a_command_that_does_not_exist_is_rc_127(systemd: FakeSystemd, tmp_path: Path) -> None:
    result, _ = make(systemd, tmp_path).run(["/nonexistent/kubeadm"])
    assert result["rc"] == 127
    assert "No such file" in engine.explain(result)


def test_systemd_refusing_the_unit_is_an_error_with_its_words(
    systemd: FakeSystemd, tmp_path: Path
) -> None:
    systemd.refuse = "Unit appliance-work.service already exists."
    with pytest.raises(engine.JobError, match="already exists"):
        make(systemd, tmp_path).run(["true"])


@pytest.mark.parametrize("name", ["", "Upper", "a/b", "../x", "-x"])
def test_a_job_name_cannot_leave_the_folder(name: str, systemd: FakeSystemd) -> None:
    with pytest.raises(engine.JobError, match="lower-case"):
        engine.NodeJob(name, systemd.run)


def test_the_failure_sentence_carries_the_last_lines() -> None:
    said = engine.explain({"job": "x", "rc": 1, "stderr": "a\nb\nc\nd\ne\n", "stdout": ""})
    assert "appliance-x ended with 1: b | c | d | e" in said


SILENT = [
    pytest.param((1, "", "Failed to get properties: Connection timed out"), id="D-Bus is slow"),
    pytest.param((0, "ActiveState=\n", ""), id="no state"),
    pytest.param((0, "", ""), id="no answer"),
]


def patient(systemd: FakeSystemd, directory: Path) -> Any:
    """A job whose clock is not the world's: a second goes by with each look at it."""
    job, seconds = make(systemd, directory), itertools.count()
    job.clock = lambda: next(seconds)
    job.sleep = lambda _: None
    return job


@pytest.mark.parametrize("silence", SILENT)
def test_a_unit_that_systemd_says_nothing_of_may_still_run(
    systemd: FakeSystemd, tmp_path: Path, silence: tuple[int, str, str]
) -> None:
    job = patient(systemd, tmp_path)
    systemd.silence = silence
    assert job.is_running()
    with pytest.raises(engine.JobError, match=r"may still run.*systemctl status.*run again"):
        job.wait_until_idle(5)


def test_a_systemd_that_was_silent_is_asked_again(systemd: FakeSystemd, tmp_path: Path) -> None:
    job = patient(systemd, tmp_path)
    systemd.silence = (1, "", "")
    asked: list[int] = []

    def sleep(_: float) -> None:
        asked.append(1)
        systemd.silence = None if len(asked) > 2 else systemd.silence

    job.sleep = sleep
    assert not job.is_running()
    systemd.silence = (1, "", "")
    asked.clear()
    job.wait_until_idle(20)
    assert len(asked) == 3


def test_a_run_is_not_lost_while_systemd_is_silent(systemd: FakeSystemd, tmp_path: Path) -> None:
    asked: list[str] = []

    def run(argv: list[str]) -> tuple[int, str, str]:
        asked.append(argv[1])
        if argv[0] == "systemd-run":
            systemd.silence = (1, "", "Connection timed out")
            asked.clear()
        return systemd.run(argv)

    job = engine.NodeJob("work", run, python=sys.executable, jobs_dir=str(tmp_path))
    seconds = itertools.count()
    job.clock = lambda: next(seconds)
    command = [sys.executable, "-c", "import time; time.sleep(3); print('done')"]
    result, _ = job.run(command, deadline_seconds=10000)
    assert result["stdout"] == "done\n"
    assert "show" in asked


def test_nothing_is_started_nor_noted_while_systemd_is_silent(
    systemd: FakeSystemd, tmp_path: Path
) -> None:
    make(systemd, tmp_path).run([sys.executable, "-c", "print(1)"])
    files = {path: path.read_bytes() for path in tmp_path.iterdir()}
    systemd.silence = (1, "", "Failed to get properties: Connection timed out")
    with pytest.raises(engine.JobError, match="Connection timed out"):
        patient(systemd, tmp_path).run([sys.executable, "-c", "print(2)"], deadline_seconds=9)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == files
    assert len(systemd.started) == 1


def test_a_run_that_was_refused_leaves_the_note_of_the_one_before(
    systemd: FakeSystemd, tmp_path: Path
) -> None:
    make(systemd, tmp_path).run([sys.executable, "-c", "print(1)"])
    files = {path: path.read_bytes() for path in tmp_path.iterdir()}
    systemd.refuse = "Unit appliance-work.service already exists."
    with pytest.raises(engine.JobError, match="already exists"):
        make(systemd, tmp_path).run([sys.executable, "-c", "print(2)"])
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == files


def test_a_run_whose_start_was_not_confirmed_is_waited_for(
    systemd: FakeSystemd, tmp_path: Path
) -> None:
    systemd.loses_answers = True
    result, attached = make(systemd, tmp_path).run([sys.executable, "-c", "print(1)"])
    assert (result["stdout"], attached) == ("1\n", False)
    assert len(systemd.started) == 1


def test_what_was_started_is_known_before_it_has_begun(tmp_path: Path) -> None:
    def loading(_argv: list[str]) -> tuple[int, str, str]:
        return 0, "ActiveState=inactive\n", ""

    job, seconds = engine.NodeJob("work", loading, jobs_dir=str(tmp_path)), itertools.count()
    job.clock = lambda: next(seconds)
    with pytest.raises(engine.JobError, match="without a result"):
        job.run(["true"])
    assert job.spec()["command"] == ["true"]


def test_what_runs_is_noted_and_nothing_else_stays(systemd: FakeSystemd, tmp_path: Path) -> None:
    job = make(systemd, tmp_path)
    result, _ = job.run([sys.executable, "-c", "print(1)"])
    assert job.spec()["run_id"] == result["run_id"]
    names = {"runner.py", "work.spec.json", "work.json", "work.out", "work.err"}
    assert {path.name for path in tmp_path.iterdir()} == names
