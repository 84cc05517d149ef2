"""What keeps two runs on one machine apart: a token in every name, and a folder of its own.

The process that begins a run chooses both and hands them to its workers and commands by the
environment; ``python -m tests.release`` does the same for all of its rows.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from appliance.adapters.local.content import default_release
from appliance.adapters.local.processes import find_program
from appliance.errors import CommandFailed
from appliance.lab.layout import SYSTEMS
from appliance.lab.machine.podman import Podman
from appliance.model.programs import Use
from tests.commands import appliance, succeed
from tests.prerequisites import require_for

TOKEN, FOLDER = "APPLIANCE_TEST_RUN", "APPLIANCE_TEST_FOLDER"
OF_RELEASE = "APPLIANCE_TEST_RELEASE"
STORY = "e2e"
WORKER = "PYTEST_XDIST_WORKER"
# How often podman is asked what is left, and a lab taken down.
TRIES = 2
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PODMANS_OWN = {"conmon", "aardvark-dns"}
# What the nodes of this run's labs run; the row debian-11 of a release chooses another.
RELEASE, OS = default_release(), os.environ.get("APPLIANCE_TEST_OS") or SYSTEMS[0]


def begin() -> bool:
    """Choose the run's token and folder; False where a parent has chosen them."""
    if TOKEN in os.environ:
        return False
    os.environ[TOKEN] = secrets.token_hex(2)
    os.environ[FOLDER] = tempfile.mkdtemp(prefix=f"appliance-test-{token()}-")
    return True


def end_by_signals() -> None:
    """Let a signal end this process like Ctrl-C, even where its parent ignored the signal."""
    for number in SIGNALS:
        signal.signal(number, _interrupt)


def _interrupt(number: int, _frame: FrameType | None) -> None:
    for each in SIGNALS:  # once: what is being cleared away is not interrupted again
        signal.signal(each, signal.SIG_IGN)
    raise KeyboardInterrupt(signal.Signals(number).name)


def token() -> str:
    """Four characters that the names of this run end with."""
    return os.environ[TOKEN]


def folder() -> Path:
    """The run's own folder; it is removed when the run ends."""
    return Path(os.environ[FOLDER])


def lab_name(short: str) -> str:
    """The name of one of this run's labs. A worker that needs its own says so in ``short``."""
    return f"{short}-{token()}"


def worker() -> str:
    """``0`` or the number of this worker of pytest-xdist."""
    return os.environ.get(WORKER, "gw0").removeprefix("gw")


def story_name() -> str:
    """The name of the lab that the story's tests share, one for each worker."""
    return lab_name(f"{STORY}{worker()}")


def labs() -> set[str]:
    """The labs of this run, as podman tells at the second time of asking at the latest."""
    why = ""
    for _ in range(TRIES):
        try:
            found = Podman().nodes() if find_program("podman") else ()
        except CommandFailed as error:
            why = error.message
        else:
            return {node.lab for node in found if node.lab.endswith(f"-{token()}")}
    _say(f"{why}: labs of this run may be left: appliance lab status; appliance lab down --name")
    return set()


def lab_down(name: str) -> None:
    """Take a lab of this run down, or what there is of it."""
    if find_program("podman"):
        succeed("lab", "down", "--name", name, "--yes")


def is_release() -> bool:
    """Whether rows of a release are run: they share the story's lab while they pass."""
    return OF_RELEASE in os.environ


@contextmanager
def alone(what: str) -> Iterator[None]:
    """Keep the other workers of this run out while the block lasts."""
    with (folder() / f"{what}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def built_bundle(*, standins: bool = False, os_name: str = OS) -> Path:
    """The bundle, built once a run by the real command, or the one that the caller names.

    ``APPLIANCE_TEST_BUNDLE=DIR`` and, with stand-ins, ``APPLIANCE_TEST_GPU_BUNDLE=DIR`` name one.
    """
    given = os.environ.get("APPLIANCE_TEST_GPU_BUNDLE" if standins else "APPLIANCE_TEST_BUNDLE")
    if given and os_name == OS:
        return Path(given)
    directory = folder() / f"bundle-{os_name}{'-standins' if standins else ''}"
    words = ["bundle", "build", "--release", RELEASE, "--os", os_name, str(directory)]
    with alone(directory.name):
        if not (directory / "manifest.json").is_file():
            require_for(Use.BUILD, Use.COMPILE)
            succeed(*words, *(["--standins"] if standins else []), "--yes", timeout=3600)
    return directory


def end() -> None:
    """Leave nothing of this run: its processes, labs and folder. For who began it.

    A machine that is too busy to answer fails no run: what stays is said, with what removes it.
    A lab that podman names and that does not go is a fault.
    """
    _end_processes()
    try:
        for name in sorted(labs()):
            _take_down(name)
    finally:
        shutil.rmtree(folder(), ignore_errors=True)


def _take_down(name: str) -> None:
    for last in range(TRIES):
        try:
            done = appliance("lab", "down", "--name", name, "--yes")
        except subprocess.TimeoutExpired as error:
            _say(f"lab {name} was not down in {error.timeout:.0f} s: appliance lab down "
                 f"--name {name} --yes")  # fmt: skip
            return
        if done.returncode == 0:
            return
        assert last < TRIES - 1, done.stderr


def _say(line: str) -> None:
    sys.stderr.write(f"the run's end: {line}\n")


def _end_processes() -> None:
    """End what this run started and left behind, known by the token in its environment.

    What podman keeps for its containers is left to podman: it goes with the lab.
    """
    mark = f"{TOKEN}={token()}".encode()
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            name = (entry / "comm").read_text().strip()
            if int(entry.name) == os.getpid() or name in PODMANS_OWN:
                continue
            if mark in (entry / "environ").read_bytes().split(b"\0"):
                os.kill(int(entry.name), signal.SIGKILL)
