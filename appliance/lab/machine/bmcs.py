"""The processes that are BMCs of labs: one for each lab, which goes on without its starter.

A lock that the process inherits says whether it runs: a lock ends with its process, and no number
of a process is trusted without it. Its configuration has passwords, so its folder is root's alone.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any, Final

from appliance.adapters.local.content import STANDINS
from appliance.adapters.local.processes import find_program, run, search_path
from appliance.adapters.local.state_files import replace_file
from appliance.errors import CommandFailed, LabError
from appliance.lab.bmcs import (
    PORT,
    LabBmc,
    LabBmcProgram,
    LabBmcsState,
    address_commands,
    configuration,
)
from appliance.lab.machine.bmc_certificate import fingerprint, write_certificate
from appliance.lab.machine.podman import LABEL
from appliance.lab.site.site import STATE
from appliance.model.node.bmc.report import Login

PROGRAM: Final = STANDINS / "bmc_standin" / "bmc_standin.py"
FILES: Final = STATE / "bmcs-standin"
RUN: Final = Path("/run")
_PREFIX, _SUFFIX = "appliance-lab-", "-bmcs-standin"
_CONFIG, _LOCK, _LOG, _PORTS = "config.json", "pid", "log", "ports"
_START_SECONDS: Final = 60.0
_END_SECONDS: Final = 30.0
_TICK: Final = 0.05
_WRITTEN: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
_AGAIN: Final = "run the same command again: it starts them again"


class BmcProcesses:
    """The BMCs of the labs of this machine.

    Args:
        root: the folder that has one folder for each lab.
        port: of every BMC.
    """

    def __init__(self, root: Path = RUN, port: int = PORT) -> None:
        self._root, self._port = root, port

    def certificates(self, directory: Path, bmcs: Sequence[LabBmc]) -> Mapping[str, str]:
        """Make the certificates that are missing; node -> the SHA-256 fingerprint of its own.

        Raises:
            LabError: the site's state cannot be written.
        """
        folder = directory / FILES
        try:
            return {
                bmc.node: fingerprint(write_certificate(folder, bmc.node, bmc.address))
                for bmc in bmcs
            }
        except (OSError, ValueError) as error:
            raise LabError(
                f"the certificates of BMCs in {folder} cannot be made or read: {error}",
                hint="make room, or remove that folder: the same command makes new ones",
            ) from error

    def start(
        self,
        lab: str,
        network: IPv4Network,
        directory: Path,
        bmcs: Sequence[LabBmc],
        logins: Mapping[str, Login],
    ) -> bool:
        """Start the program of a lab; False: it runs, with these BMCs and logins.

        Raises:
            LabError: it did not start.
            CommandFailed: this machine does not take an address.
        """
        folder, addresses = self._folder(lab), [str(bmc.address) for bmc in bmcs]
        podman = str(find_program("podman") or "podman")
        program = LabBmcProgram(
            podman=podman,
            files=str((directory / FILES).resolve()),
            needed=(podman, "ps", "--all", "--quiet", "--filter", f"label={LABEL}={lab}"),
            end=address_commands(str(network), addresses, take=False),
            port=self._port,
        )
        told = {"network": str(network), **configuration(bmcs, logins, program)}
        text = json.dumps(told, indent=1)
        if _process(folder) is not None and _text(folder / _CONFIG) == text:
            return False
        self.stop(lab)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(folder / _CONFIG, text)
        for words in address_commands(str(network), addresses, take=True):
            run(words)
        _launch(lab, folder, len(bmcs))
        return True

    def running(self, lab: str | None = None) -> tuple[LabBmcsState, ...]:
        """What was started for one lab, or for all, and not yet stopped."""
        found = []
        for folder in sorted(self._root.glob(f"{_PREFIX}*{_SUFFIX}")):
            name = folder.name.removeprefix(_PREFIX).removesuffix(_SUFFIX)
            # As with containers: only root sees root's.
            with suppress(PermissionError):
                if lab in (None, name):
                    told = _told(folder).get("bmcs", ())
                    addresses = {str(one["node"]): str(one["address"]) for one in told}
                    found.append(LabBmcsState(name, _process(folder), addresses))
        return tuple(found)

    def stop(self, lab: str) -> bool:
        """End the program of a lab, and take its addresses back; False: there was none.

        Raises:
            LabError: it did not end.
        """
        folder = self._folder(lab)
        if not folder.is_dir():
            return False
        _end(lab, folder)
        told = _told(folder)
        if told:
            addresses = [str(one["address"]) for one in told["bmcs"]]
            for words in address_commands(str(told["network"]), addresses, take=False):
                # Where the program ended by itself, it took them back.
                with suppress(CommandFailed):
                    run(words)
        shutil.rmtree(folder)
        return True

    def _folder(self, lab: str) -> Path:
        return self._root / f"{_PREFIX}{lab}{_SUFFIX}"


def _launch(lab: str, folder: Path, count: int) -> None:
    """Start the program in a session of its own, and wait until each BMC listens."""
    lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _take(lab, lock)
        os.set_inheritable(lock, True)
        words = ["sh", "-c", 'cd / && exec "$@"', "sh", sys.executable, "-B"]
        pid = os.posix_spawn(
            str(find_program("sh")),
            [*words, str(PROGRAM), str(folder / _CONFIG)],
            {**os.environ, "PATH": search_path()},
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, str(folder / _PORTS), _WRITTEN, 0o600),
                (os.POSIX_SPAWN_OPEN, 2, str(folder / _LOG), _WRITTEN, 0o600),
            ],
            setsid=True,
        )
        os.pwrite(lock, b"%d\n" % pid, 0)
    finally:
        os.close(lock)
    deadline = time.monotonic() + _START_SECONDS
    while len(_text(folder / _PORTS).splitlines()) < count:
        ended = os.waitpid(pid, os.WNOHANG)[0] == pid
        if ended or time.monotonic() > deadline:
            why = (_text(folder / _LOG).strip().splitlines() or ["no output"])[-1]
            if not ended:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            raise LabError(f"the BMCs of lab {lab} did not start: {why}", hint=_AGAIN)
        time.sleep(_TICK)


def _take(lab: str, lock: int) -> None:
    """Take the lock; somebody who looks has it for a moment."""
    for _ in range(20):
        with suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        time.sleep(_TICK)
    raise LabError(f"another command starts the BMCs of lab {lab}", hint=_AGAIN)


def _process(folder: Path) -> int | None:
    """The process that serves, which has the lock; None: nobody has it."""
    try:
        lock = os.open(folder / _LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        # Not yet written: it is about to be started. No signal is sent to such a number.
        return int(os.pread(lock, 20, 0) or b"0")
    else:
        return None
    finally:
        os.close(lock)


def _end(lab: str, folder: Path) -> None:
    """End the process that has the lock, and wait until nobody has it."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        pid = _process(folder)
        if pid is None:
            return
        if pid:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        deadline = time.monotonic() + _END_SECONDS
        while time.monotonic() < deadline:
            if pid:
                _reap(pid)
            if _process(folder) is None:
                return
            time.sleep(_TICK)
    raise LabError(
        f"the BMCs of lab {lab} did not end: process {pid}",
        hint=f"end it: kill -KILL {pid}; then run the same command again",
    )


def _reap(pid: int) -> None:
    """Take note of the end of a child of ours, which else stays in the list of processes."""
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except FileNotFoundError:
        return ""


def _told(folder: Path) -> dict[str, Any]:
    """The configuration of the program; empty where it was not written to its end."""
    with suppress(ValueError):
        found = json.loads(_text(folder / _CONFIG))
        return found if isinstance(found, dict) else {}
    return {}
