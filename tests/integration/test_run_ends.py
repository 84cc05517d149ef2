"""A signal ends a run of the tests, wherever it was started from, and leaves nothing of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.this_run import FOLDER, TOKEN, WORKER

ROOT = Path(__file__).parents[2]
SLEEPER = """
import os, pathlib, subprocess
def test_a_child_that_sleeps_for_long():
    pathlib.Path({told!r}).write_text(os.environ["APPLIANCE_TEST_FOLDER"])
    subprocess.run(["sh", "-c", "echo $$ >{pid}; exec sleep 600"])
"""


# What a shell does to a command that it starts with ``&``.
DEAF = ("sh", "-c", """trap '' INT; exec "$@" """, "sh")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_run_its_workers_and_their_children(
    number: signal.Signals, tmp_path: Path
) -> None:
    told, pid = tmp_path / "told", tmp_path / "pid"
    file = tmp_path / "test_sleeper.py"
    file.write_text(SLEEPER.format(told=str(told), pid=pid))
    own = {key: value for key, value in os.environ.items() if key not in (TOKEN, FOLDER, WORKER)}
    words = [
        "-n",
        "2",
        "-p",
        "tests.conftest",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(tmp_path),
    ]
    run = subprocess.Popen(
        [*DEAF, sys.executable, "-m", "pytest", *words, "--rootdir", str(tmp_path), str(file)],
        cwd=ROOT,
        env=own | {"PYTEST_ADDOPTS": ""},
        stdout=subprocess.DEVNULL,
    )
    try:
        _wait(lambda: pid.exists() and pid.read_text().strip() != "")
        run.send_signal(number)
        assert run.wait(timeout=60) == 2
    finally:
        run.kill()
    assert not Path(f"/proc/{pid.read_text().strip()}").exists()
    assert not Path(told.read_text()).exists()


def _wait(met: Callable[[], bool], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not met():
        assert time.monotonic() < deadline
        time.sleep(0.1)
