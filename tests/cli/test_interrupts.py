"""SIGTERM and SIGHUP end a real process as Ctrl-C does; no play outlives its command."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from appliance.adapters.ansible.play_processes import MARK, ending_with_us
from appliance.adapters.control_plane.journal import journal_of
from appliance.cli import exits
from tests import processes
from tests.cli.faked_command import ROOT, words

PATIENCE_SECONDS = 30.0


def wait_for(there: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not there():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@contextmanager
def running(argv: list[str]) -> Iterator[subprocess.Popen[str]]:
    """A process of its own group, as one is that lost its terminal; it is killed at the end."""
    with subprocess.Popen(
        argv,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_terminated_install_is_recorded_as_interrupted(
    number: signal.Signals, tmp_path: Path
) -> None:
    with running([*words(tmp_path, "runtime", "install", "--yes")]) as process:
        wait_for((tmp_path / "hangs").exists)
        process.send_signal(number)
        said, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == (143 if number == signal.SIGTERM else 130)
    assert "error: interrupted" in said
    assert (f"ended by: {number.name}" in said) == (number != signal.SIGINT)
    assert "run the same command again" in said
    assert "Traceback" not in said
    assert [record.outcome for record in journal_of(tmp_path).read(limit=50)] == [
        "verified", "verified", "verified", "interrupted",
    ]  # fmt: skip


def test_a_signal_that_is_ignored_at_the_start_stays_ignored(tmp_path: Path) -> None:
    argv = [*words(tmp_path, "runtime", "install", "--yes")]
    with running(["sh", "-c", 'trap "" HUP; exec "$@"', "nohup", *argv]) as process:
        wait_for((tmp_path / "hangs").exists)
        process.send_signal(signal.SIGHUP)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=0.5)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_SECONDS) == 143


PROMPTED = """
    import sys, time
    from pathlib import Path
    from appliance.adapters.site.vault import password_source
    from appliance.cli.screen.interrupts import end_like_ctrl_c

    end_like_ctrl_c()
    with password_source(Path(sys.argv[1]), ask=lambda: "secret") as file:
        try:
            print(file, flush=True)
            time.sleep(60)
        finally:
            print("cleaning up", flush=True)
            time.sleep(0.3)
"""


def test_the_password_file_is_removed_when_two_signals_arrive(
    tmp_path: Path,
) -> None:
    script = textwrap.dedent(PROMPTED)
    with running([sys.executable, "-c", script, str(tmp_path)]) as process:
        assert process.stdout is not None
        file = Path(process.stdout.readline().strip())
        assert file.read_text() == "secret\n"
        process.send_signal(signal.SIGHUP)
        assert process.stdout.readline() == "cleaning up\n"
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_SECONDS) != 0
    assert not file.parent.exists()


PLAYING = """
    import os, subprocess, sys, time
    from appliance.adapters.ansible.play_processes import ending_with_us

    with ending_with_us("/a/site") as marks:
        play = subprocess.Popen(
            ["sh", "-c", "trap '' HUP INT; setsid sleep 100 & wait"],
            env={**os.environ, **marks}, start_new_session=True,
        )
        print(play.pid, flush=True)
        time.sleep(60)
"""


def alive(group: int) -> list[int]:
    """Processes that are left of a play, wherever its children went."""
    found = []
    for pid in processes.pids():
        fields, mine = processes.status(pid), False
        with suppress(OSError):
            environment = (processes.PROC / str(pid) / "environ").read_bytes()
            mine = b"APPLIANCE_PLAY_OF=/a/site" in environment
        if fields[:1] not in ([], ["Z"]) and (mine or int(fields[2]) == group):
            found.append(pid)
    return found


@pytest.mark.parametrize("how", ["SIGKILL", "SIGKILL of the group", "SIGINT"])
def test_no_play_outlives_its_command(how: str) -> None:
    with running([sys.executable, "-c", textwrap.dedent(PLAYING)]) as process:
        assert process.stdout is not None
        play = int(process.stdout.readline())
        wait_for(lambda: len(alive(play)) > 1)
        if how.endswith("group"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.send_signal(getattr(signal, how))
        process.wait(PATIENCE_SECONDS)
    wait_for(lambda: not alive(play))


def test_the_guard_leaves_other_plays_of_the_site_alone() -> None:
    with ending_with_us("/another/site") as marks:
        play = subprocess.Popen(["sleep", "100"], env={MARK: marks[MARK]})
        try:
            with pytest.raises(KeyboardInterrupt), ending_with_us("/another/site"):
                raise KeyboardInterrupt
            assert play.poll() is None
        finally:
            play.kill()
            play.wait()


def test_an_interrupted_command_names_open_connections(capsys: pytest.CaptureFixture[str]) -> None:
    connected = threading.Event()
    thread = threading.Thread(target=connected.wait, args=(20,))
    thread.start()
    try:
        exits._name_open_connections(0.01)
    finally:
        connected.set()
        thread.join()
    assert "waiting for a connection to finish opening" in capsys.readouterr().err
    exits._name_open_connections(0.01)
    assert capsys.readouterr().err == ""
