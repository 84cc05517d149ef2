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
import os, pathlib, pytest, subprocess
@getattr(pytest.mark, "slow")
def test_a_child_that_sleeps_for_long():
    pathlib.Path({told!r}).write_text(os.environ["APPLIANCE_TEST_FOLDER"])
    subprocess.run(["sh", "-c", "echo $$ >{pid}; exec sleep 600"])
"""


# Rows of a release, with one row for that test.
ROWS = """
from tests.release.__main__ import run
from tests.release.rows import Row
raise SystemExit(run([Row("sleeper", "sleeps", ({file!r},), ("README.md",))]))
"""
# What a shell does to a command that it starts with ``&``.
DEAF = ("sh", "-c", """trap '' INT; exec "$@" """, "sh")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_run_its_workers_and_their_children(
    number: signal.Signals, tmp_path: Path
) -> None:
    words = ["-n", "2", "-p", "tests.conftest", "-p", "no:cacheprovider", "-m", "slow"]
    words += ["--rootdir", str(tmp_path), str(tmp_path / "test_sleeper.py")]
    _ends([sys.executable, "-m", "pytest", *words], number, tmp_path, code=2)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_row_of_a_release(number: signal.Signals, tmp_path: Path) -> None:
    rows = ROWS.format(file=str(tmp_path / "test_sleeper.py"))
    options = f"-p tests.conftest -p no:cacheprovider --rootdir {tmp_path}"
    _ends([sys.executable, "-c", rows], number, tmp_path, code=130, options=options)


def _ends(
    words: list[str], number: signal.Signals, folder: Path, *, code: int, options: str = ""
) -> None:
    """Start a run of a test that sleeps, signal it, and see that nothing of it is left."""
    told, pid = folder / "told", folder / "pid"
    (folder / "test_sleeper.py").write_text(SLEEPER.format(told=str(told), pid=pid))
    own = {key: value for key, value in os.environ.items() if key not in (TOKEN, FOLDER, WORKER)}
    run = subprocess.Popen(
        [*DEAF, *words],
        cwd=ROOT,
        env=own | {"PYTEST_ADDOPTS": options},
        stdout=subprocess.DEVNULL,
    )
    try:
        _wait(lambda: pid.exists() and pid.read_text().strip() != "")
        run.send_signal(number)
        assert run.wait(timeout=60) == code
    finally:
        run.kill()
    assert not Path(f"/proc/{pid.read_text().strip()}").exists()
    assert not Path(told.read_text()).exists()


def _wait(met: Callable[[], bool], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not met():
        assert time.monotonic() < deadline
        time.sleep(0.1)
