"""Programs are started, watched and ended in one place."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

import pytest

from appliance.adapters.local import processes
from appliance.errors import CommandFailed
from tests.processes import is_running


def test_output_and_status_are_kept() -> None:
    done = processes.run(["sh", "-c", "echo out; echo err >&2; exit 3"], check=False)
    assert (done.returncode, done.stdout, done.stderr) == (3, "out\n", "err\n")
    assert done.output == "out\nerr"
    assert not done.ok


def test_a_failure_tells_the_command_and_the_last_words(tmp_path: Path) -> None:
    log = tmp_path / "deep" / "log"
    with pytest.raises(CommandFailed, match="sh failed with exit status 3") as caught:
        processes.run(["sh", "-c", "echo out; echo why >&2; exit 3"], hint="look", log=log)
    assert caught.value.details[-1] == "why"
    assert caught.value.details[0].startswith("command: sh -c ")
    assert (caught.value.hint, caught.value.log_path) == ("look", log)
    assert set(log.read_text().split()) == {"out", "why"}


def test_a_missing_program_is_reported_with_what_to_do() -> None:
    with pytest.raises(CommandFailed, match="no-such-program could not be started") as caught:
        processes.run(["no-such-program"])
    assert "no-such-program" in str(caught.value.hint)


def test_the_time_limit_ends_the_grandchildren_too(tmp_path: Path) -> None:
    script = f"sleep 60 & echo $! > {tmp_path}/pid; wait"
    with pytest.raises(CommandFailed, match=r"did not finish within 3 s"):
        processes.run(["sh", "-c", script], timeout=3)
    pid = int((tmp_path / "pid").read_text())
    deadline = time.monotonic() + 30
    while is_running(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not is_running(pid)


def test_a_signal_is_named() -> None:
    with pytest.raises(CommandFailed, match="was ended by signal 9"):
        processes.run(["sh", "-c", "kill -9 $$"])


def test_input_environment_folder_and_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GONE", "x")
    lines: list[str] = []
    done = processes.run(
        ["sh", "-c", 'cat; pwd; echo "$NEW${GONE-unset}"'],
        stdin="given\n", cwd=tmp_path, env={"NEW": "new-", "GONE": ""}, on_line=lines.append,
    )  # fmt: skip
    assert done.stdout == f"given\n{tmp_path}\nnew-unset\n"
    assert lines == done.stdout.splitlines()


def test_more_output_than_a_pipe_holds_does_not_block() -> None:
    done = processes.run(["sh", "-c", "head -c 300000 /dev/zero | tr '\\0' x; echo; echo e >&2"])
    assert len(done.stdout) == 300001


def test_an_interrupt_ends_what_runs_in_other_threads() -> None:
    errors: list[CommandFailed] = []
    started = threading.Event()

    def work() -> None:
        try:
            processes.run(["sh", "-c", "echo go; sleep 60"], on_line=lambda _line: started.set())
        except CommandFailed as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    assert started.wait(10)
    processes.end_all()
    thread.join(10)
    assert "signal 15" in errors[0].message


def test_a_program_is_found_in_the_system_folders_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert processes.find_program("ldconfig") is not None
    assert processes.find_program("no-such-program") is None


def test_bytes_are_fed_as_they_are() -> None:
    done = processes.run(["od", "-An", "-tx1"], stdin=b"\xff\x00\xc3")
    assert done.stdout.split() == ["ff", "00", "c3"]


def test_what_is_attended_keeps_our_terminal_and_is_still_ended_in_time() -> None:
    ours = os.getsid(0)
    script = "import os; print(os.getsid(0))"
    assert int(processes.run([sys.executable, "-c", script], attended=True).stdout) == ours
    assert int(processes.run([sys.executable, "-c", script]).stdout) != ours
    began = time.monotonic()
    with pytest.raises(CommandFailed, match=r"did not finish within 0\.2 s"):
        processes.run(["sleep", "60"], attended=True, timeout=0.2)
    assert time.monotonic() - began < 10
